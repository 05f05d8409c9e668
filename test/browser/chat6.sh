#!/usr/bin/env bash
# chat6.sh builds examples/chat with version 6 of the AI SDK, in dist/chat6. The model and the stream name the version; nothing else differs.
set -euo pipefail
cd "$(dirname "$0")"

rm -rf dist/chat6
mkdir -p dist/chat6
cp ../../examples/chat/{main,page}.tsx ../../examples/chat/{model,route,server,stream,toold}.ts dist/chat6
cd dist/chat6
sed -i "s/specificationVersion: 'v4'/specificationVersion: 'v3'/" model.ts
sed -i 's/version=7/version=6/' stream.ts
grep -q "'v3'" model.ts && grep -q version=6 stream.ts
esbuild=../../node_modules/.bin/esbuild
$esbuild main.tsx --bundle --format=esm --jsx=automatic --define:process.env.NODE_ENV='"production"' --outfile=page.js --log-level=warning
$esbuild server.ts --bundle --platform=node --packages=external --format=esm --outfile=server.js --log-level=warning
