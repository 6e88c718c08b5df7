#!/usr/bin/env bash
# find-python.sh VERSION: prints the path of CPython VERSION (3.12) on this machine, pyenv's or the
# one in PATH. Prints nothing and fails if there is none that runs.
set -euo pipefail
version=$1
python=$(command -v "python$version" || true)
for candidate in "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version".*/bin/python; do
  if [ -x "$candidate" ]; then python=$candidate; fi
done
[ -n "$python" ] && "$python" -c '' 2>/dev/null
printf '%s\n' "$python"
