#!/usr/bin/env bash
# Measure what a new user types, each with empty caches, and print how long each took:
#
#	internal/fresh.sh [installed] [source] [warm] [goless] [scenario] [tutorial] [nightly] [test]
#
#	installed   a scenario in an empty folder, from an installed binary to the verdict; a local index serves the
#	            control plane
#	source      the same, with everything built from source; the time includes go install
#	warm        the same again, with the caches of the last one
#	goless      without Go: observe and judge work, and run says what is missing
#
# The default is installed, source, warm, goless. The engine's images stay, so what it has is not built again.
set -euo pipefail
cd "$(dirname "$0")/.."
cache=${LEAKRIG_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/leakrig}
own=$HOME
dir=$(mktemp -d)
server=
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT # Go's module cache is read-only
git clone -q . "$dir/leakrig"
unset GOPATH GOCACHE GOMODCACHE XDG_CACHE_HOME LEAKRIG_CACHE
[ $# -gt 0 ] || set -- installed source warm goless

home() { # home NAME: empty caches, and an empty folder
	mkdir -p "$dir/$1/home" "$dir/$1/folder"
	export HOME=$dir/$1/home PATH="$dir/$1/home/go/bin:$PATH"
	cd "$dir/leakrig"
}
index() { # the built binaries of the usual cache, on loopback
	go build -o "$dir/serve" ./internal/mirror/serve
	"$dir/serve" "$cache" >"$dir/index" &
	server=$!
	until [ -s "$dir/index" ]; do kill -0 "$server" && sleep 0.1; done
	LEAKRIG_ENVTEST_INDEX=$(cat "$dir/index")
	export LEAKRIG_ENVTEST_INDEX
}
goless() {
	local bin=$dir/goless/bin
	mkdir -p "$bin"
	export HOME=$own # the build is not part of what is measured
	CGO_ENABLED=0 go build -o "$bin/leakrig" ./cmd/leakrig
	CGO_ENABLED=0 go build -C cmd/leakrig/testdata/faulty -o "$bin/service" .
	export HOME=$dir/goless/home
	SECONDS=0
	cd "$dir/goless/folder"
	PATH=$bin:/usr/bin:/bin
	! command -v go >/dev/null || { echo "fresh: /usr/bin has a go command" >&2; return 2; }
	LEAKRIG_LISTEN=127.0.0.1:16067 service none &
	local service=$! status=0
	sleep 1
	leakrig observe http://127.0.0.1:16067 --rounds 7 --times 5 -- curl -sf -X POST http://127.0.0.1:16067/work || status=$?
	kill "$service"
	[ "$status" -eq 0 ] || [ "$status" -eq 4 ] || return "$status"
	leakrig judge runs/observe/latest || [ $? -eq "$status" ] || return 1
	LEAKRIG_ENVTEST_INDEX=http://127.0.0.1:1/ leakrig run watch-then-delete --cluster embedded >"$dir/said" 2>&1 && return 1
	cat "$dir/said" >&2
	grep -q 'go command is not on' "$dir/said"
}

took=() worst=0
for what in "$@"; do
	status=0
	(
		trap '[ -z "$server" ] || kill "$server"' EXIT
		case $what in
		installed | source | goless) home "$what" ;;
		warm) export HOME=$dir/source/home PATH="$dir/source/home/go/bin:$PATH"; cd "$dir/leakrig" ;;
		*) home other ;;
		esac
		[ "$what" != installed ] || HOME=$own index
		SECONDS=0 before=
		case $what in
		installed)
			go install ./cmd/leakrig
			before="after go install, which took $((SECONDS / 60))m$((SECONDS % 60))s"
			go clean -cache # the binary may have been downloaded
			SECONDS=0
			cd "$dir/$what/folder" && leakrig run watch-then-delete --cluster embedded || status=$?
			;;
		source) go install ./cmd/leakrig && cd "$dir/$what/folder" && leakrig run watch-then-delete --cluster embedded --control-plane build || status=$? ;;
		warm) cd "$dir/source/folder" && leakrig run watch-then-delete --cluster embedded --control-plane build || status=$? ;;
		goless) goless || status=$? ;;
		scenario) make scenario NAME=watch-then-delete || status=$? ;;
		nightly) make nightly || status=$? ;;
		test) make test || status=$? ;;
		tutorial) # each command of the page, and the output that it shows
			go test -count=1 -tags slow -run 'TestSlowSessionsOfTheDocs/tutorial.md' ./cmd/leakrig &&
				go test -count=1 -tags e2e -run 'TestKindSessionsOfTheDocs/tutorial.md' ./internal/e2e || status=$? ;;
		*) echo "fresh: there is no $what" >&2; exit 2 ;;
		esac
		echo "$SECONDS $status $before" >"$dir/took"
	)
	read -r seconds status before <"$dir/took"
	took+=("$(printf '%-9s %2dm%02ds  exit %d  %s' "$what" $((seconds / 60)) $((seconds % 60)) "$status" "$before")")
	[ "$status" -eq 0 ] || worst=1
done
printf '\n%s\n' "with empty caches"
printf '%s\n' "${took[@]}"
exit "$worst"
