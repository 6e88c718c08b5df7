#!/usr/bin/env bash
# fetch-source.sh [FOLDER]: unpacks the PyTorch 2.6.0 source that the reference wheel was built from
# to FOLDER (default: .source/pytorch-2.6.0). It is taken from Debian trixie's source package (its
# .orig tarball is upstream's, with an empty third_party). apt checks the signature; the machine's
# own apt lists and sources are not changed. Does nothing if FOLDER exists. Prints FOLDER.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-.source/pytorch-2.6.0}
package=pytorch
version=2.6.0+dfsg
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
if [ -f "$folder/version.txt" ]; then
  printf '%s\n' "$folder"
  exit 0
fi

mkdir -p "$(dirname "$folder")"
work=$(mktemp -d "$(cd "$(dirname "$folder")" && pwd)/.fetch-XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
# The mirror that this machine uses for its own packages, only with trixie's sources.
# shellcheck disable=SC2016  # apt-get replaces $(REPO_URI).
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
  grep -E '/debian/?$' | head -n 1 || true)
if [ -z "$mirror" ]; then
  printf 'No Debian mirror among the sources of apt: run apt-get update, or give a checkout of v2.6.0.\n' >&2
  exit 1
fi
printf 'Types: deb-src\nURIs: %s\nSuites: trixie\nComponents: main\nSigned-By: %s\n' \
  "$mirror" "$keyring" >"$work/trixie.sources"
apt=(apt-get -o "Dir::Etc::sourcelist=$work/trixie.sources" -o Dir::Etc::sourceparts=/dev/null
  -o "Dir::State::lists=$work/lists" -o "Dir::Cache=$work/cache" -o APT::Sandbox::User=root)
printf 'Fetching the source of PyTorch 2.6.0 (27 MB)\n' >&2
"${apt[@]}" update -qq >&2
source_version=$("${apt[@]}" source --print-uris "$package" 2>/dev/null |
  sed -n "s/.*${package}_\(2\.6\.0+dfsg-[0-9a-z.+~]*\)\.dsc.*/\1/p" | head -n 1)
if [ -z "$source_version" ]; then
  printf 'Debian trixie no longer offers %s %s as source; give a checkout of v2.6.0 instead.\n' \
    "$package" "$version" >&2
  exit 1
fi
(cd "$work" && "${apt[@]}" source --download-only -qq "$package=$source_version" >&2)
mkdir "$work/tree"
tar -xJf "$work/${package}_$version.orig.tar.xz" -C "$work/tree"
top=("$work"/tree/*)
[ ${#top[@]} -eq 1 ] || top=("$work/tree")
mv "${top[0]}" "$folder"
printf '%s\n' "$folder"
