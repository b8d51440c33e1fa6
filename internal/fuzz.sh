#!/usr/bin/env bash
# Every fuzz target, for FUZZTIME each and two at a time: the parsers of foreign bytes (profiles, dumps,
# metrics, scenarios, records) and what is made of them.
set -euo pipefail
cd "$(dirname "$0")/.."

# fuzz FILE:LINE:FUNC runs one target with one worker, and tells what it said. Making inputs smaller, by default for
# up to a minute each, would leave little of the time for trying them.
fuzz() {
	local name dir said
	name=$(sed -E 's/.*func (Fuzz[A-Za-z0-9_]*).*/\1/' <<<"$1")
	dir=$(dirname "${1%%:*}")
	# A bare deadline is how Go's own fuzzer, of 1.26 too, sometimes ends in time (golang/go#75804): all it finds, it writes.
	if ! said=$(go test -run '^$' -fuzz "^$name\$" -fuzztime "${FUZZTIME:-1m}" -fuzzminimizetime 1s -parallel 1 "./$dir" 2>&1) &&
		{ grep -q 'Failing input written\|panic: ' <<<"$said" || ! grep -A1 '^--- FAIL: ' <<<"$said" | grep -qx ' *context deadline exceeded'; }; then
		printf '== %s in %s FAILED\n%s\n' "$name" "$dir" "$said"
		return 1
	fi
	printf '== %s in %s: %s\n' "$name" "$dir" "$(grep '^fuzz: elapsed' <<<"$said" | tail -1)"
}
export -f fuzz

targets=$(git grep -n '^func Fuzz' -- '*_test.go')
xargs -d '\n' -n 1 -P 2 bash -c 'fuzz "$1"' fuzz <<<"$targets"
echo "$(wc -l <<<"$targets") fuzz targets"
