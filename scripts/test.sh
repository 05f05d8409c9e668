#!/usr/bin/env bash
# The landing check. It tests every package with the race detector, the crash loop with 40 kills of the real binary, the examples, and the
# exported tools and the messages of turns with the packages of the model providers. The last lines say what ran.
#
# With CI=true no test may be skipped. PACKAGES selects packages; the default is all. With AGAIN=false a test that fails once counts as failed.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/need.sh git bash gcc make curl initdb=postgresql promtool=prometheus python3 jq openssl dpkg-deb=dpkg chromium node=nodejs npm
scripts/sources.sh
scripts/providers.sh
sdk/typescript/build.sh
go tool -modfile=build/grpcurl/go.mod grpcurl -version # slow builds must not count towards the time limit of a test

ci=()
if [[ ${CI:-} == true || ${CI:-} == 1 ]]; then ci=(-ci); fi

# The tests stop PostgreSQL servers only with signals, after which data in memory is still there. So the servers may store their data in
# memory if it is large enough.
if [[ -w /dev/shm && $(df --output=avail -k /dev/shm | tail -1) -gt $((4 << 20)) ]]; then export TOOLD_TEST_PGDIR=/dev/shm; fi

# The race detector needs cgo. Releases are built without cgo.
export CGO_ENABLED=1
# The SQLite engine gets no race instrumentation. It is C translated to Go, compiles slowly with it, and does not use the Go heap, which is
# all that the detector observes.
go build -o bin/testsum ./build/testsum
# Many packages mostly wait for processes, disks and timers, so twice as many packages as cores run at once. The slowest packages start
# first, so that none of them runs alone at the end.
longest=(./daemon ./test/crash ./sandbox ./store/... ./tools/mcp ./lifecycle ./conformance)
if [[ ! ${PACKAGES:-} ]]; then
	# These are separate modules. Go caches test results, and does not see that these tests read files outside of their module.
	(cd build/release && go test -count=1 ./...) &
	(cd build/deploy && go test -count=1 ./...)
	wait $!
fi
# Debug information would double the link time. vet runs with the linters.
must=(-must conformance -must test/crash -must examples -must test/imports)
packages=("${longest[@]}" ./...)
if [[ ${PACKAGES:-} ]]; then
	must=()
	read -ra packages <<<"$PACKAGES"
fi
exec bin/testsum "${ci[@]}" -again="${AGAIN:-true}" "${must[@]}" -- \
	-p $((2 * $(nproc))) -race -count=1 -vet=off -ldflags=-w -gcflags='modernc.org/...=-race=false' -timeout 30m "$@" "${packages[@]}"
