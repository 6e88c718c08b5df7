#!/usr/bin/env bash
# lint.sh [BUILD [--changed]]: checks every file that git tracks: the format of C++ (clang-format),
# defects in C++ (clang-tidy), the types of JavaScript (tsc), Python (ruff, mypy) and scripts
# (shellcheck). BUILD (default: build) contains the compile commands. With --changed, clang-tidy
# checks what changed since it last checked everything. Prints findings, and how many sources
# clang-tidy has checked. Exceptions are in .clang-tidy and pyproject.toml, or in the line that they
# are for.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build}
failed=()

# check TOOL COMMAND...: runs the command for all files, and notes the tool if it fails.
check() {
  "${@:2}" || failed+=("$1")
}

# check_types FOLDER FILE...: runs mypy. Modules in FOLDER (several: A:B) are
# imported by their bare names.
check_types() {
  MYPYPATH=$1 check mypy .venv-lint/bin/python -m mypy --no-error-summary \
    --cache-dir "$build/mypy" "${@:2}"
}

mapfile -t cpp < <(git ls-files '*.cpp' '*.h' '*.hpp')
check clang-format clang-format-19 --dry-run --Werror "${cpp[@]}"
mapfile -t scripts < <(git grep -lE '^#!.*\b(ba)?sh$')
check shellcheck shellcheck "${scripts[@]}"

check tsc tsc --project report/formats/html/script/tsconfig.json
check ruff .venv-lint/bin/ruff check --quiet .
# tests/truth and tests/cuda_workloads both have a module `workloads`. A module and its stub are
# checked in separate runs, because mypy takes one file for a module.
cuda=(tests/cuda_workloads tests/end_to_end/cuda/test_cuda_fixtures.py)
mapfile -t python < <(git ls-files '*.py' "${cuda[@]/#/:!}")
check_types tests/agent:tests/truth:tests/end_to_end/programs:tests/end_to_end/cuda "${python[@]}"
mapfile -t python < <(git ls-files "${cuda[@]}" | grep '\.py$')
check_types tests/cuda_workloads "${python[@]}"
mapfile -t stubs < <(git ls-files '*.pyi')
check_types '' "${stubs[@]}"

check clang-tidy .venv-lint/bin/python setup/clang-tidy.py --build "$build" "${@:2}"

if [ ${#failed[@]} -gt 0 ]; then
  printf 'Findings of: %s\n' "${failed[*]}" >&2
  exit 1
fi
