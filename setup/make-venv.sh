#!/usr/bin/env bash
# make-venv.sh FOLDER REQUIREMENTS...: makes the virtual environment FOLDER with what the
# requirements files name. Does nothing when FOLDER already has just that. PYTHON chooses the
# interpreter that it is made from (default: python3). BASE names another virtual environment whose
# packages the new one has too, without a copy of them; it is made from the same interpreter.
set -euo pipefail
folder=$1
shift
stamp="$folder/.made-from"
base=${BASE:-}
wanted=$(cat "$@" ${base:+"$base/.made-from"})
if [ -x "$folder/bin/python" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ]; then exit 0; fi

python=${base:+$base/bin/python}
python=${python:-${PYTHON:-python3}}
if ! "$python" -c 'import sys; sys.exit(not (3, 9) <= sys.version_info[:2] <= (3, 13))'; then
  printf 'optrace needs CPython 3.9 to 3.13 for the reference torch; %s is %s.\n' "$python" \
    "$("$python" --version 2>&1)" >&2
  printf 'Name another: make PYTHON=/path/to/python3.11 ...\n' >&2
  exit 1
fi
printf 'Making %s (%s)' "$folder" "$("$python" --version)"
if [ -n "$base" ]; then
  printf ' on top of %s.\n' "$base"
else
  printf '; torch and the CUDA libraries that it comes with are about 5 GB.\n'
fi
rm -f "$stamp"
[ -x "$folder/bin/python" ] || "$python" -m venv "$folder"
if [ -n "$base" ]; then
  site_packages() { "$1/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; }
  # With the .pth files in there.
  printf 'import site; site.addsitedir(r"%s")\n' "$(site_packages "$base")" \
    >"$(site_packages "$folder")/base.pth"
fi
requirements=()
for file in "$@"; do requirements+=(--requirement "$file"); done
"$folder/bin/python" -m pip install --quiet --disable-pip-version-check "${requirements[@]}"
printf '%s\n' "$wanted" >"$stamp"
