#!/usr/bin/env bash
# Builds the tests of the native code (engine/rocks/native_test) with a sanitizer and runs them, or compiles the native
# code and the Go packages for arm64, where nothing is linked or run.
#
# usage: scripts/native.sh asan|tsan|arm64
set -euo pipefail
cd "$(dirname "$0")/.."

readonly shim=engine/rocks tests=engine/rocks/native_test out=build/native
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
		$shim/shim_cache.cc $shim/shim_compaction.cc $shim/shim_options.cc -L$shim/lib -lrocksdb
	$out/tree_asan
	# RocksDB is not instrumented: containers that it fills do not carry the marks of those that are.
	ASAN_OPTIONS=detect_container_overflow=0 $out/shim_asan
	;;
tsan)
	compile g++ tree_tsan -Wno-tsan -fsanitize=thread $tests/tree_test.cc
	$out/tree_tsan
	;;
arm64)
	for f in $shim/*.cc; do
		case $f in *_amd64.cc) continue ;; esac
		compile aarch64-linux-gnu-g++ unused -fsyntax-only -Wno-unused-parameter "$f"
	done
	echo "native code: ok"
	CC=aarch64-linux-gnu-gcc CXX=aarch64-linux-gnu-g++ CGO_ENABLED=1 GOARCH=arm64 go vet ./...
	echo "Go packages: ok"
	;;
*)
	echo "usage: scripts/native.sh asan|tsan|arm64" >&2
	exit 2
	;;
esac
