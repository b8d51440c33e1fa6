#!/usr/bin/env bash
# Run go vet on every subject with each of its modfiles. It compiles with -trimpath, as leakrig builds subjects, so
# that runs find the packages in Go's cache.
set -euo pipefail
cd "$(dirname "$0")/.."

printf '%s\0' subjects/*/*.mod | xargs -0 -n 1 -P "$(getconf _NPROCESSORS_ONLN)" sh -c '
	echo "vet $1"
	cd "$(dirname "$1")" && GOWORK=off GOFLAGS=-mod=readonly CGO_ENABLED=0 go vet -trimpath -modfile="$(basename "$1")" . || { echo "go vet fails with $1" >&2; exit 255; }' sh
