#!/usr/bin/env bash
# make-venv.sh FOLDER REQUIREMENTS...: makes the virtual environment FOLDER with what the
# requirements files name. Does nothing when FOLDER already has just that. PYTHON chooses the
# interpreter that it is made from (default: python3).
set -euo pipefail
folder=$1
shift
stamp="$folder/.made-from"
wanted=$(cat "$@")
if [ -x "$folder/bin/python" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ]; then exit 0; fi

python=${PYTHON:-python3}
if ! "$python" -c 'import sys; sys.exit(not (3, 9) <= sys.version_info[:2] <= (3, 13))'; then
  printf 'optrace needs CPython 3.9 to 3.13 for the reference torch; %s is %s.\n' "$python" \
    "$("$python" --version 2>&1)" >&2
  printf 'Name another: make PYTHON=/path/to/python3.11 ...\n' >&2
  exit 1
fi
printf 'Making %s (%s); torch and the CUDA libraries that it comes with are about 5 GB.\n' \
  "$folder" "$("$python" --version)"
rm -f "$stamp"
[ -x "$folder/bin/python" ] || "$python" -m venv "$folder"
requirements=()
for file in "$@"; do requirements+=(--requirement "$file"); done
"$folder/bin/python" -m pip install --quiet --disable-pip-version-check "${requirements[@]}"
printf '%s\n' "$wanted" >"$stamp"
