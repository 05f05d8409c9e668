#!/usr/bin/env bash
# generate.sh makes toold/v1 of the protos, with Debian's protoc 3.21.12 (protobuf-compiler, protobuf-compiler-grpc). It does nothing while the
# protos are those of the last time.
set -euo pipefail
cd "$(dirname "$0")"

exec 9>.lock && flock 9 # two tests may want it at the same time
protos=${PROTOS:-../../proto}
stamp=$(cat "$protos"/toold/v1/*.proto "$protos"/google/rpc/status.proto generate.sh | sha256sum)
if [[ -e toold/v1/.generated && $(<toold/v1/.generated) == "$stamp" ]]; then exit 0; fi

work=$(mktemp -d -p .)
trap 'rm -rf "$work"' EXIT
protoc -I "$protos" --python_out="$work" --grpc_out="$work" --plugin=protoc-gen-grpc="$(command -v grpc_python_plugin)" \
	"$protos"/toold/v1/*.proto "$protos"/google/rpc/status.proto
mkdir "$work"/new
mv "$work"/toold/v1/*.py "$work"/google/rpc/status_pb2.py "$work"/new
# google.rpc is another package's where that is installed; this one brings its own.
sed -i 's/^from google\.rpc import status_pb2/from toold.v1 import status_pb2/' "$work"/new/*.py
touch "$work"/new/__init__.py
printf '%s\n' "$stamp" >"$work"/new/.generated
rm -rf toold/v1
mv "$work"/new toold/v1
