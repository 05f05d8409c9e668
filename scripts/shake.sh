#!/usr/bin/env bash
# shake.sh looks for tests that fail rarely. It runs every package with the race detector on 1, 2 and 8 processors, COUNT times each
# (default 3), while other programs load the processors. A test that fails once counts as failed. PACKAGES selects packages; the default is
# all packages.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/need.sh stress
unset TOOLD_NIGHTLY TOOLD_CRASH_KILLS TOOLD_CRASH_STOPS # they would make the tests as long as in scripts/nightly.sh
stress --quiet --cpu "$(nproc)" --io 1 &
load=$!
trap 'kill "$load" 2>/dev/null || true' EXIT
AGAIN=false scripts/test.sh -cpu 1,2,8 -count "${COUNT:-3}" -timeout 4h
