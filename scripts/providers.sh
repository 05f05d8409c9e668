#!/usr/bin/env bash
# providers.sh checks the exported tools in registry/export/testdata with the npm packages of the model providers. The packages are pinned.
# It installs them again when the lock file has changed.
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
