#!/usr/bin/env bash
# build.sh installs the packages of the lock file and compiles dist. It does nothing when no input has changed.
set -euo pipefail
cd "$(dirname "$0")"

cp ../../LICENSE . # npm cannot pack a symbolic link
exec 9>.lock && flock 9 # two tests may run this script at the same time
stamp=$(cat src/*.ts build.sh tsconfig.json package.json package-lock.json | sha256sum)
if [[ -e .built && -d node_modules && $(<.built) == "$stamp" ]]; then exit 0; fi

if ! cmp -s package-lock.json node_modules/.fetched; then
	npm ci --omit=peer --loglevel=error
	cp package-lock.json node_modules/.fetched
fi
rm -rf dist
node_modules/.bin/tsc
printf '%s\n' "$stamp" >.built
