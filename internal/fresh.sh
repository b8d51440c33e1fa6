#!/usr/bin/env bash
# What somebody new types, from a fresh clone with empty caches, one after another, and how long each took:
#
#	internal/fresh.sh [scenario] [tutorial] [nightly] [test]     (scenario and tutorial, where none is named)
#
# The engine's images stay as they are: what it has need not be built.
set -euo pipefail
cd "$(dirname "$0")/.."
dir=$(mktemp -d)
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT # Go's module cache is read-only
git clone -q . "$dir/leakrig"
cd "$dir/leakrig"
mkdir "$dir/home"
export HOME=$dir/home
unset GOPATH GOCACHE GOMODCACHE XDG_CACHE_HOME LEAKRIG_CACHE
[ $# -gt 0 ] || set -- scenario tutorial

took=() worst=0
for what in "$@"; do
	from=$SECONDS status=0
	case $what in
	scenario) make scenario NAME=watch-then-delete || status=$? ;;
	nightly) make nightly || status=$? ;;
	test) make test || status=$? ;;
	tutorial) # each line of it that begins with a $, and what the page shows of its output
		go test -count=1 -tags slow -run 'TestSlowSessionsOfTheDocs/tutorial.md' ./cmd/leakrig &&
			go test -count=1 -tags e2e -run 'TestKindSessionsOfTheDocs/tutorial.md' ./internal/e2e || status=$? ;;
	*) echo "fresh: there is no $what" >&2; exit 2 ;;
	esac
	took+=("$(printf '%-9s %2dm%02ds  exit %d' "$what" $(((SECONDS - from) / 60)) $(((SECONDS - from) % 60)) "$status")")
	[ "$status" -eq 0 ] || worst=1
done
printf '\n%s\n' "from a fresh clone with empty caches"
printf '%s\n' "${took[@]}"
exit "$worst"
