#!/usr/bin/env bash
# gofmt and go vet over every module of the checkout, each subject with each of its modfiles.
set -euo pipefail
cd "$(dirname "$0")/.."

unformatted=$(git ls-files --cached --others --exclude-standard '*.go' | xargs gofmt -l)
if [ -n "$unformatted" ]; then
	echo "not formatted (gofmt -w mends it):"
	echo "$unformatted"
	exit 1
fi
go vet ./...
go vet -tags e2e ./internal/... ./cluster/... ./load
go vet -tags "e2e bench" ./internal/e2e
for mod in subjects/*/*.mod; do
	echo "vet $mod"
	(cd "$(dirname "$mod")" && GOWORK=off CGO_ENABLED=0 go vet -modfile="$(basename "$mod")" .)
done
