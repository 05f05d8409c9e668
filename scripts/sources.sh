#!/usr/bin/env bash
# sources.sh prepares the external tools for demo and tests: MCP servers from npm, and the Python SDK, generated with Debian's protoc for
# Debian's grpcio. It does nothing for parts that are up to date.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/need.sh python3 protoc=protobuf-compiler grpc_python_plugin=protobuf-compiler-grpc \
	/usr/include/google/protobuf/duration.proto=libprotobuf-dev \
	/usr/lib/python3/dist-packages/grpc=python3-grpcio \
	/usr/lib/python3/dist-packages/wheel=python3-wheel /usr/lib/python3/dist-packages/setuptools=python3-setuptools \
	/usr/lib/python3.11/ensurepip=python3-venv /usr/lib/python3/dist-packages/pip=python3-pip
scripts/mcp-servers.sh
sdk/python/generate.sh
