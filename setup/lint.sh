#!/usr/bin/env bash
# lint.sh [BUILD] [ARGUMENT...]: checks every file that git tracks: formatting (clang-format) and
# defects (clang-tidy) of C++, defects and types of Python (ruff, mypy), and scripts (shellcheck).
# BUILD (default: build) has the compile commands; the ARGUMENTs are clang-tidy.py's. Prints only
# findings. Exceptions are in .clang-tidy and pyproject.toml, or in the line that they are for.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build}
shift || true
failed=()
check() { "${@:2}" || failed+=("$1"); }
tracked() { git ls-files -z "$@"; }
# The paths beside those in pyproject.toml: two folders have modules of the same names.
mypy() { MYPYPATH=$1 .venv-lint/bin/python -m mypy --cache-dir "$build/mypy" "${@:2}" >"$build/mypy.txt" || { cat "$build/mypy.txt"; return 1; }; }

mapfile -d '' -t cpp < <(tracked '*.cpp' '*.h' '*.hpp')
mapfile -d '' -t cuda_workloads < <(tracked 'tests/cuda_workloads/*.py' tests/end_to_end/test_cuda_fixtures.py)
mapfile -d '' -t python < <(tracked '*.py' ':!tests/cuda_workloads' ':!tests/end_to_end/test_cuda_fixtures.py')
mapfile -d '' -t stubs < <(tracked '*.pyi')
mapfile -d '' -t scripts < <(git grep -lzE '^#!.*\b(ba)?sh$')
check clang-format clang-format-19 --dry-run --Werror "${cpp[@]}"
check shellcheck shellcheck "${scripts[@]}"
check ruff .venv-lint/bin/ruff check --quiet .
check mypy mypy tests/truth "${python[@]}"
check mypy mypy tests/cuda_workloads "${cuda_workloads[@]}"
check mypy mypy '' "${stubs[@]}"
check clang-tidy .venv/bin/python setup/clang-tidy.py --build "$build" "$@"
if [ ${#failed[@]} -gt 0 ]; then
  printf 'Findings of %s.\n' "${failed[*]}" >&2
  exit 1
fi
echo 'No findings of clang-format, clang-tidy, ruff, mypy or shellcheck.'
