#!/usr/bin/env bash
# make-linked-venv.sh REFERENCE FOLDER PYTHON: makes the virtual environment FOLDER of PYTHON with
# the same torch as the virtual environment REFERENCE, from its own wheel. Files that both wheels
# contain, and the CUDA libraries, are links into REFERENCE, which saves 4 of 5 GB. Does nothing if
# FOLDER is up to date.
set -euo pipefail
reference=$(realpath "$1")
folder=$2
python=$3
stamp="$folder/.made-from"
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
torch=$("$reference/bin/python" -c 'from importlib.metadata import version; print(version("torch"))')
wanted="$version $torch $reference"
if [ -x "$folder/bin/python" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ]; then exit 0; fi

printf 'Making %s (Python %s, torch %s from its wheel of 770 MB).\n' "$folder" "$version" "$torch"
rm -rf "$folder"
"$python" -m venv --without-pip "$folder"
download=$(mktemp -d)
trap 'rm -rf "$download"' EXIT
"$reference/bin/python" -m pip download --quiet --disable-pip-version-check --no-deps \
  --only-binary=:all: --python-version "$version" --implementation cp --abi "cp${version/./}" \
  --platform manylinux1_x86_64 --platform manylinux_2_28_x86_64 --dest "$download" \
  "torch==${torch%+*}"
"$reference/bin/python" - "$download" "$reference" "$folder" <<'EXTRACT'
import pathlib
import sys
import sysconfig
import zipfile

download, reference, folder = map(pathlib.Path, sys.argv[1:])
packages = pathlib.Path(sysconfig.get_path("platlib"))
target, = folder.glob("lib/python3.*/site-packages")


def hashes(record):
    return dict(line.split(",", 1) for line in record.splitlines())


with zipfile.ZipFile(next(download.glob("*.whl"))) as wheel:
    record, = [name for name in wheel.namelist() if name.endswith(".dist-info/RECORD")]
    there = hashes((packages / record).read_text())
    for name, content in hashes(wheel.read(record).decode()).items():
        path = target / name
        if content == there.get(name) and content != ",":
            path.parent.mkdir(parents=True, exist_ok=True)
            path.symlink_to(packages / name)
        else:
            wheel.extract(name, target)
# The packages that torch needs and that are the same for every Python. (numpy is not; it may be
# missing.)
for name in ("nvidia", "cusparselt", "sympy", "mpmath", "networkx", "jinja2", "fsspec", "filelock",
             "typing_extensions.py", "triton"):
    (target / name).symlink_to(packages / name)
EXTRACT
printf '%s\n' "$wanted" >"$stamp"
