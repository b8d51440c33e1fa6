#!/usr/bin/env bash
# Linters over every module of the checkout, each subject with each of its modfiles, and over the workflows. The
# tools are pinned in internal/tools, one module each, since their dependencies exclude each other.
set -euo pipefail
cd "$(dirname "$0")/.."

tool() {
	local name=$1
	shift
	GOWORK=off GOFLAGS=-mod=readonly go tool -modfile="internal/tools/$name/go.mod" "$name" "$@"
}

unformatted=$(git ls-files --cached --others --exclude-standard '*.go' | xargs gofmt -l)
if [ -n "$unformatted" ]; then
	echo "not formatted (gofmt -w mends it):"
	echo "$unformatted"
	exit 1
fi
# govet is among its linters, and .golangci.yml sets the build tags: go vet ./... would find nothing more.
tool golangci-lint run ./...
# Not with shellcheck, which one machine has and another has not.
tool actionlint -shellcheck= -pyflakes= .github/workflows/*.yml
# With -trimpath, as the subjects are built: what is compiled here need not be compiled again for the tests.
printf '%s\0' subjects/*/*.mod | xargs -0 -n 1 -P "$(getconf _NPROCESSORS_ONLN)" sh -c '
	echo "vet $1"
	cd "$(dirname "$1")" && GOWORK=off GOFLAGS=-mod=readonly CGO_ENABLED=0 go vet -trimpath -modfile="$(basename "$1")" . || { echo "go vet fails with $1" >&2; exit 255; }' sh
