#!/usr/bin/env bash
# build.sh builds the console from its lock file and the protos, and writes console.zip, which the daemon embeds. It does nothing when no input
# has changed. With -check it fails when the committed archive is not what the sources give; -o names another archive.
set -euo pipefail
cd "$(dirname "$0")"

exec 9>.lock && flock 9 # two tests may run this script at the same time
protos=../proto
stamp=$(cat "$protos"/toold/v1/*.proto "$protos"/google/rpc/*.proto build.sh pack/main.go index.html vite.config.ts tsconfig.json package.json package-lock.json $(find src -type f | LC_ALL=C sort) | sha256sum)
if [[ -e dist/.built && -d node_modules && $(<dist/.built) == "$stamp" ]]; then
	exec go run ./pack "$@"
fi

if ! cmp -s package-lock.json node_modules/.fetched; then
	npm ci --loglevel=error
	cp package-lock.json node_modules/.fetched
fi
rm -rf gen dist
mkdir gen
protoc -I "$protos" --plugin=protoc-gen-es=node_modules/.bin/protoc-gen-es --es_out=gen --es_opt=target=ts,import_extension=ts \
	"$protos"/toold/v1/*.proto "$protos"/google/rpc/*.proto
node_modules/.bin/tsc
node_modules/.bin/vite build --logLevel warn
printf '%s\n' "$stamp" >dist/.built
go run ./pack "$@"
