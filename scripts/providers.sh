#!/usr/bin/env bash
# providers.sh holds the exported tools of registry/export/testdata against the npm packages of those who take them. The
# packages are pinned and are fetched when the lock file is not the one that they were fetched for.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/need.sh node=nodejs npm
major=$(node -p 'process.versions.node.split(".")[0]')
if ((major < 20)); then
	echo "the exported tools are checked with Node 20 or later; this is $(node --version)" >&2
	exit 1
fi
folder=registry/export/providers
if ! cmp -s $folder/package-lock.json $folder/node_modules/.fetched; then
	npm --prefix $folder ci --loglevel=error
	cp $folder/package-lock.json $folder/node_modules/.fetched
fi
node $folder/check.mjs registry/export/testdata/*/*.jsonl
