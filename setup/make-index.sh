#!/usr/bin/env bash
# make-index.sh [BUILD]: rebuilds the indexes in fixtures/index, which come with optrace, with the
# command in BUILD (default: build): that of PyTorch 2.6.0 from the source that
# setup/fetch-source.sh gets, and that of the newest PyTorch, in .venv-newest, from its wheel. Takes
# half an hour on two cores. A file is replaced atomically; a plain `xz -d` unpacks it.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build}
source=$(setup/fetch-source.sh)
folder=fixtures/index
mkdir -p "$folder"
work=$(mktemp -d "$folder/.make-XXXXXX")
trap 'rm -rf "$work"' EXIT

# make VERSION ARGUMENT...: makes the index of a version with `optrace source add ARGUMENT...`.
make() {
  local index=$folder/torch-$1.index.xz
  shift
  rm -f "$work"/*
  "$build/optrace" source add "$@" -o "$work/index" | tee "$work/said"
  if grep -q '^not indexed: ' "$work/said"; then
    printf 'Some units were not indexed (see above); %s stays as it was.\n' "$index" >&2
    exit 1
  fi
  xz -9e "$work/index"
  chmod 644 "$work/index.xz"
  mv "$work/index.xz" "$index"
  printf '%s: %s bytes\n' "$index" "$(stat -c %s "$index")"
}

make 2.6.0 "$source" --python .venv/bin/python
# The first one must be in the build: the second one is made from it.
cmake --build "$build" --target shipped_index
newest=$(.venv-newest/bin/python -c 'import importlib.metadata; print(importlib.metadata.version("torch"))')
make "${newest%%+*}" --wheel --python .venv-newest/bin/python
