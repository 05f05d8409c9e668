#!/usr/bin/env bash
# nightly.sh [fuzz time] is the long run: the crash loop with 2,000 kills (TOOLD_CRASH_KILLS says another number), 500 owners of
# PostgreSQL stores stopped beyond their lock (TOOLD_CRASH_STOPS), a
# soak of 100,000 calls, power loss and failing disks at every write, MCP conformance, then each fuzz target for the given time. A failing
# part does not hide the parts after it.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/need.sh git bash gcc make initdb=postgresql python3 jq protoc=protobuf-compiler grpc_python_plugin=protobuf-compiler-grpc \
	/usr/include/google/protobuf/duration.proto=libprotobuf-dev \
	/usr/lib/python3/dist-packages/grpc=python3-grpcio
export TOOLD_NIGHTLY=1 TOOLD_CRASH_KILLS=${TOOLD_CRASH_KILLS:-2000} TOOLD_CRASH_STOPS=${TOOLD_CRASH_STOPS:-500}
fuzztime=${1:-60s}
failed=()
passed=0

go build -o bin/testsum ./build/testsum
if bin/testsum -ci -must crash -- -count=1 -timeout 4h ./crash/...; then
	passed=$((passed + 1))
else
	failed+=("crash loop with $TOOLD_CRASH_KILLS kills, $TOOLD_CRASH_STOPS stopped owners, soak")
fi
if bin/testsum -ci -must sandbox -- -count=1 -timeout 1h ./sandbox; then
	passed=$((passed + 1))
else
	failed+=("a thousand isolated processes")
fi
if bin/testsum -ci -must store/sqlite -- -count=1 -timeout 2h ./store/sqlite/...; then
	passed=$((passed + 1))
else
	failed+=("power loss and failing disks")
fi
if scripts/mcp-conformance.sh; then
	passed=$((passed + 1))
else
	failed+=("MCP conformance of the client")
fi

# Minimising what is only interesting would take most of the time.
while IFS=: read -r file name; do
	package=./$(dirname "$file")
	echo "--- $package $name for $fuzztime"
	if go test -run '^$' -fuzz "^$name\$" -fuzztime "$fuzztime" -fuzzminimizetime 20x "$package"; then
		passed=$((passed + 1))
	else
		failed+=("$package $name")
	fi
done < <(git grep --no-color -o -E '^func Fuzz[A-Za-z0-9_]+' -- '*_test.go' | sed 's/:func /:/')

echo
echo "ran: the crash loop with $TOOLD_CRASH_KILLS kills, $TOOLD_CRASH_STOPS stopped owners, the soak, power loss and failing disks, a thousand isolated processes, MCP conformance, and $((passed + ${#failed[@]} - 4)) fuzz targets for $fuzztime each"
for part in "${failed[@]}"; do echo "FAILED: $part"; done
echo "$passed passed, ${#failed[@]} failed"
((${#failed[@]} == 0))
