#!/usr/bin/env bash
# mcp-servers.sh fetches the MCP servers that the tests of tools/mcp talk to. They are pinned and are fetched when the lock file
# is not the one that they were fetched for.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/need.sh node=nodejs npm
folder=tools/mcp/testdata/npm
if ! cmp -s $folder/package-lock.json $folder/node_modules/.fetched; then
	npm --prefix $folder ci --loglevel=error
	cp $folder/package-lock.json $folder/node_modules/.fetched
fi
