#!/usr/bin/env bash
# Every fuzz target, for FUZZTIME each: the parsers of foreign bytes (profiles, dumps, metrics, scenarios,
# records) and what is made of them.
set -euo pipefail
cd "$(dirname "$0")/.."

targets=0
while IFS=: read -r file _ line; do
	name=$(sed -E 's/^func (Fuzz[A-Za-z0-9_]*).*/\1/' <<<"$line")
	echo "== $name in $(dirname "$file")"
	go test -run '^$' -fuzz "^$name\$" -fuzztime "${FUZZTIME:-1m}" "./$(dirname "$file")"
	targets=$((targets + 1))
done < <(grep -rn --include=*_test.go '^func Fuzz' checks leak profiles scenarios cluster)
echo "$targets fuzz targets"
[ "$targets" -gt 0 ]
