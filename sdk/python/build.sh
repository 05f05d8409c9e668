#!/usr/bin/env bash
# build.sh OUT writes the wheel and the sdist to the directory OUT. Both contain the generated code, so that an installation needs no protoc.
# VERSION replaces the version of toold/version.py. The same sources, VERSION and SOURCE_DATE_EPOCH (default: 1980-01-01) give the same bytes.
set -euo pipefail
umask 022
mkdir -p "${1:?usage: build.sh OUT}"
out=$(realpath "$1")
cd "$(dirname "$0")"
./generate.sh
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-315532800}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work"/src
cp -r pyproject.toml README.md LICENSE toold "$work"/src
cd "$work"/src
find . -name __pycache__ -prune -exec rm -r {} +
rm toold/v1/.generated
chmod -R u=rwX,go=rX .
if [[ -n ${VERSION:-} ]]; then sed -i "s/^__version__ = .*/__version__ = \"$VERSION\"/" toold/version.py; fi
/usr/bin/python3 - "$work" "$out" >"$work"/log 2>&1 <<'END' || { cat "$work"/log >&2; exit 1; }
import gzip, io, os, sys, tarfile
from setuptools import build_meta

work, out = sys.argv[1:]
build_meta.build_wheel(out)
name = build_meta.build_sdist(work)
members = {}
with tarfile.open(f"{work}/{name}") as sdist: # rewritten below, because its members have the times, the owner and the order of this machine
    for m in sdist:
        members[m.name] = m, sdist.extractfile(m).read() if m.isfile() else b""
plain = io.BytesIO()
with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as tar:
    for _, (m, data) in sorted(members.items()):
        m.mtime, m.uid, m.gid, m.uname, m.gname, m.pax_headers = int(os.environ["SOURCE_DATE_EPOCH"]), 0, 0, "", "", {}
        tar.addfile(m, io.BytesIO(data))
with open(f"{out}/{name}", "wb") as f, gzip.GzipFile("", "wb", mtime=0, fileobj=f) as packed:
    packed.write(plain.getvalue())
END
