#!/usr/bin/env bash
# lint.sh [BUILD]: formatting (clang-format) and defects (clang-tidy) of every C++ file that git
# tracks, with the compile commands in BUILD (default: build). Says nothing but findings.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build}
git ls-files '*.cpp' '*.h' '*.hpp' | xargs clang-format-19 --dry-run --Werror
git ls-files '*.cpp' |
  xargs --max-procs="$(nproc)" --max-args=1 clang-tidy-19 -p "$build" --quiet --warnings-as-errors='*' 2>/dev/null
echo 'No formatting or clang-tidy finding.'
