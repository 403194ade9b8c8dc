#!/usr/bin/env bash
# Runs every fuzz target of the repository for FUZZTIME each (default 10s), one
# after the other, since `go test -fuzz` takes one target at a time.
#
# usage: [FUZZTIME=1m] scripts/fuzz.sh [package pattern...]    default ./...
#
# Exits 1 after the last target when one of them found a failure; Go writes the
# input that failed under the package's testdata/fuzz.
set -euo pipefail
cd "$(dirname "$0")/.."

fuzztime=${FUZZTIME:-10s}
patterns=("$@")
[ ${#patterns[@]} -gt 0 ] || patterns=(./...)

# `go test -list` prints a package's targets and then its "ok" line.
listing=$(go test -list '^Fuzz' "${patterns[@]}")
targets=$(awk '/^Fuzz/ { name[n++] = $1 }
	/^ok/ { for (i = 0; i < n; i++) print $2, name[i]; n = 0 }' <<<"$listing")
if [ -z "$targets" ]; then
	echo "fuzz: no fuzz target in ${patterns[*]}" >&2
	exit 1
fi

passed=0
failed=()
while read -r package target; do
	echo "== $package $target ($fuzztime)"
	if go test -run '^$' -fuzz "^$target\$" -fuzztime "$fuzztime" "$package"; then
		passed=$((passed + 1))
	else
		failed+=("$package $target")
	fi
done <<<"$targets"

for name in "${failed[@]+"${failed[@]}"}"; do
	echo "fuzz: failed: $name" >&2
done
echo "$passed passed, ${#failed[@]} failed"
[ ${#failed[@]} = 0 ]
