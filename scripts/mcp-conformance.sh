#!/usr/bin/env bash
# mcp-conformance.sh runs the conformance suite of MCP against toold's MCP client: the client requirements of each protocol revision, and the
# scenarios of 2025-03-26. expected-failures.yml lists the intended differences with their reasons. The suite and Node are pinned.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/need.sh node=nodejs npm
folder=tools/mcp/testdata/conformance
if ! cmp -s $folder/package-lock.json $folder/node_modules/.fetched; then
	npm --prefix $folder ci --loglevel=error
	cp $folder/package-lock.json $folder/node_modules/.fetched
fi
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
go test -vet=off -c -o "$out/client" ./tools/mcp

# suite <name> <arguments>... runs a part of the suite and prints how many checks passed.
failed=0
suite() {
	local name=$1
	shift
	if TOOLD_MCP_CONFORMANCE=1 PATH="$PWD/$folder/node_modules/.bin:$PATH" conformance client --command "$out/client" \
		--expected-failures $folder/expected-failures.yml -o "$out/results" "$@" >"$out/log" 2>&1; then
		local result=passed
	else
		local result=FAILED
		failed=1
		grep -E '^[✗✓~] |FAILURE|Unexpected|Stale|stale' "$out/log" || tail -50 "$out/log"
	fi
	printf 'MCP conformance, %s: %s; %s\n' "$name" "$result" "$(grep -E '^(Total|Passed): ' "$out/log" | tail -1)"
}
suite "2026-07-28" --requirements 2026-07-28
suite "2025-11-25" --requirements 2025-11-25
suite "metadata of 2025-03-26" --scenario auth/2025-03-26-oauth-metadata-backcompat
suite "endpoints of 2025-03-26" --scenario auth/2025-03-26-oauth-endpoint-fallback
exit $failed
