#!/usr/bin/env bash
# All tests, from cheap to dear: formatting and vet, unit tests under the race detector, the same modules
# of the subjects, and the tests against real parts. Ends with how many tests met each real part, and
# fails where one was met by none.
set -euo pipefail
cd "$(dirname "$0")/.."

step() { printf '\n== %s (after %d min)\n' "$*" $((SECONDS / 60)); }

# The race detector needs cgo. All else is made as leakrig itself and the subjects are, without: on a new machine
# most of the time goes into compiling, and each way of it is all of client-go once more.
race=$(go env CGO_ENABLED | grep -q 1 && command -v "$(go env CC)" >/dev/null && echo -race || true)
export CGO_ENABLED=0

step "formatting and vet"
internal/lint.sh

step "unit tests, with the race detector where cgo can be had"
[ -n "$race" ] || echo "no C compiler: WITHOUT the race detector"
now=$(mktemp) unit=$(mktemp) log=$(mktemp)
trap 'rm -f "$now" "$unit" "$log"' EXIT
# tested runs go test and shows what each package came to, and all of what failed.
tested() {
	local status=0
	go test -v "$@" 2>&1 | tee "$now" | { grep --line-buffered -P '^(ok|\?)\s' || true; } || status=$?
	[ "$status" -eq 0 ] || awk '
		{ lines[n++] = $0 }
		/^FAIL[ \t]/ { for (i = 0; i < n; i++) if (lines[i] !~ /^ *(=== |--- (PASS|SKIP))/) print lines[i] }
		/^(ok|FAIL|\?)[ \t]/ { n = 0 }' "$now"
	cat "$now" >>"$unit"
	return "$status"
}
CGO_ENABLED=${race:+1} tested -timeout 20m -tags slow $race ./...
for module in subjects/*/; do
	# As the subjects are built, so that nothing is compiled for the tests alone.
	(cd "$module" && GOWORK=off tested -trimpath ./...)
done

step "tests against real parts"
status=0
go test -p 1 -count=1 -v -tags e2e -timeout 90m ./internal/e2e ./cluster/... ./load | tee "$log" || status=$?
declare -A lacking=(
	[chromium]="the report was not looked at in a browser, since there is no Chromium on the PATH"
	[kind]="nothing was run on kind, since no container engine answers"
	[podman]="nothing was run on podman, which is not here"
)
for part in kube-apiserver kube-scheduler calibration soak pprof chromium kind podman node-image 'module proxy'; do
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
if skipped=$(grep -hE -B1 '^ *--- SKIP' "$unit" "$log"); then
	printf '\nskipped:\n%s\n' "$skipped"
	# SKIPPED: a part that CI must have could not be had.
	if [ -n "${CI:-}" ] && grep -q 'SKIPPED: ' <<<"$skipped"; then status=1; fi
fi
# What failed once more at the end, which is what most CI systems show first.
awk '
	/^=== RUN   [^\/]*$/ { n = 0 }
	{ lines[n++] = $0 }
	/^--- FAIL/ { print "\nfailed:"; for (i = n > 120 ? n - 120 : 0; i < n; i++) print lines[i] }' "$log"
awk '/^--- (PASS|FAIL): (TestKind|TestParallelExec)/ { gsub(/[()s]/, "", $NF); t += $NF } END { printf "tests that boot kind clusters: %d min\n", t / 60 }' "$log"
passed=$(grep -c '^--- PASS' "$log" || true)
failed=$(grep -c '^--- FAIL' "$log" || true)
echo "$passed passed, $failed failed"
exit "$status"
