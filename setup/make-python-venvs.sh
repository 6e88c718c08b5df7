#!/usr/bin/env bash
# make-python-venvs.sh: makes .venv-3.X with the reference torch for each other Python that the
# torch has a wheel for and that is on this machine (in PATH, or pyenv's).
set -euo pipefail
cd "$(dirname "$0")/.."
for version in 3.9 3.10 3.12 3.13; do
  if ! python=$(setup/find-python.sh "$version"); then
    printf 'No Python %s here; what is tested with it is left out.\n' "$version"
    continue
  fi
  PYTHON=$python setup/make-venv.sh ".venv-$version" setup/requirements-reference.txt
done
