#!/usr/bin/env bash
# install-packages.sh [LIST]: installs the Debian packages of LIST (default: packages.txt) that are
# missing. Without permission to install, prints the exact command and fails.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
list=${1:-$here/packages.txt}

missing=()
while read -r package; do
  [ "$(dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null || true)" = "ii " ] ||
    missing+=("$package")
done < <(grep -v '^#' "$list")
[ ${#missing[@]} -gt 0 ] || exit 0

install=(apt-get install --yes --no-install-recommends "${missing[@]}")
if [ "$(id -u)" -eq 0 ]; then
  as_root=()
elif command -v sudo >/dev/null && sudo --non-interactive true 2>/dev/null; then
  as_root=(sudo)
else
  printf 'optrace needs %d Debian packages that are not installed. Run this, then make again:\n\n  %s\n\n' \
    ${#missing[@]} "sudo apt-get update && sudo ${install[*]}" >&2
  exit 1
fi
printf 'Installing %d Debian packages: %s\n' ${#missing[@]} "${missing[*]}"
"${as_root[@]}" apt-get update -qq
DEBIAN_FRONTEND=noninteractive "${as_root[@]}" "${install[@]}" >/dev/null
