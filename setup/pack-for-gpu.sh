#!/usr/bin/env bash
# pack-for-gpu.sh OUT.tar.xz: packs everything that is needed to record the CUDA workloads on a
# machine with only a GPU and a torch: no network, no compiler, no packages. Unpacked, optrace-gpu/
# has the layout of the repository: build/optrace, with its own files and the libraries that a bare
# Debian or Ubuntu lacks, and tests/cuda_workloads. To run there:
#     python3 optrace-gpu/tests/cuda_workloads/record.py --output FOLDER
# Fails if optrace is not built, or if the pack is larger than 64 MiB.
set -euo pipefail
out=$(realpath -m "${1:?usage: pack-for-gpu.sh OUT.tar.xz}")
build=${OPTRACE_BUILD:-$(dirname "$0")/../build}
build=$(realpath "$build")
cd "$(dirname "$0")/.."
[[ -x $build/optrace ]] || { echo "pack-for-gpu.sh: $build/optrace is missing; build it with make" >&2; exit 1; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
pack=$folder/optrace-gpu
mkdir -p "$pack/build/lib/optrace" "$pack/build/lib/needed" "$pack/build/share" "$pack/tests" "$pack/fixtures/cuda"

# The other linked libraries are part of every glibc system that can import torch.
ldd "$build/optrace" | awk '$3 ~ /^\// { print $1, $3 }' | while read -r name file; do
  case $name in
    libc.so.* | libm.so.* | libstdc++.so.* | libgcc_s.so.* | liboptrace.so) ;;
    *) cp -L "$file" "$pack/build/lib/needed/$name" ;;
  esac
done
for file in optrace lib/optrace/liboptrace.so; do
  strip -o "$pack/build/$file" "$build/$file"
done
# The workers that parse C++ are left out: they need libclang, and that machine indexes nothing and
# builds no dry run.
cp "$build/lib/optrace/liboptrace_agent.so" "$pack/build/lib/optrace/"
cp -rL "$build/share/optrace" "$pack/build/share/optrace"
rm -rf "$pack"/build/share/optrace/{catalogue,clang,stub_headers}
cp -r tests/cuda_workloads "$pack/tests/"
find "$pack" -name __pycache__ -prune -exec rm -rf {} +
tar -C "$folder" --owner=0 --group=0 -cf - optrace-gpu | xz -T0 -6 > "$folder/out"
size=$(stat -c %s "$folder/out")
if ((size > 64 * 1024 * 1024)); then
  echo "pack-for-gpu.sh: the pack has $size bytes, and 64 MiB is the most that travels" >&2
  exit 1
fi
mv "$folder/out" "$out"
echo "$out: $size bytes"
