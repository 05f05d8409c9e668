#!/usr/bin/env bash
# The landing check. Every package with the race detector, the crash loop with 40 kills of the real binary, the examples, and the exported tools
# against the packages of the providers.
# The last lines say what ran; with CI=true nothing may be left out. PACKAGES names some packages in place of all; with AGAIN=false a test
# that fails once has failed.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/need.sh git bash gcc make initdb=postgresql python3 jq openssl
scripts/sources.sh
scripts/providers.sh
sdk/typescript/build.sh
go tool -modfile=build/grpcurl/go.mod grpcurl -version # what takes long to build is built before a test's time counts

ci=()
if [[ ${CI:-} == true || ${CI:-} == 1 ]]; then ci=(-ci); fi

# PostgreSQL servers of tests end by signals, never with the machine: where memory is large enough they sync to it.
if [[ -w /dev/shm && $(df --output=avail -k /dev/shm | tail -1) -gt $((4 << 20)) ]]; then export TOOLD_TEST_PGDIR=/dev/shm; fi

# The race detector needs cgo; what we ship is built without it.
export CGO_ENABLED=1
# Race instrumentation is for our code: the SQLite engine is C translated to Go, is slow to compile with it, and its
# memory is not the Go heap's, which is all that the detector looks at.
go build -o bin/testsum ./build/testsum
# Many packages wait for processes, disks and timers most of their time, so that twice as many as cores run at once. Those that
# take longest begin first: at the end no core waits for one of them.
longest=(./daemon ./test/crash ./sandbox ./store/... ./tools/mcp ./lifecycle ./conformance)
# Debug information takes a link as long again, and vet runs with the linters.
must=(-must conformance -must test/crash -must examples -must test/imports)
packages=("${longest[@]}" ./...)
if [[ ${PACKAGES:-} ]]; then
	must=()
	read -ra packages <<<"$PACKAGES"
fi
exec bin/testsum "${ci[@]}" -again="${AGAIN:-true}" "${must[@]}" -- \
	-p $((2 * $(nproc))) -race -count=1 -vet=off -ldflags=-w -gcflags='modernc.org/...=-race=false' -timeout 30m "$@" "${packages[@]}"
