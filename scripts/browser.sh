#!/usr/bin/env bash
# browser.sh tests frontends in Debian's Chromium with a real daemon: test/browser. The packages are pinned. The script installs them again
# when a lock file has changed.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/need.sh node=nodejs npm chromium protoc=protobuf-compiler /usr/include/google/protobuf/duration.proto=libprotobuf-dev
sdk/typescript/build.sh
sdk/react/build.sh
CGO_ENABLED=0 go build -tags=grpcnotrace -trimpath -o bin/toold ./cmd/toold

# fetch installs the packages of a folder.
fetch() {
	cmp -s "$1/package-lock.json" "$1/node_modules/.fetched" && return
	npm --prefix "$1" ci --loglevel=error
	cp "$1/package-lock.json" "$1/node_modules/.fetched"
}

fetch test/browser/react18
for folder in examples/chat test/browser; do
	fetch $folder
	$folder/node_modules/.bin/tsc -p $folder
done
npm --prefix examples/chat run --silent build
test/browser/chat6.sh

# Make the package of the React hooks twice: the bytes must be the same. Then install the package in an empty directory, and compile the
# program of the how-to page with it. The tests run this program.
packed=$(mktemp -d)
trap 'rm -rf "$packed"' EXIT
mkdir "$packed/again" "$packed/app"
VERSION=0.1.7 sdk/react/pack.sh "$packed"
VERSION=0.1.7 sdk/react/pack.sh "$packed/again"
cmp "$packed"/toold-react-0.1.7.tgz "$packed"/again/toold-react-0.1.7.tgz
sed -n '/^```tsx$/,/^```$/{/^```/d;p}' docs/how-to/use-from-react.md >"$packed/app/app.tsx"
echo '{"type": "module"}' >"$packed/app/package.json"
npm --prefix "$packed/app" install --prefer-offline --no-audit --no-fund --loglevel=error "$packed/toold-react-0.1.7.tgz" react@19.3.1 react-dom@19.3.1 @types/react@19.3.0
(cd "$packed/app" && "$OLDPWD/test/browser/node_modules/.bin/tsc" --strict --noEmit --jsx react-jsx --module nodenext --target es2022 --lib es2022,dom app.tsx)

# The tests need Node 22, which comes with the packages.
TOOLD=$PWD/bin/toold REACT_APP=$packed/app test/browser/node_modules/node-linux-*/bin/node --no-warnings --test --test-timeout=300000 test/browser/*.test.ts
