#!/usr/bin/env bash
# Lets redis-sentinel monitor a server and looks for complaints: the server has
# to stay a master in good health for ten seconds, with a down-after of two.
#
# usage: sentinel.sh HOST:PORT
#
# Exits 1 with the sentinel's log when something is wrong.
set -euo pipefail

address=${1:?usage: sentinel.sh HOST:PORT}
host=${address%:*}
port=${address##*:}
seconds=10

dir=$(mktemp -d)
pid=
cleanup() {
	[ -z "$pid" ] || { kill "$pid" && wait "$pid"; } 2>/dev/null || true
	rm -rf "$dir"
}
trap cleanup EXIT

fail() {
	printf 'sentinel: %s\n' "$*" >&2
	[ -z "${masters-}" ] || printf -- '--- SENTINEL MASTER\n%s\n' "$masters" >&2
	printf -- '--- its log\n' >&2
	cat "$dir/log" >&2
	exit 1
}

# A port that is free now; redis-sentinel cannot choose one itself.
free_port() {
	local p
	for _ in $(seq 100); do
		p=$((20000 + RANDOM % 10000))
		(exec 3<>"/dev/tcp/127.0.0.1/$p") 2>/dev/null || { echo "$p"; return; }
	done
	return 1
}
sentinel_port=$(free_port)

cat >"$dir/sentinel.conf" <<END
port $sentinel_port
bind 127.0.0.1
dir $dir
sentinel monitor main $host $port 1
sentinel down-after-milliseconds main 2000
END
: >"$dir/log"
redis-sentinel "$dir/sentinel.conf" --logfile "$dir/log" &
pid=$!

ask() { redis-cli -h 127.0.0.1 -p "$sentinel_port" "$@"; }
for _ in $(seq 50); do
	[ "$(ask ping 2>/dev/null)" = PONG ] && break
	sleep 0.1
done
[ "$(ask ping)" = PONG ] || fail "it does not start"

# A second subscriber of the channel in which sentinels greet each other.
timeout "$seconds" redis-cli -h "$host" -p "$port" subscribe __sentinel__:hello >"$dir/hello" 2>&1 || true

# "name value" lines of what the sentinel knows of the server.
masters=$(ask sentinel master main | paste -d ' ' - -)
value() { sed -n "s/^$1 //p" <<<"$masters"; }
expect() { # field, value
	[ "$(value "$1")" = "$2" ] || fail "$1 is '$(value "$1")', not '$2'"
}
expect flags master
expect role-reported master
expect link-pending-commands 0
expect num-slaves 0
[ -n "$(value runid)" ] || fail "the run id of the server is unknown"
[ "$(value last-ok-ping-reply)" -lt 2000 ] || fail "the last reply to PING is $(value last-ok-ping-reply) ms old"
[ "$(value info-refresh)" -lt 11000 ] || fail "INFO was last read $(value info-refresh) ms ago"
[ "$(ask sentinel get-master-addr-by-name main | paste -s -d :)" = "$address" ] || fail "the master's address is another"
ask sentinel ckquorum main >/dev/null || fail "no quorum"
clients=$(redis-cli -h "$host" -p "$port" client list)
for kind in cmd pubsub; do
	grep -q "name=sentinel-[0-9a-f]*-$kind" <<<"$clients" || fail "no client is named sentinel-*-$kind"
done
grep -q "^127.0.0.1,$sentinel_port," "$dir/hello" || fail "its greeting was not published"
if grep -E '[+-](sdown|odown|reboot|tilt|try-failover|failover|switch-master|convert|slave|sentinel-invalid)|error|Error' "$dir/log"; then
	fail "it complains"
fi
echo "sentinel: a master in good health for $seconds seconds"
