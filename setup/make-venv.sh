#!/usr/bin/env bash
# make-venv.sh FOLDER [REQUIREMENTS...]: makes the virtual environment FOLDER with the packages in
# the requirements files, or an empty one. Does nothing if FOLDER already has these. PYTHON is the
# interpreter to make it from (default: python3). uv keeps the packages in .setup/uv-cache, and
# environments have hard links to them, so a package takes space once.
#
# A traced program may write no bytecode, so it is compiled here: that of all packages, or with
# COMPILE=MODULE only what `import MODULE` needs, which takes a tenth of the time.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$1
shift
stamp="$folder/.made-from"
wanted=$([ $# -eq 0 ] || { cat "$@" && printf '# Compiled: %s\n' "${COMPILE:-all}"; })

# Succeeds if the environment has all that is wanted. That of `make test` has all of `make run`'s.
has_all() {
  [ -x "$folder/bin/python" ] || return 1
  [ -n "$wanted" ] || return 0
  [ -f "$stamp" ] && ! grep -v '^#' <<<"$wanted" | grep -qvxFf "$stamp" &&
    grep -qxF -e '# Compiled: all' -e "# Compiled: ${COMPILE:-all}" "$stamp"
}
if has_all; then
  exit 0
fi

if [ ! -x "$folder/bin/python" ]; then
  python=${PYTHON:-python3}
  if ! "$python" -c 'import sys; sys.exit(not (3, 9) <= sys.version_info[:2] <= (3, 13))'; then
    printf 'optrace needs CPython 3.9 to 3.13 for the reference torch; %s is %s.\n' "$python" \
      "$("$python" --version 2>&1)" >&2
    printf 'Name another: make PYTHON=/path/to/python3.11 ...\n' >&2
    exit 1
  fi
  "$python" -m venv "$folder"
fi
[ $# -gt 0 ] || exit 0

mkdir -p .setup
uv=.setup/uv/bin/uv
(
  flock 9  # Several environments can be made at the same time.
  if [ ! -x "$uv" ]; then
    "$folder/bin/python" -m venv .setup/uv
    .setup/uv/bin/python -m pip install --quiet --disable-pip-version-check \
      --requirement setup/requirements-uv.txt
  fi
) 9>.setup/uv.lock

printf 'Making %s (%s).\n' "$folder" "$("$folder/bin/python" --version)"
rm -f "$stamp"
requirements=()
for file in "$@"; do requirements+=(--requirement "$file"); done
compile=(--compile-bytecode)
[ -z "${COMPILE:-}" ] || compile=()
# Without a terminal, uv prints lines that don't mix with those of the compiler.
UV_CACHE_DIR=.setup/uv-cache "$uv" pip install --python "$folder/bin/python" "${compile[@]}" \
  "${requirements[@]}" 2>&1 | sed --unbuffered --regexp-extended '/^ [+~-]/d; s/^ ?/  /' >&2
[ -z "${COMPILE:-}" ] || "$folder/bin/python" -c "import $COMPILE"
printf '%s\n' "$wanted" >"$stamp"
