#!/usr/bin/env bash
# nightly.sh [fuzz time] runs the long tests:
#
# - the crash loop with 2,000 kills (or TOOLD_CRASH_KILLS), 500 owners of PostgreSQL stores that are stopped for longer than their lock
#   (or TOOLD_CRASH_STOPS), and a soak of 131,072 calls;
# - a thousand isolated processes;
# - power loss and disk errors at every write, and a flip of every bit of a pack;
# - random histories of the model, also with PostgreSQL; a tool that prints 1 GiB; MCP conformance of client and server; adapters for frameworks; frontends and the console in a browser;
# - a release, made twice, installed, upgraded, removed, and run in the image and under qemu (scripts/release-proof.sh);
# - all packages on 1, 2 and 8 processors under other load (scripts/shake.sh);
# - then each fuzz target for the given time.
#
# All parts run, even when one fails.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/need.sh git bash gcc make curl initdb=postgresql promtool=prometheus python3 jq protoc=protobuf-compiler grpc_python_plugin=protobuf-compiler-grpc \
	/usr/include/google/protobuf/duration.proto=libprotobuf-dev \
	/usr/lib/python3/dist-packages/grpc=python3-grpcio
export TOOLD_NIGHTLY=1 TOOLD_CRASH_KILLS=${TOOLD_CRASH_KILLS:-2000} TOOLD_CRASH_STOPS=${TOOLD_CRASH_STOPS:-500}
fuzztime=${1:-60s}
failed=()
passed=0

go build -o bin/testsum ./build/testsum

# part <name> <command>... runs one part and counts its outcome.
part() {
	local what=$1
	shift
	if "$@"; then passed=$((passed + 1)); else failed+=("$what"); fi
}
tests() { bin/testsum -ci -must "$1" -- -count=1 -timeout 4h "${@:2}" "./$1/..."; }

part "crash loop with $TOOLD_CRASH_KILLS kills, $TOOLD_CRASH_STOPS stopped owners, soak" tests test/crash
part "a thousand isolated processes" tests sandbox
part "power loss and failing disks, flipped bits" tests store/sqlite
part "random lives of the model" tests lifecycle -run Model
part "a tool that prints 1 GiB" tests daemon -run T73
part "MCP conformance of the client" scripts/mcp-conformance.sh
part "MCP endpoint with the suite, the SDKs and the Inspector" scripts/mcp-server.sh
part "a release, installed and upgraded" scripts/release-proof.sh
part "adapters for agent frameworks" scripts/adapters.sh
part "frontends in a browser" scripts/browser.sh
part "the console in a browser" scripts/console.sh
part "all packages, shaken" scripts/shake.sh
parts=$((passed + ${#failed[@]}))

# fuzz <package> <target> runs a fuzz target. It limits minimisation, which would take most of the time. Go sometimes reports the end of the
# fuzz time as the failure "context deadline exceeded", without a failing input. Such a target runs once more.
fuzz() {
	local log
	log=$(mktemp)
	for _ in 1 2; do
		if go test -run '^$' -fuzz "^$2\$" -fuzztime "$fuzztime" -fuzzminimizetime 20x "$1" 2>&1 | tee "$log"; then
			rm "$log"
			return 0
		fi
		grep -q 'context deadline exceeded' "$log" && ! grep -q 'Failing input' "$log" || break
	done
	rm "$log"
	return 1
}

while IFS=: read -r file name; do
	package=./$(dirname "$file")
	echo "--- $package $name for $fuzztime"
	if fuzz "$package" "$name"; then
		passed=$((passed + 1))
	else
		failed+=("$package $name")
	fi
done < <(git grep --no-color -o -E '^func Fuzz[A-Za-z0-9_]+' -- '*_test.go' | sed 's/:func /:/')

echo
echo "ran: the crash loop with $TOOLD_CRASH_KILLS kills, $TOOLD_CRASH_STOPS stopped owners, the soak, power loss and failing disks, flipped bits, random lives of the model, a thousand isolated processes, 1 GiB of output, MCP conformance, a release, all packages on 1, 2 and 8 processors beside other load, and $((passed + ${#failed[@]} - parts)) fuzz targets for $fuzztime each"
for what in "${failed[@]}"; do echo "FAILED: $what"; done
echo "$passed passed, ${#failed[@]} failed"
((${#failed[@]} == 0))
