#!/usr/bin/env bash
# generate.sh generates toold/v1 from the protos with Debian's protoc 3.21.12 (protobuf-compiler, protobuf-compiler-grpc). It does nothing
# when the protos have not changed since the last run.
set -euo pipefail
cd "$(dirname "$0")"

cp ../../LICENSE . # a wheel cannot contain a symbolic link
exec 9>.lock && flock 9 # two tests may run this script at the same time
protos=${PROTOS:-../../proto}
stamp=$(cat "$protos"/toold/v1/*.proto "$protos"/google/rpc/status.proto generate.sh | sha256sum)
if [[ -e toold/v1/.generated && $(<toold/v1/.generated) == "$stamp" ]]; then exit 0; fi

work=$(mktemp -d -p .)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/in/toold/v1 "$work"/new
# A Python process has one pool of descriptors, which may already contain Google's google/rpc/status.proto. Our copy therefore gets a
# different name. The message on the wire is the same.
sed 's/^package google\.rpc;/package toold.v1.rpc;/' "$protos"/google/rpc/status.proto >"$work"/in/toold/v1/rpc_status.proto
for file in "$protos"/toold/v1/*.proto; do
	sed -e 's|"google/rpc/status\.proto"|"toold/v1/rpc_status.proto"|' -e 's/\bgoogle\.rpc\.Status\b/.toold.v1.rpc.Status/' "$file" >"$work"/in/toold/v1/"$(basename "$file")"
done
protoc -I "$work"/in --python_out="$work" --grpc_out="$work" --plugin=protoc-gen-grpc="$(command -v grpc_python_plugin)" "$work"/in/toold/v1/*.proto
mv "$work"/toold/v1/*.py "$work"/new
touch "$work"/new/__init__.py
printf '%s\n' "$stamp" >"$work"/new/.generated
rm -rf toold/v1
mv "$work"/new toold/v1
