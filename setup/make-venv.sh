#!/usr/bin/env bash
# make-venv.sh FOLDER REQUIREMENTS...: makes the virtual environment FOLDER with the packages in the
# requirements files. Does nothing if FOLDER already has exactly these. PYTHON is the interpreter to
# make it from (default: python3). BASE is another virtual environment whose packages are visible in
# the new one without a copy; it then uses the same interpreter.
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
elif grep -q '^torch' "$@"; then
  printf '; torch and the CUDA libraries that it comes with are about 5 GB.\n'
else
  printf '.\n'
fi
rm -f "$stamp"
[ -x "$folder/bin/python" ] || "$python" -m venv "$folder"
if [ -n "$base" ]; then
  site_packages() { "$1/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; }
  # Also processes the .pth files in that folder.
  printf 'import site; site.addsitedir(r"%s")\n' "$(site_packages "$base")" \
    >"$(site_packages "$folder")/base.pth"
fi
requirements=()
for file in "$@"; do requirements+=(--requirement "$file"); done
"$folder/bin/python" -m pip install --quiet --disable-pip-version-check "${requirements[@]}"
printf '%s\n' "$wanted" >"$stamp"
