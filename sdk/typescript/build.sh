#!/usr/bin/env bash
# build.sh installs the packages of the lock file, generates gen from the protos (with Debian's protoc) and from the page of reasons, and
# compiles dist. It does nothing when no input has changed.
set -euo pipefail
cd "$(dirname "$0")"

cp ../../LICENSE . # npm cannot pack a symbolic link
exec 9>.lock && flock 9 # two tests may run this script at the same time
protos=${PROTOS:-../../proto} reasons=${REASONS:-../../docs/reference/errors.md}
stamp=$(cat "$protos"/toold/v1/*.proto "$protos"/google/rpc/*.proto "$reasons" src/*.ts tests/*.ts build.sh tsconfig.json package.json package-lock.json | sha256sum)
if [[ -e .built && -d node_modules && $(<.built) == "$stamp" ]]; then exit 0; fi

if ! cmp -s package-lock.json node_modules/.fetched; then
	npm ci --loglevel=error
	cp package-lock.json node_modules/.fetched
fi
rm -rf gen dist
mkdir gen
protoc -I "$protos" --plugin=protoc-gen-es=node_modules/.bin/protoc-gen-es --es_out=gen --es_opt=target=ts,import_extension=js \
	"$protos"/toold/v1/*.proto "$protos"/google/rpc/*.proto
printf 'export const version: string = "%s";\n' "$(node -p 'require("./package.json").version')" >gen/version.ts
{
	echo 'export const hints = {'
	sed -nE 's/^\| `([A-Z_]+)` \| [A-Z_]+ \| (.*) \|$/  \1: "\2",/p' "$reasons"
	echo '} as const;'
} >gen/reasons.ts
node_modules/.bin/tsc
printf '%s\n' "$stamp" >.built
