#!/usr/bin/env bash
# Builds RocksDB 7.8.3 from its source archive into third_party/rocksdb/build, for
# systems whose own RocksDB is not 7.8.x. scripts/bootstrap.sh runs it where it is
# needed; it takes about 40 minutes of one core.
#
# usage: [ROCKSDB_ARCHIVE=FILE] [JOBS=N] third_party/rocksdb/build.sh [--force]
#
# ROCKSDB_ARCHIVE names a copy of the archive; without it the archive is
# downloaded once. Its checksum is checked either way.
#
# Leaves in third_party/rocksdb/build:
#   include/rocksdb/   the headers (scripts/env.sh points cgo at them)
#   lib/librocksdb.a   the static library; engine/rocks/lib/librocksdb.a links to it
#   bin/ldb            RocksDB's inspection tool
set -euo pipefail
cd "$(dirname "$0")"

readonly version=7.8.3
# The archive that GitHub makes of the tag v7.8.3; Debian's
# rocksdb_7.8.3.orig.tar.gz is the same file.
readonly url=https://github.com/facebook/rocksdb/archive/refs/tags/v$version.tar.gz
readonly sha256=b85408a374770897332bf15e51620a5f35720dd416a4749e3899057f9cfaf84d
readonly out=$PWD/build
readonly library_link=../../engine/rocks/lib/librocksdb.a

say() { printf 'rocksdb: %s\n' "$*" >&2; }
die() {
	say "$*"
	exit 1
}

for tool in g++ make tar sha256sum perl; do
	command -v $tool >/dev/null || die "$tool is needed to build RocksDB"
done

publish() { # makes the finished build the one that cgo links with
	ln -sfn ../../../third_party/rocksdb/build/lib/librocksdb.a "$library_link"
	# Go does not see that a library changed, and would keep the old program.
	rm -f ../../build/basalt
}

if [ -f "$out/lib/librocksdb.a" ] && [ "$(cat "$out/version" 2>/dev/null)" = "$version" ] && [ "${1-}" != --force ]; then
	say "$version is built already (--force builds it again)"
	publish
	exit 0
fi

archive=${ROCKSDB_ARCHIVE-}
mkdir -p "$out"
if [ -z "$archive" ]; then
	archive=$out/rocksdb-$version.tar.gz
	if [ ! -f "$archive" ]; then
		say "downloading $url"
		if command -v curl >/dev/null; then
			curl -fsSL --retry 3 -o "$archive.part" "$url" || rm -f "$archive.part"
		elif command -v wget >/dev/null; then
			wget -q -O "$archive.part" "$url" || rm -f "$archive.part"
		fi
		[ -s "$archive.part" ] ||
			die "cannot download the archive; fetch $url elsewhere, or on Debian 12 with its source packages in sources.list by 'apt-get source --download-only rocksdb' (rocksdb_$version.orig.tar.gz), and name it with ROCKSDB_ARCHIVE=FILE"
		mv "$archive.part" "$archive"
	fi
fi
[ -f "$archive" ] || die "$archive: no such file (ROCKSDB_ARCHIVE)"
found=$(sha256sum "$archive" | cut -d ' ' -f 1)
[ "$found" = "$sha256" ] || die "$archive is not RocksDB $version's source archive: its SHA-256 is $found, $sha256 is needed"

say "unpacking $archive"
rm -rf "$out/src"
mkdir -p "$out/src"
tar -xzf "$archive" -C "$out/src" --strip-components=1

jobs=${JOBS:-$(getconf _NPROCESSORS_ONLN)}
say "building $version with $jobs jobs"

# Only libraries that engine/rocks/lib/librocksdb.so names may end up in the
# library, so everything else that the build would pick up where it is installed
# is turned off. USE_RTTI: the shim derives from RocksDB's classes. cstdint: the
# headers of 7.8 lean on older compilers that included it by the way.
build() { # make target...
	env -u CXXFLAGS -u CFLAGS -u LDFLAGS -u MAKEFLAGS -u MAKELEVEL -u MFLAGS \
		PORTABLE=1 USE_RTTI=1 DISABLE_WARNING_AS_ERROR=1 EXTRA_CXXFLAGS='-include cstdint' \
		ROCKSDB_DISABLE_GFLAGS=1 ROCKSDB_DISABLE_JEMALLOC=1 ROCKSDB_DISABLE_TCMALLOC=1 \
		ROCKSDB_DISABLE_TBB=1 ROCKSDB_DISABLE_NUMA=1 ROCKSDB_DISABLE_MEMKIND=1 \
		ROCKSDB_USE_IO_URING=0 \
		make -C "$out/src" -j "$jobs" "$@" >&2
}
# A goal named static_lib switches RocksDB's Makefile to a release build.
build static_lib ldb

for codec in SNAPPY ZLIB BZIP2 LZ4 ZSTD; do
	grep -q -- "-D$codec" "$out/src/make_config.mk" ||
		die "the build found no $codec; install its development files and run this again"
done

install -d "$out/lib" "$out/bin" "$out/include"
install -m 644 "$out/src/librocksdb.a" "$out/lib/librocksdb.a"
strip --strip-debug "$out/lib/librocksdb.a"
install -m 755 -s "$out/src/ldb" "$out/bin/ldb"
cp -R "$out/src/include/rocksdb" "$out/include/"
printf '%s\n' "$version" >"$out/version"
rm -rf "$out/src"
publish
say "done; 'make' finds it, and so does plain go after '. scripts/env.sh' in the repository's root"
