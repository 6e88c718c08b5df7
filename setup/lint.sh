#!/usr/bin/env bash
# Formatting (clang-format) and defects (clang-tidy) of every C++ file that git tracks.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build}
git ls-files '*.cpp' '*.h' | xargs clang-format-19 --dry-run --Werror
git ls-files '*.cpp' | grep -v '^fixtures/' |
  xargs --max-procs="$(nproc)" --max-args=4 clang-tidy-19 -p "$build" --quiet 2>/dev/null
echo 'No formatting or clang-tidy finding.'
