#!/usr/bin/env bash
# mcp-server.sh tests the MCP endpoint of the shipped binary with other people's clients: the official conformance suite, the TypeScript SDK
# and the command line of the Inspector. The tools come through a worker. expected-failures.yml lists what toold does not have. All packages
# and Node are pinned.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/need.sh node=nodejs npm
folder=test/mcp/clients
if ! cmp -s $folder/package-lock.json $folder/node_modules/.fetched; then
	npm --prefix $folder ci --loglevel=error
	cp $folder/package-lock.json $folder/node_modules/.fetched
fi
CGO_ENABLED=0 go build -tags=grpcnotrace -trimpath -o bin/toold ./cmd/toold
go build -o bin/mcp-rig ./test/mcp
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
export PATH=$PWD/$folder/node_modules/.bin:$PATH

# suite <revision> runs the suite's requirements for a revision of the protocol and prints how many checks passed.
failed=0
suite() {
	local result=passed
	bin/mcp-rig bin/toold conformance server --url '{open_url}' --requirements "$1" \
		--expected-failures $folder/expected-failures.yml -o "$out/results" >"$out/log" 2>&1 || result=FAILED
	if [[ $result == FAILED ]]; then
		failed=1
		grep -E '^[✗✓~] |^ +[✗✓~] |Unexpected|Stale' "$out/log" || tail -50 "$out/log"
	fi
	printf 'MCP conformance of the server, %s: %s; %s\n' "$1" "$result" "$(grep -E '^Total: ' "$out/log" | tail -1)"
}
suite 2026-07-28
suite 2025-11-25

# scenario <name> runs a scenario that is not among the requirements. It fails if a check fails or could not be made.
scenario() {
	bin/mcp-rig bin/toold conformance server --url '{open_url}' --scenario "$1" -o "$out/results" >"$out/log" 2>&1 || true
	grep -E '^Passed: ([0-9]+)/\1, 0 failed, 0 warnings' "$out/log" | sed "s/^/MCP conformance of the server, $1: /" && return
	failed=1
	tail -50 "$out/log"
}
scenario http-header-validation
scenario http-custom-header-server-validation
bin/mcp-rig bin/toold node --test --test-timeout=120000 $folder/*.test.mjs || failed=1
exit $failed
