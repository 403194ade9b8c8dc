#!/usr/bin/env bash
# Starts a basalt on a free port with an empty directory, runs the clients of
# this directory against it, one after the other, and stops it. With an address
# it runs them against that server instead (redis-server, say); they delete what
# is in it. Without an address it also lets three redis-sentinels replace a master
# that ends under load, ROUNDS times (2 unless set), and twice at rest, half a
# minute each, and kvrocks-controller drive a cluster (controller.sh). promtool
# checks the alert rules where it is installed.
#
# usage: [ROUNDS=N] scripts/compat/run.sh BASALT | HOST:PORT
#
# Installs nodejs, npm, redis-sentinel and etcd when they are missing. Exits 1 when a
# client found something wrong. With REDIS_SOURCE, a source directory of Redis
# 7.2, it also runs Redis's own test suite and counts (docs/compat/redis-suite.md);
# then it exits 1 when a unit aborts.
set -euo pipefail
cd "$(dirname "$0")"

say() { printf 'compat: %s\n' "$*" >&2; }
die() {
	say "$*"
	exit 1
}
[ $# = 1 ] || die "usage: scripts/compat/run.sh BASALT | HOST:PORT"

# provide installs the package that has a program, unless the program is there.
provide() { # program, package
	command -v "$1" >/dev/null && return
	command -v apt-get >/dev/null || die "$1 is needed, and apt-get to install it with is missing"
	local sudo=
	[ "$(id -u)" = 0 ] || sudo=sudo
	say "installing $2"
	# The package's service would listen on the usual port, so it stays off.
	$sudo env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y -qq --no-install-recommends "$2" >/dev/null
	if [ -d /run/systemd/system ] && [ "$2" = redis-sentinel ]; then
		$sudo systemctl disable --now redis-sentinel >/dev/null 2>&1 || true
	fi
}
provide node nodejs
provide npm npm
provide redis-cli redis-tools
provide redis-sentinel redis-sentinel
provide etcd etcd-server

work=$(mktemp -d)
pid=
cleanup() {
	[ -z "$pid" ] || { kill "$pid" && wait "$pid"; } 2>/dev/null || true
	rm -rf "$work"
}
trap cleanup EXIT

address=$1
if [ -x "$OLDPWD/$1" ] || [ -x "$1" ]; then
	basalt=$1
	[ -x "$basalt" ] || basalt=$OLDPWD/$1
	cp ../../kvrocks.toml "$work" # for CONFIG REWRITE
	for _ in $(seq 20); do # another process may take the port that was free
		port=$((20000 + RANDOM % 10000))
		mkdir -p "$work/data"
		"$basalt" -c "$work/kvrocks.toml" --bind 127.0.0.1 --port "$port" --dir "$work/data" >"$work/log" 2>&1 &
		pid=$!
		for _ in $(seq 100); do
			kill -0 "$pid" 2>/dev/null || break
			[ "$(redis-cli -p "$port" ping 2>/dev/null)" = PONG ] && break 2
			sleep 0.1
		done
		wait "$pid" 2>/dev/null || true
		pid=
	done
	[ -n "$pid" ] || { cat "$work/log" >&2; die "$1 does not start"; }
	address=127.0.0.1:$port
fi

[ -f node/node_modules/.package-lock.json ] && [ node/node_modules/.package-lock.json -nt node/package-lock.json ] ||
	(cd node && npm install --no-save --omit=optional --ignore-scripts --no-audit --no-fund --loglevel=error)
(cd goredis && export GOFLAGS= && go build -o "$work/goredis" . && go build -o "$work/failover" ./failover)

failed=0
"$work/goredis" "$address" || failed=1
node node/ioredis.js "$address" || failed=1
node node/bullmq.js "$address" || failed=1
./sentinel.sh "$address" || failed=1
./s3.sh || failed=1
if command -v promtool >/dev/null; then
	promtool check rules ../metrics/alerts.yml || failed=1
else
	say "promtool is missing: the alert rules are not checked"
fi
if [ -n "${REDIS_SOURCE:-}" ]; then
	provide tclsh tcl
	(cd ../.. && go run ./scripts/compat/redissuite "$REDIS_SOURCE" "$address") || failed=1
fi
if [ -n "$pid" ]; then
	if grep -iE 'panic|fatal|DPANIC' "$work/log"; then
		say "basalt complains"
		failed=1
	fi
	kill "$pid"
	wait "$pid" || { say "basalt ended with status $?"; failed=1; }
	pid=
	"$work/failover" -rounds "${ROUNDS:-2}" "$basalt" || failed=1
	./controller.sh "$basalt" || failed=1
fi
exit $failed
