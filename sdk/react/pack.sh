#!/usr/bin/env bash
# pack.sh OUT writes the npm package to the directory OUT, as `npm publish` would send it. VERSION replaces the version of package.json. The
# same sources give the same bytes.
set -euo pipefail
umask 022 # npm takes the modes in the archive from it
out=$(realpath "${1:?usage: pack.sh OUT}")
cd "$(dirname "$0")"
./build.sh

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r package.json README.md LICENSE dist "$work"
chmod -R u=rwX,go=rX "$work"
cd "$work"
if [[ -n ${VERSION:-} ]]; then npm pkg set version="$VERSION"; fi
npm pack --ignore-scripts --loglevel=error --pack-destination "$out"
