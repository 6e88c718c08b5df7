#!/usr/bin/env bash
# minutes.sh [COMMIT...]: how long the commands of a developer take in a fresh clone, as a table:
# wall minutes and processor minutes, which the other work on a machine changes less. Each COMMIT
# (default: HEAD) is cloned to a folder below $TMPDIR and removed at the end; nothing else should run
# meanwhile. The downloads are part of it; Debian packages that are installed already are not.
#
# $STEPS names the steps: "run test check unit" (the default).
set -euo pipefail
repository=$(cd "$(dirname "$0")/.." && pwd)
steps=${STEPS:-run test check unit}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
TIMEFORMAT='%R %U %S'

# measure WHAT COMMAND...: runs the command and prints a row of the table.
measure() {
  local what=$1 taken status=0
  shift
  taken=$({ time "$@" >"$folder/log" 2>&1 || echo failed; } 2>&1) || true
  grep -q failed <<<"$taken" && status=1
  awk -v what="$what" -v failed=$status '/^[0-9.]+ [0-9.]+ [0-9.]+$/ {
    printf "| %s | %.1f | %.1f |%s\n", what, $1 / 60, ($2 + $3) / 60, failed ? " failed" : "" }' \
    <<<"$taken"
  [ $status -eq 0 ] || tail -n 20 "$folder/log" >&2
}

# Changes one source of report/ in a way that the compiler sees.
change() {
  printf '\nnamespace optrace { int changed_%s() { return 1; } }\n' "$RANDOM$RANDOM" \
    >>report/summary/user_lines.cpp
}

for commit in "${@:-HEAD}"; do
  git clone --quiet "$repository" "$folder/clone"
  cd "$folder/clone"
  git checkout --quiet "$(git -C "$repository" rev-parse "$commit")"
  printf '\n%s, %s processors\n\n| what | minutes | processor minutes |\n| --- | --- | --- |\n' \
    "$(git log -1 --format='%h %s')" "$(nproc)"
  for step in $steps; do
    case $step in
      run) measure 'make run' make run ;;
      test) measure 'make test' make test ;;
      check)
        change
        measure 'make check, one source changed' make check
        ;;
      unit)
        # Before there was a program for each subject, there was one.
        tests=report_tests
        [ -f build/$tests ] || tests=unit_tests
        change
        measure 'one source of report/ changed, to the answer of its unit tests' \
          bash -c "ninja -C build $tests && OPTRACE_TEST_PYTHON=.venv/bin/python build/$tests"
        ;;
      *)
        echo "$step is not a step; the steps are: run test check unit" >&2
        exit 2
        ;;
    esac
  done
  cd "$repository"
  rm -rf "$folder/clone"
done
