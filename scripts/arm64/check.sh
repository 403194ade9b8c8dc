#!/usr/bin/env bash
# Builds basalt for arm64 and tries it under qemu's emulation: the tests of the C++ code, the server on a database that
# this machine's build wrote, killed and started again, and that database in this machine's build after it. After each
# step the same commands must give the same replies. Ends with a few packages' tests; PKGS names others.
#
# usage: [PKGS="./engine ./server"] scripts/arm64/check.sh BASALT (the program for this machine)
set -euo pipefail
cd "$(dirname "$0")/../.."
basalt=$(realpath "${1:?usage: scripts/arm64/check.sh BASALT}")
# shellcheck source=scripts/env.sh
. scripts/env.sh
# shellcheck source=scripts/arm64/env.sh
. scripts/arm64/env.sh

say() { printf 'arm64: %s\n' "$*"; }
work=$(mktemp -d) pid=
cleanup() {
	[ -z "$pid" ] || kill -9 "$pid" 2>/dev/null || true
	rm -rf "$work"
}
trap cleanup EXIT

go build -buildvcs=false -o build/arm64/basalt .
scripts/check-static.sh build/arm64/basalt
go vet ./...
say "built, vetted: $(go_linux_arm64_exec build/arm64/basalt version | tr '\n' ' ')"
scripts/native.sh arm64

fixture=internal/fixture/testdata/kvrocks-2.10 socket=$work/socket
start() { # command...: starts a server on the database in $work/data
	"$@" --dir "$work/data" --bind '' --unixsocket "$socket" --requirepass sample-admin --log-dir stdout \
		>"$work/log" 2>&1 &
	pid=$!
	for _ in $(seq 300); do
		! redis-cli -s "$socket" -a sample-admin --no-auth-warning PING 2>/dev/null | grep -q PONG || return 0
		sleep 0.2
	done
	tail -n 20 "$work/log" >&2
	return 1
}
stop() { # signal
	kill "-$1" "$pid"
	wait "$pid" 2>/dev/null || true
	pid=
}
redis() { redis-cli -s "$socket" --no-auth-warning "$@"; }
# Without the replies that hold times since the last use.
reads() { grep -avE '^(XINFO CONSUMERS|XPENDING .* - \+|OBJECT)' $fixture/reads.txt | redis; }
same() { # what was done
	reads >"$work/now"
	diff -a "$work/first" "$work/now" || return 1
	say "ok: $1: $(grep -ac . "$work/now") lines of replies are the same"
}
mkdir "$work/data"
emulated=(go_linux_arm64_exec build/arm64/basalt)

start "$basalt"
redis <$fixture/commands.txt >"$work/written"
reads >"$work/first"
stop KILL
start "${emulated[@]}"
same "written and killed by this machine's build, read by arm64's"
redis -a sample-admin COMPACT >/dev/null
redis -a sample-admin EVAL 'redis.call("ZADD", KEYS[1], 1.5, "a"); return redis.call("SET", KEYS[2], "b")' \
	2 arm64:z arm64:s >/dev/null
stop KILL
start "${emulated[@]}"
[ "$(redis -a sample-admin ZSCORE arm64:z a)" = 1.5 ]
redis -a sample-admin DEL arm64:z arm64:s >/dev/null
same "killed, started again"
stop TERM
start "$basalt"
same "read by this machine's build"
stop TERM
rm -r "$work/data"
mkdir "$work/data"
start "${emulated[@]}"
redis <$fixture/commands.txt >"$work/written.arm64"
same "written anew by arm64's"
diff -a "$work/written" "$work/written.arm64"
stop KILL
start "$basalt"
same "killed, read by this machine's build"
stop TERM
"${emulated[@]}" check "$work/data" | tail -n 1

# Preemption of Go's runtime is by signals, which cost much more than usual here.
# shellcheck disable=SC2086 # the packages are a list
GODEBUG=asyncpreemptoff=1 go test -short -timeout 30m \
	${PKGS-./cf ./compaction ./engine/rocks ./engine/longdouble ./engine/geo ./server/resp ./server/lua}
