#!/usr/bin/env bash
# make-index.sh [BUILD]: rebuilds fixtures/index/torch-2.6.0.index.zst, the index shipped with
# optrace, with the command in BUILD (default: build) from the source that setup/fetch-source.sh
# gets. Takes half an hour on two cores. The file is replaced atomically; a plain `zstd -d` unpacks
# it.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build}
source=$(setup/fetch-source.sh)
index=fixtures/index/torch-2.6.0.index.zst
mkdir -p "$(dirname "$index")"
work=$(mktemp -d "$(dirname "$index")/.make-XXXXXX")
trap 'rm -rf "$work"' EXIT
"$build/optrace" source add "$source" --python .venv/bin/python -o "$work/index" | tee "$work/said"
if grep -q '^not indexed: ' "$work/said"; then
  printf 'Some units were not indexed (see above); %s stays as it was.\n' "$index" >&2
  exit 1
fi
zstd -19 --quiet "$work/index" -o "$work/index.zst"
chmod 644 "$work/index.zst"
mv "$work/index.zst" "$index"
printf '%s: %s bytes\n' "$index" "$(stat -c %s "$index")"
