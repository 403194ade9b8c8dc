#!/usr/bin/env bash
# Builds Apache kvrocks-controller at a pinned version, outside of this
# repository, and lets it drive a cluster of basalts: goredis/cluster says what
# happens.
#
# usage: scripts/compat/controller.sh BASALT
#
# Needs Go, etcd and redis-cli; ioredis takes part when node/node_modules is
# there. The program is kept in $XDG_CACHE_HOME/basalt-compat (~/.cache).
set -euo pipefail
cd "$(dirname "$0")"

version=v1.3.0
basalt=${1:?usage: controller.sh BASALT}
[ -x "$basalt" ] || basalt=$OLDPWD/$basalt

cache=${XDG_CACHE_HOME:-$HOME/.cache}/basalt-compat
program=$cache/kvrocks-controller-$version
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ ! -x "$program" ]; then
	(cd "$work" && go mod init compat 2>/dev/null)
	source=$(cd "$work" && go mod download -json "github.com/apache/kvrocks-controller@$version" |
		sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
	[ -n "$source" ] || {
		echo 'controller: its source is not available' >&2
		exit 1
	}
	cp -r "$source" "$work/source"
	chmod -R u+w "$work/source"
	mkdir -p "$cache"
	(cd "$work/source" && GOFLAGS= go build -o "$work/program" ./cmd/server)
	mv "$work/program" "$program"
fi
(cd goredis && GOFLAGS= go build -o "$work/cluster" ./cluster)
node=
[ ! -f node/node_modules/.package-lock.json ] || node=node
"$work/cluster" -node "$node" "$program" "$basalt"
