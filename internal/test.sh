#!/usr/bin/env bash
# All tests, from cheap to dear: formatting and vet, unit tests under the race detector, the same modules
# of the subjects, and the tests against real parts. Ends with how many tests met each real part, and
# fails where one was met by none.
set -euo pipefail
cd "$(dirname "$0")/.."

step() { printf '\n== %s\n' "$*"; }

step "formatting and vet"
internal/lint.sh

step "unit tests, with the race detector where cgo can be had"
race=$(go env CGO_ENABLED | grep -q 1 && command -v "$(go env CC)" >/dev/null && echo -race || true)
[ -n "$race" ] || echo "no C compiler: WITHOUT the race detector"
go test $race ./...
for module in subjects/*/; do
	(cd "$module" && GOWORK=off go test ./...)
done

step "tests against real parts"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
go test -p 1 -count=1 -v -tags e2e -timeout 60m ./internal/e2e ./cluster/... ./load | tee "$log" || status=$?
declare -A lacking=(
	[chromium]="the report was not looked at in a browser, since there is no Chromium on the PATH"
	[kind]="nothing was run on kind, since no container engine answers"
)
for part in kube-apiserver kube-scheduler calibration pprof chromium kind; do
	met=$(grep -c "^MET $part$" "$log" || true)
	echo "$met tests met $part"
	if [ "$met" -eq 0 ]; then
		if [ -n "${lacking[$part]:-}" ] && [ -z "${CI:-}" ]; then
			echo "SKIPPED: ${lacking[$part]}"
		else
			echo "no test met $part"
			status=1
		fi
	fi
done
passed=$(grep -c '^--- PASS' "$log" || true)
failed=$(grep -c '^--- FAIL' "$log" || true)
echo "$passed passed, $failed failed"
exit "$status"
