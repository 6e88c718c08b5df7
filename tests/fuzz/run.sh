#!/usr/bin/env bash
# run.sh BUILD SECONDS [READER...]: fuzzes each reader (default: all) for so long, beginning with its
# corpus. Goes on after one that found something, and fails in the end.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$1 seconds=$2
shift 2
if [ $# -eq 0 ]; then
  set -- "$here"/corpus/*
  set -- "${@##*/}"
fi
# Readers load the sanitizers' own symboliser only when something was found.
export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=0 UBSAN_OPTIONS=print_stacktrace=1
failed=()
for reader in "$@"; do
  mkdir -p "$build/corpus/$reader" "$build/found/$reader"
  log=$build/found/$reader.log
  # 4 GB of memory and 10 s are far more than an input of this size may take.
  "$build/fuzz_$reader" -max_total_time="$seconds" -rss_limit_mb=4096 -timeout=10 -max_len=65536 \
    -print_final_stats=1 -artifact_prefix="$build/found/$reader/" \
    "$build/corpus/$reader" "$here/corpus/$reader" >"$log" 2>&1 || failed+=("$reader")
  printf '%-14s %s\n' "$reader" "$(grep -E '^#[0-9]+\s+(DONE|REDUCE|NEW|pulse|INITED)' "$log" | tail -1 | tr -s '\t ' ' ')"
done
[ ${#failed[@]} -eq 0 ] || { echo "found something: ${failed[*]} (in $build/found)"; exit 1; }
