#!/usr/bin/env bash
# Run go vet on every subject with each of its modfiles. It compiles with -trimpath, as leakrig builds subjects, so
# that runs find the packages in Go's cache.
#
# The museum has many modules at old versions, which take long to compile. Without --museum, go list only checks that
# the modfiles provide each import.
set -euo pipefail
cd "$(dirname "$0")/.."

each() { # COMMAND MODFILE...
	local command=$1
	shift
	printf '%s\0' "$@" | command="$command" xargs -0 -n 1 -P "$(getconf _NPROCESSORS_ONLN)" sh -c '
		echo "$command $1"
		cd "$(dirname "$1")" && GOWORK=off GOFLAGS=-mod=readonly CGO_ENABLED=0 go $command -trimpath -modfile="$(basename "$1")" . >/dev/null || { echo "go $command fails with $1" >&2; exit 255; }' sh
}

each vet subjects/*/*.mod
if [ "${1:-}" = --museum ]; then
	each vet subjects/museum/*/*.mod
else
	each "list -deps" subjects/museum/*/*.mod
fi
