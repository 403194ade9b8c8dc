# Environment for building and running basalt, for a POSIX shell. Source it from
# the repository's root: `. scripts/env.sh`. Sourcing it twice changes nothing.
#
# Sets PATH so that Go and this repository's own tools are found. When
# third_party/rocksdb/build.sh has built RocksDB, it also points cgo at that
# build's headers; its library needs no flag, because the linker looks in
# engine/rocks/lib before it looks in the system's directories. For a RocksDB of
# another series than go.mod's it lets Go use another go.mod.

_basalt_root=$PWD
_basalt_rocksdb=$_basalt_root/third_party/rocksdb/build

_basalt_path() { # directory: put it in front of PATH unless it is there
	case ":$PATH:" in
	*":$1:"*) ;;
	*) PATH=$1:$PATH ;;
	esac
}

command -v go >/dev/null 2>&1 || _basalt_path /usr/local/go/bin
_basalt_path "$_basalt_root/build/tools"
if [ -f "$_basalt_rocksdb/include/rocksdb/version.h" ]; then
	_basalt_path "$_basalt_rocksdb/bin"
	case "${CGO_CFLAGS-}" in
	*"-I$_basalt_rocksdb/include"*) ;;
	*)
		# Setting these replaces Go's default of "-g -O2", so they repeat it.
		export CGO_CFLAGS="-I$_basalt_rocksdb/include ${CGO_CFLAGS--g -O2}"
		export CGO_CXXFLAGS="-I$_basalt_rocksdb/include ${CGO_CXXFLAGS--g -O2}"
		;;
	esac
fi
# A RocksDB that go.mod's grocksdb does not fit: scripts/bootstrap.sh has written a go.mod for it.
if [ -f "$_basalt_root/build/rocksdb/go.mod" ]; then
	case "${GOFLAGS-}" in
	*-modfile=*) ;;
	*) export GOFLAGS="${GOFLAGS-} -modfile=$_basalt_root/build/rocksdb/go.mod" ;;
	esac
fi
export PATH
unset _basalt_root _basalt_rocksdb
