#!/usr/bin/env bash
# Lists lines of more than 120 characters (a tab counts as one) in Go, C and C++ files, and fails if any exist.
set -euo pipefail
cd "$(dirname "$0")/.."
find . \( -path ./build -o -path ./dist -o -path ./data -o -path ./third_party -o -path ./.git \) -prune -o \
	\( -name '*.go' -o -name '*.c' -o -name '*.cc' -o -name '*.h' \) -print0 |
	if LC_ALL=C.UTF-8 xargs -0 grep -nE '^.{121,}' /dev/null; then
		echo 'lines of more than 120 characters: break them' >&2
		exit 1
	fi
