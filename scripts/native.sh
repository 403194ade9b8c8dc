#!/usr/bin/env bash
# Builds the tests of the native code (engine/rocks/shim/native_test) and runs them: with a sanitizer, or for arm64 under
# qemu's emulation.
#
# usage: scripts/native.sh asan|tsan|arm64
set -euo pipefail
cd "$(dirname "$0")/.."

readonly shim=engine/rocks/shim lib=engine/rocks/lib out=build/native
readonly tests=$shim/native_test
readonly flags=(-std=c++17 -O1 -g -Wall -Wextra -fno-omit-frame-pointer)
mkdir -p $out

compile() { # compiler, output, arguments...
	# shellcheck disable=SC2086 # the flags are a list
	$1 ${CGO_CXXFLAGS-} "${flags[@]}" "${@:3}" -o "$out/$2" -pthread
}

case ${1-} in
asan)
	sanitize=(-fsanitize=address,undefined -fno-sanitize-recover=all)
	compile g++ tree_asan "${sanitize[@]}" $tests/tree_test.cc
	compile g++ shim_asan -Wno-unused-parameter "${sanitize[@]}" $tests/shim_test.cc \
		$shim/shim.cc -L$lib -lrocksdb
	$out/tree_asan
	# RocksDB is not instrumented: containers that it fills do not carry the marks of those that are.
	ASAN_OPTIONS=detect_container_overflow=0 $out/shim_asan
	;;
tsan)
	compile g++ tree_tsan -Wno-tsan -fsanitize=thread $tests/tree_test.cc
	$out/tree_tsan
	;;
arm64) # after scripts/arm64/env.sh; RocksDB is that of the arm64 packages
	compile "$CXX" tree_arm64 $tests/tree_test.cc
	compile "$CXX" shim_arm64 -Wno-unused-parameter $tests/shim_test.cc \
		$shim/shim.cc -L$lib -lrocksdb
	go_linux_arm64_exec $out/tree_arm64
	go_linux_arm64_exec $out/shim_arm64
	;;
*)
	echo "usage: scripts/native.sh asan|tsan|arm64" >&2
	exit 2
	;;
esac
