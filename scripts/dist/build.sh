#!/usr/bin/env bash
# Makes dist/basalt_VERSION_ARCH.deb and dist/basalt-VERSION-linux-ARCH.tar.gz.
# VERSION comes from a tag vX.Y.Z, else it is 0.0.0 with the commit. ARCH is this
# machine's, amd64 or arm64; another machine builds for arm64 after
# scripts/bootstrap.sh --arm64.
#
# usage: [VERSION=X.Y.Z] [ARCH=arm64] scripts/dist/build.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/env.sh

if [ -z "${VERSION:-}" ]; then
	VERSION=$(git describe --tags --match 'v[0-9]*' --dirty 2>/dev/null || echo "v0.0.0+$(git rev-parse --short HEAD)")
	VERSION=${VERSION#v}
fi
made=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
# The package needs the C and C++ libraries of the system that it is made on, or newer ones.
LIBC=$(getconf GNU_LIBC_VERSION | cut -d ' ' -f 2)
LIBSTDCXX=$(g++ -dumpversion)
ARCH=${ARCH:-$(go env GOARCH)}
export VERSION LIBC LIBSTDCXX ARCH
out=build/dist root=build/dist/root
rm -rf "$out"
mkdir -p "$root/bin" "$root/completion" "$root/doc" dist

build() {
	go build -trimpath -buildvcs=false -ldflags "-s -w -X main.version=$VERSION" -o "$root/bin/basalt" .
	scripts/check-static.sh "$root/bin/basalt"
}
basalt=("$root/bin/basalt") own=third_party/rocksdb/build/include/rocksdb/version.h
if [ "$ARCH" = "$(go env GOARCH)" ]; then
	build
else
	(
		. "scripts/$ARCH/env.sh"
		build
	)
	basalt=(qemu-aarch64-static -L build/arm64/root "${basalt[@]}") own= # what third_party has built is for this machine
fi
if [ ! -f "$own" ]; then
	echo "dist: RocksDB is the distribution's, with assertions: run third_party/rocksdb/build.sh for production" >&2
fi
for shell in bash:basalt.bash zsh:_basalt fish:basalt.fish; do
	"${basalt[@]}" completion "${shell%%:*}" >"$root/completion/${shell##*:}"
done
go run ./scripts/dist/man "$VERSION" >"$root/doc/basalt.1"
gzip -9nc "$root/doc/basalt.1" >"$out/basalt.1.gz"
# The packaged server keeps its data where its unit says.
sed -e 's|^dir = .*|dir = "/var/lib/basalt"|' -e 's|^pidfile = .*|pidfile = ""|' kvrocks.toml >"$root/kvrocks.toml"
grep -q '^dir = "/var/lib/basalt"$' "$root/kvrocks.toml"
# The documents lie as in the repository, so that their links lead somewhere.
cp -r --parents README.md CONTRIBUTING.md LICENSE kvrocks.toml docs third_party/README.md server/lua/README.md "$root/doc/"
cp LICENSE "$root/doc/copyright"
cp LICENSE scripts/dist/basalt.service scripts/dist/basalt-backup.service scripts/dist/backup.env "$root/"

name=basalt-$VERSION-linux-$ARCH
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$made" \
	--transform "s|^\\.|$name|" -C "$root" -czf "dist/$name.tar.gz" .
(cd scripts/dist/nfpm && GOFLAGS= CGO_ENABLED=0 go build -buildvcs=false -o ../../../build/tools/nfpm github.com/goreleaser/nfpm/v2/cmd/nfpm)
build/tools/nfpm package -f scripts/dist/nfpm.yaml -p deb -t dist/ >/dev/null
ls -l dist/*"$VERSION"*
