#!/usr/bin/env bash
# pack-indexes.sh FOLDER INDEX...: replaces the packed indexes in FOLDER by these. All are in one xz
# stream, indexes.xz, because they are much alike: the later ones take half of what they take alone.
# The first one is the fastest to unpack. INDEX.part says where an index is: `indexes.xz OFFSET SIZE`.
set -euo pipefail
folder=$1
shift
work=$(mktemp -d "$folder/.pack-XXXXXX")
trap 'rm -rf "$work"' EXIT
cat "$@" | xz -9e >"$work/indexes.xz"
offset=0
for index in "$@"; do
  size=$(stat -c %s "$index")
  printf 'indexes.xz %s %s\n' "$offset" "$size" >"$work/$(basename "$index").part"
  offset=$((offset + size))
done
rm -f "$folder"/*.index.part
mv "$work"/* "$folder"
