#!/usr/bin/env bash
# Run one tier of the tests: quick, test, embedded, kind-smoke, kind or nightly; or attack, the tests of all tiers that
# attack leakrig. CONTRIBUTING.md has the table.
#
# A tier ends with its ten slowest tests, how many tests met each real part, and its time. It fails where no test met
# a part that it must meet, and in CI where a test was skipped for want of one.
set -euo pipefail
cd "$(dirname "$0")/.."
tier=${1:?which tier: quick, test, embedded, kind-smoke, kind or nightly}

# Everything is compiled as leakrig and its subjects are, without cgo. Only the race detector needs cgo, and with it
# all of client-go is compiled a second time.
export CGO_ENABLED=0
logs=$(mktemp -d)
: >"$logs/none.json" # steps without go test leave no events
trap 'rm -rf "$logs"' EXIT
status=0

gotestsum=$(GOWORK=off GOFLAGS=-mod=readonly go tool -modfile=internal/tools/gotestsum/go.mod -n gotestsum)

# run FORMAT GO_TEST_ARGUMENT... runs tests and keeps their events.
run() {
	local format=$1
	shift
	"$gotestsum" --format "$format" --format-hide-empty-pkg --hide-summary skipped --jsonfile "$logs/$RANDOM$RANDOM.json" -- "$@" || status=1
}
step() { printf '\n== %s (after %d s)\n' "$*" "$SECONDS"; }

unit() {
	step "unit tests"
	# Many tests wait, so more of them than processors get on together.
	# Without debug information a third of the time to link is saved.
	run pkgname -p 4 -parallel $((2 * $(getconf _NPROCESSORS_ONLN))) -ldflags='-s -w' -timeout 10m "$@" ./...
	# As subjects are built, so that nothing is compiled for their tests alone.
	for module in $(printf '%s\n' subjects/*/*_test.go | xargs -n 1 dirname | sort -u); do
		pushd "$module" >/dev/null
		GOWORK=off run pkgname -trimpath ./...
		popd >/dev/null
	done
}

# e2e RUN SKIP PACKAGE... runs tests on real parts, by patterns of their names.
e2e() {
	local pattern=$1 skip=$2
	shift 2
	run testname -p 1 -parallel 2 -count=1 -tags e2e -timeout 90m -run "$pattern" -skip "$skip" "$@"
}

# The steps of the nightly tier.
nightly_race() {
	if [ "$(CGO_ENABLED=1 go env CGO_ENABLED)" != 1 ] || ! command -v "$(go env CC)" >/dev/null; then
		echo "SKIPPED: there is no C compiler, which the race detector needs"
		[ -z "${CI:-}" ] || status=1
		return
	fi
	step "unit tests with the race detector"
	# TestAttackMemory measures memory, which the race detector multiplies.
	CGO_ENABLED=1 run pkgname -race -tags slow -timeout 60m -skip '^TestAttackMemory$' ./...
}
nightly_simulations() {
	step "simulations of the judgement at full size"
	LEAKRIG_FLEET=long run testname -tags nightly -count=1 -timeout 60m -run 'Alarm|Shapes|Calibration|Explained|Recall|Sustained|PowerCurve|TenThousand|Stored' ./checks ./fleet
}
nightly_repeats() {
	step "repeats, large fleets, signals at any moment, long soaks, reproducible images"
	export LEAKRIG_REPEATS=${LEAKRIG_REPEATS:-20} LEAKRIG_FLEET_SIZE=${LEAKRIG_FLEET_SIZE:-1000} LEAKRIG_SOAK=${LEAKRIG_SOAK:-12m}
	e2e '^Test(Nightly.*|Calibration|Fleet|FleetPods|Soak)$' '^$' ./internal/e2e ./cluster/nodeimage
}
nightly_healthy() {
	step "healthy tests in parallel"
	run testname -tags nightly -count=1 -timeout 3h -run '^TestNightlyHealthy$' ./leaktest
}
nightly_museum() {
	step "the programs of the museum with each modfile"
	internal/vet-subjects.sh --museum || status=1
}
nightly_fuzz() {
	step "fuzzing"
	internal/fuzz.sh || status=1
}

parts=() took=()
case $tier in
quick)
	# Without what takes long: attacks, scripts, simulations of the judgement, and the largest pages.
	unit -skip '^TestAttack|Scripts$|^TestOutcomes$|PowerCurve|Sustained|HintsDecide|UnitDoesNotMatter|Calibration|Alarm|Recall|Coverage|^TestManyStacks$'
	;;
test)
	step "linters"
	internal/lint.sh
	unit -count=1
	step "smoke tests"
	e2e '^TestSmoke' '^$' ./internal/e2e
	parts=(kube-apiserver chromium)
	;;
embedded)
	step "subjects, with each of their modfiles"
	internal/vet-subjects.sh
	step "scripts and sessions that take long"
	run testname -count=1 -tags slow -timeout 20m -run '^TestSlow|^TestAttackMemory$' ./cmd/leakrig ./profiles ./leaktest ./catalogue
	step "tests on the embedded control plane"
	e2e '^Test' '^Test(Smoke|Kind|Nightly|ParallelExec)' ./internal/e2e
	e2e '^Test(Embedded|AttackEtcd)' '^$' ./cluster ./cluster/upstream ./load
	parts=(kube-apiserver kube-scheduler calibration soak pprof chromium 'module proxy' 'go install')
	;;
kind-smoke)
	e2e '^TestKindSmoke$' '^$' ./internal/e2e
	parts=(kind)
	;;
kind)
	# Tests check that their engine has no container left. Podman has its own, so its test runs beside the others.
	(
		e2e '^TestKindPodman$' '^$' ./cluster
		exit $status
	) &
	podman=$!
	e2e '^Test(Kind|ParallelExec)' '^TestKind(Smoke|Podman)$' ./internal/e2e ./cluster ./cluster/nodeimage
	wait $podman || status=1
	parts=(kind podman node-image)
	;;
attack)
	run testname -p 2 -count=1 -tags 'slow e2e' -timeout 20m -run '^TestAttack' ./...
	run testname -count=1 -tags slow -timeout 10m -run '^TestSlowScripts$/^soft$' ./cmd/leakrig
	;;
nightly)
	# STEPS names the steps to run, so that one can be repeated alone. The parts are required of the whole tier.
	for part in ${STEPS:-race simulations repeats healthy museum fuzz}; do
		began=$SECONDS
		"nightly_$part"
		took+=("$(printf '%-12s %3d min %02d s' "$part" $(((SECONDS - began) / 60)) $(((SECONDS - began) % 60)))")
	done
	step "time by step"
	printf '%s\n' "${took[@]}"
	[ -n "${STEPS:-}" ] || parts=(kube-apiserver calibration soak pprof node-image pyroscope)
	;;
*)
	echo "there is no tier $tier" >&2
	exit 2
	;;
esac

step "the ten slowest tests of $tier"
cat "$logs"/*.json >"$logs/all"
"$gotestsum" tool slowest --num 10 --threshold 100ms --jsonfile "$logs/all"

declare -A absent=(
	[chromium]="no Chromium on the PATH, so no page was opened"
	[kind]="no container engine answers, so nothing ran on kind"
	[podman]="podman is not installed, so nothing ran on it"
	[node-image]="no container engine answers or this is not root, so no node image was built"
)
for part in "${parts[@]}"; do
	met=$(grep -cF "\"Output\":\"MET $part\\n\"" "$logs/all" || true)
	echo "$met tests met $part"
	if [ "$met" -eq 0 ]; then
		if [ -n "${absent[$part]:-}" ] && [ -z "${CI:-}" ]; then
			echo "SKIPPED: ${absent[$part]}"
		else
			echo "no test met $part"
			status=1
		fi
	fi
done
# A test skips with "SKIPPED: " where this machine lacks a part.
skipped=$({ grep -oE '"Action":"skip","Package":"[^"]*","Test":"[^"]*"' "$logs/all" || true; } | sed 's/"Action":"skip",//' | sort -u |
	while read -r test; do grep -F "$test" "$logs/all" | grep -o 'SKIPPED: [^"\\]*' || true; done)
if [ -n "$skipped" ]; then
	printf '%s\n' "$skipped"
	[ -z "${CI:-}" ] || status=1
fi
count() { grep -cE "\"Action\":\"$1\".*\"Test\":\"[^/\"]*\"" "$logs/all" || true; }
printf '\ntier %s: %d passed, %d failed, %d skipped, in %d min %02d s\n' "$tier" "$(count pass)" "$(count fail)" "$(count skip)" $((SECONDS / 60)) $((SECONDS % 60))
exit "$status"
