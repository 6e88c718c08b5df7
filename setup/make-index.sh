#!/usr/bin/env bash
# make-index.sh [BUILD]: rebuilds the indexes in fixtures/index, which come with optrace, with the
# command in BUILD (default: build): that of PyTorch 2.6.0 from the source that
# setup/fetch-source.sh gets, and that of the newest PyTorch, in .venv-newest, from its wheel. Takes
# half an hour on two cores.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build}
source=$(setup/fetch-source.sh)
folder=fixtures/index
work=$(mktemp -d "$folder/.make-XXXXXX")
trap 'rm -rf "$work"' EXIT

# make VERSION ARGUMENT...: makes the index of a version with `optrace source add ARGUMENT...`.
make() {
  local index=$work/torch-$1.index
  shift
  "$build/optrace" source add "$@" -o "$index" | tee "$work/said"
  if grep -q '^not indexed: ' "$work/said"; then
    printf 'Some units were not indexed (see above); %s stays as it was.\n' "$folder" >&2
    exit 1
  fi
}

make 2.6.0 "$source" --python .venv/bin/python
# The second one is made from the first one, which optrace finds there.
export OPTRACE_INDEX_DIR=$work
newest=$(.venv-newest/bin/python -c 'import importlib.metadata; print(importlib.metadata.version("torch"))')
make "${newest%%+*}" --wheel --python .venv-newest/bin/python
setup/pack-indexes.sh "$folder" "$work/torch-2.6.0.index" "$work/torch-${newest%%+*}.index"
printf '%s: %s bytes\n' "$folder/indexes.xz" "$(stat -c %s "$folder/indexes.xz")"
