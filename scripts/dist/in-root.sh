#!/usr/bin/env bash
# Runs a command in the repository in a clean root of another Debian, with the host's Go: for the RocksDB of that
# Debian. build/ is one of the root's own. Needs root and debootstrap; the root stays in build/roots.
#
# usage: scripts/dist/in-root.sh SUITE COMMAND...
#
#   scripts/dist/in-root.sh trixie make test PKGS='./engine/... ./compaction'
#   VERSION=1.2.3+deb13 scripts/dist/in-root.sh trixie make dist
set -euo pipefail
suite=${1:?usage: scripts/dist/in-root.sh SUITE COMMAND...}
shift
cd "$(dirname "$0")/../.."
. scripts/env.sh
root=$PWD/build/roots/$suite
command -v debootstrap >/dev/null || apt-get install -y -qq --no-install-recommends debootstrap >/dev/null
if [ ! -e "$root/ready" ]; then
	rm -rf "$root"
	mkdir -p "$root"
	debootstrap --variant=minbase --include=ca-certificates,make,git "$suite" "$root" >"$root.log" 2>&1 ||
		{ tail -n 5 "$root.log" >&2; exit 1; }
	touch "$root/ready"
fi
cp -L /etc/resolv.conf "$root/etc/resolv.conf"
cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/" # with those of a proxy that the host trusts
mkdir -p "$root/src" "$root/own-build" "$root/usr/local/go" "$root/root/go" "$root/root/.cache"
goroot=$(go env GOROOT) modules=$(dirname "$(dirname "$(go env GOMODCACHE)")")
export goroot modules root
# The mounts are in a namespace of the process, and go with it.
exec unshare -m --fork --kill-child bash -euo pipefail -c '
	mount --make-rprivate /
	mount -t proc proc "$root/proc"
	mount --rbind /dev "$root/dev"
	mount --bind "$goroot" "$root/usr/local/go"
	mount --bind "$modules" "$root/root/go"
	mount --bind . "$root/src"
	mount --bind "$root/own-build" "$root/src/build"
	exec chroot "$root" env -i HOME=/root TERM=dumb VERSION="${VERSION-}" GOPROXY="$(go env GOPROXY)" \
		GOSUMDB="$(go env GOSUMDB)" GOTOOLCHAIN=local \
		PATH=/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
		sh -c "cd /src && exec \"\$@\"" sh "$@"' bash "$@"
