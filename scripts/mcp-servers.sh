#!/usr/bin/env bash
# mcp-servers.sh installs the MCP servers for the tests of tools/mcp. Their versions are pinned. The script installs them again when the
# lock file has changed.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/need.sh node=nodejs npm
folder=tools/mcp/testdata/npm
if ! cmp -s $folder/package-lock.json $folder/node_modules/.fetched; then
	npm --prefix $folder ci --loglevel=error
	cp $folder/package-lock.json $folder/node_modules/.fetched
fi
