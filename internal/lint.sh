#!/usr/bin/env bash
# Run the linters over the root module and the workflows. The tools are pinned in internal/tools, one module each, since
# their dependencies exclude each other. internal/vet-subjects.sh checks the subjects.
set -euo pipefail
cd "$(dirname "$0")/.."

tool() {
	local name=$1
	shift
	GOWORK=off GOFLAGS=-mod=readonly go tool -modfile="internal/tools/$name/go.mod" "$name" "$@"
}

unformatted=$(git ls-files --cached --others --exclude-standard '*.go' | xargs gofmt -l)
if [ -n "$unformatted" ]; then
	echo "not formatted (run gofmt -w):"
	echo "$unformatted"
	exit 1
fi
# govet is among its linters, and .golangci.yml sets the build tags: go vet ./... would find nothing more.
# Another checkout may be linted at the same time: wait for it.
tool golangci-lint run --allow-serial-runners ./...
# Not with shellcheck, which one machine has and another has not.
tool actionlint -shellcheck= -pyflakes= .github/workflows/*.yml
