#!/usr/bin/env bash
# adapters.sh tests the adapters of examples/adapters with the npm packages of the frameworks and a real daemon. The packages are pinned.
# The script installs them again when the lock file has changed.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/need.sh node=nodejs npm protoc=protobuf-compiler /usr/include/google/protobuf/duration.proto=libprotobuf-dev
sdk/typescript/build.sh
CGO_ENABLED=0 go build -tags=grpcnotrace -trimpath -o bin/toold ./cmd/toold
cd examples/adapters
if ! cmp -s package-lock.json node_modules/.fetched; then
	npm ci --loglevel=error
	cp package-lock.json node_modules/.fetched
fi
node_modules/.bin/tsc -p .
# AI SDK 7 needs Node 22, which comes with the packages.
TOOLD=$PWD/../../bin/toold node_modules/node-linux-*/bin/node --no-warnings --test --test-timeout=60000 ./*/toold.test.ts
