#!/usr/bin/env bash
# console.sh tests the console in Debian's Chromium with a real daemon: test/browser/console. Arguments name some of the tests, such as `inbox`.
# --short runs only the tests of the landing check: people sign in, decide and race, and the daemon is killed.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/need.sh node=nodejs npm chromium protoc=protobuf-compiler /usr/include/google/protobuf/duration.proto=libprotobuf-dev
web/build.sh -o dist/.console.zip
sdk/typescript/build.sh
sdk/react/build.sh
# The daemon gets the console of the sources, not the committed archive.
printf '{"Replace": {"%s": "%s"}}' "$PWD/web/console.zip" "$PWD/web/dist/.console.zip" >web/dist/.overlay.json
CGO_ENABLED=0 go build -overlay web/dist/.overlay.json -tags=grpcnotrace -trimpath -o bin/console/toold ./cmd/toold
if ! cmp -s test/browser/package-lock.json test/browser/node_modules/.fetched; then
	npm --prefix test/browser ci --loglevel=error
	cp test/browser/package-lock.json test/browser/node_modules/.fetched
fi
test/browser/node_modules/.bin/tsc -p test/browser
only=()
if [[ ${1:-} == --short ]]; then
	only=(--test-name-pattern='/keys|signed|first page|comes by itself|two people race|kill -9/')
	set -- shell inbox
fi
cd test/browser
files=("${@/#/console/}")
files=("${files[@]/%/.test.ts}")
(($#)) || files=(console/*.test.ts)
TOOLD=$PWD/../../bin/console/toold node_modules/node-linux-*/bin/node --no-warnings --test --test-timeout=300000 "${only[@]}" "${files[@]}"
