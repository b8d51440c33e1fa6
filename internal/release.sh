#!/usr/bin/env bash
# What a release consists of, in dist/: static binaries, images of leakrig, and the checksums of both. The same
# sources, Go and VERSION make the same bytes, wherever the checkout lies.
set -euo pipefail
cd "$(dirname "$0")/.."

version=${VERSION:-$(git describe --tags --always --dirty)}
rm -rf dist
mkdir dist
export CGO_ENABLED=0 GOWORK=off GOFLAGS=-mod=readonly GOAMD64=v1 GOARM64=v8.0 GOEXPERIMENT=
for platform in ${PLATFORMS:-linux/amd64 linux/arm64 darwin/amd64 darwin/arm64}; do
	name=leakrig-$version-${platform/\//-}
	echo "dist/$name"
	GOOS=${platform%/*} GOARCH=${platform#*/} go build -trimpath -buildvcs=false -ldflags "-s -w -X main.release=$version" -o "dist/$name" ./cmd/leakrig
	if [ "${platform%/*}" = linux ]; then
		go run -buildvcs=false ./cmd/leakrig image --rig "dist/$name" --version-label "$version" \
			--tag "leakrig.local/leakrig:$version" --output "dist/leakrig-$version-image-${platform#*/}.tar"
	fi
done
sum() { if command -v sha256sum >/dev/null; then sha256sum "$@"; else shasum -a 256 "$@"; fi; }
cd dist
sum leakrig-* >SHA256SUMS
