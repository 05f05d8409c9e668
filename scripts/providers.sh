#!/usr/bin/env bash
# providers.sh uses the npm packages of the model providers to check what toold makes for models: the exported tools in registry/export/testdata,
# and the messages of turns in turn/testdata. It checks the messages with the TypeScript compiler too. The AI SDK reads the streams in
# server/http/uistream/testdata. The packages are pinned. The script installs them again when a lock file has changed.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/need.sh node=nodejs npm
major=$(node -p 'process.versions.node.split(".")[0]')
if ((major < 20)); then
	echo "the exported tools are checked with Node 20 or later; this is $(node --version)" >&2
	exit 1
fi

# fetch installs the packages of a folder.
fetch() {
	cmp -s "$1/package-lock.json" "$1/node_modules/.fetched" && return
	npm --prefix "$1" ci --loglevel=error
	cp "$1/package-lock.json" "$1/node_modules/.fetched"
}

fetch registry/export/providers
node registry/export/providers/check.mjs registry/export/testdata/*/*.jsonl

# The newest packages need Node 22, which is one of the packages.
turns=turn/providers
fetch $turns
node22=node
if ((major < 22)); then
	node22=$(ls $turns/node_modules/node-linux-*/bin/node)
fi
$node22 $turns/check.mjs turn/testdata/*.jsonl
$node22 $turns/uistream.mjs server/http/uistream/testdata/*.v[67]
$node22 $turns/node_modules/typescript/bin/tsc -p $turns
