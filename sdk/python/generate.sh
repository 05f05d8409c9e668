#!/usr/bin/env bash
# generate.sh generates toold/v1 from the protos with Debian's protoc 3.21.12 (protobuf-compiler, protobuf-compiler-grpc), and
# toold/reasons.py from the page of reasons. It does nothing when they have not changed since the last run.
set -euo pipefail
cd "$(dirname "$0")"

cp ../../LICENSE . # a wheel cannot contain a symbolic link
exec 9>.lock && flock 9 # two tests may run this script at the same time
protos=${PROTOS:-../../proto} reasons=${REASONS:-../../docs/reference/errors.md}
stamp=$(cat "$protos"/toold/v1/*.proto "$protos"/google/rpc/*.proto "$reasons" generate.sh | sha256sum)
if [[ -e toold/v1/.generated && $(<toold/v1/.generated) == "$stamp" ]]; then exit 0; fi

work=$(mktemp -d -p .)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/in/toold/v1 "$work"/new
# A Python process has one pool of descriptors, which may already contain Google's files of google/rpc. Our copies therefore get
# different names. The messages on the wire are the same.
for file in status error_details; do
	sed 's/^package google\.rpc;/package toold.v1.rpc;/' "$protos"/google/rpc/"$file".proto >"$work"/in/toold/v1/rpc_"$file".proto
done
for file in "$protos"/toold/v1/*.proto; do
	sed -e 's|"google/rpc/status\.proto"|"toold/v1/rpc_status.proto"|' -e 's/\bgoogle\.rpc\.Status\b/.toold.v1.rpc.Status/' "$file" >"$work"/in/toold/v1/"$(basename "$file")"
done
protoc -I "$work"/in --python_out="$work" --pyi_out="$work" --grpc_out="$work" --plugin=protoc-gen-grpc="$(command -v grpc_python_plugin)" "$work"/in/toold/v1/*.proto
sed -i 's/__slots__ = \[/__slots__: list[str] = [/' "$work"/toold/v1/*.pyi # protoc 3.21 leaves the type of empty lists open
mv "$work"/toold/v1/*.py "$work"/toold/v1/*.pyi "$work"/new
touch "$work"/new/__init__.py
{
	printf '"""An exception for each reason of a refused request. A newer daemon may send others, which are a TooldError."""\nfrom .errors import TooldError\n'
	sed -nE 's/^\| `([A-Z_]+)` \| [A-Z_]+ \| (.*) \|$/\1\t\2/p' "$reasons" | while IFS=$'\t' read -r reason hint; do
		class=$(sed -E 's/([A-Z])([A-Z]*)_?/\1\L\2/g' <<<"$reason")
		printf '\n\nclass %s(TooldError):\n    """%s"""\n\n    reason = "%s"\n    hint = "%s"\n' "$class" "$hint" "$reason" "$hint"
	done
} >"$work"/reasons.py
printf '%s\n' "$stamp" >"$work"/new/.generated
rm -rf toold/v1
mv "$work"/reasons.py toold
mv "$work"/new toold/v1
