# Environment for building basalt for arm64 on another machine and running it under qemu's emulation, for a POSIX shell.
# Source it from the repository's root after scripts/env.sh and scripts/bootstrap.sh --arm64:
#
#   . scripts/env.sh; . scripts/arm64/env.sh; go test -short ./cf
#
# The headers and libraries, the C library too, are those of the packages in build/arm64/root. A RocksDB built in
# third_party is for this machine, so the paths that scripts/env.sh sets for it are dropped.
export BASALT_ARM64_ROOT="$PWD/build/arm64/root"
export CGO_ENABLED=1 GOARCH=arm64
export CC="aarch64-linux-gnu-gcc --sysroot=$BASALT_ARM64_ROOT" CXX="aarch64-linux-gnu-g++ --sysroot=$BASALT_ARM64_ROOT"
unset CGO_CFLAGS CGO_CXXFLAGS
# go run and go test start what they built by go_linux_arm64_exec.
case ":$PATH:" in
*":$PWD/scripts/arm64:"*) ;;
*) export PATH="$PWD/scripts/arm64:$PATH" ;;
esac
