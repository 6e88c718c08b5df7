#!/usr/bin/env bash
# lint.sh [BUILD]: checks the formatting (clang-format) and searches for defects (clang-tidy) in
# every C++ file that git tracks, with the compile commands in BUILD (default: build). Prints only
# findings.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build}
git ls-files '*.cpp' '*.h' '*.hpp' | xargs clang-format-19 --dry-run --Werror
# op_records is built against a wheel's headers on the user's machine, so it has no compile
# commands.
git ls-files '*.cpp' ':!tracer/in_process/op_records' |
  xargs --max-procs="$(nproc)" --max-args=1 clang-tidy-19 -p "$build" --quiet --warnings-as-errors='*' \
    --extra-arg=-Wno-ignored-gch 2>/dev/null  # Precompiled headers are g++'s.
clang-tidy-19 tracer/in_process/op_records/op_records.cpp --quiet --warnings-as-errors='*' -- \
  -std=c++20 -DNDEBUG -I. -isystem .venv/lib/python*/site-packages/torch/include 2>/dev/null
echo 'No formatting or clang-tidy finding.'
