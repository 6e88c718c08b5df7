#!/usr/bin/env bash
# make-python-venvs.sh: makes .venv-3.X with the reference torch for each other Python that the
# torch has a wheel for and that is on this machine (in PATH, or pyenv's).
set -euo pipefail
cd "$(dirname "$0")/.."
for version in 3.9 3.10 3.12 3.13; do
  python=$(command -v "python$version" || true)
  for candidate in "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version".*/bin/python; do
    if [ -x "$candidate" ]; then python=$candidate; fi
  done
  if [ -z "$python" ] || ! "$python" -c '' 2>/dev/null; then
    printf 'No Python %s here; what is tested with it is left out.\n' "$version"
    continue
  fi
  PYTHON=$python setup/make-venv.sh ".venv-$version" setup/requirements-reference.txt
done
