"""make-prebuilt.py BUILD [RELEASE...]: makes the libraries for released torches that come with
optrace, in BUILD/lib/optrace/prebuilt, and writes what they depend on to setup/prebuilt.json. The
releases are those in that file, or the given ones, such as 2.16.0, which are added to it. Those
that BUILD has from the present source are left as they are.

The libraries for CUDA are made from the environments of make run and make test, and from two more
with other torches: a set for each major version of CUDA, which serves all torches of that version
that import no more of it than these.

A release's headers, version.py and libc10.so are read out of its wheel on the package index, by
requests for parts of the file: 10 MB of a gigabyte.

make-prebuilt.py --check BUILD: compares the libraries that BUILD has with the file.
"""
import argparse
import hashlib
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import urllib.request
import zipfile

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
RELEASES = REPOSITORY / "setup/prebuilt.json"
UV = REPOSITORY / ".setup/uv/bin/uv"
WANTED = re.compile(r"torch/(include/.*|version\.py|lib/libc10\.so)")
# The last release that needs CUDA 12, and the last one that needs cuRAND of CUDA 13.
CUDA_TORCHES = ["2.10.0", "2.14.1"]
SLACK = 1 << 16  # More than a file's header in the archive, without its name, takes.


class RemoteFile(io.RawIOBase):
    """A file on a server, read in the parts that are asked for, or from the part fetched last."""

    def __init__(self, url, size):
        self.url, self.size, self.at = url, size, 0
        self.start, self.part = 0, b""

    def fetch(self, start, end):
        request = urllib.request.Request(self.url, headers={"Range": f"bytes={start}-{end - 1}"})
        with urllib.request.urlopen(request, timeout=180) as answer:
            if answer.status != 206:
                sys.exit(f"make-prebuilt.py: the server of {self.url} sends no parts of files")
            self.start, self.part = start, answer.read()

    def readable(self):
        return True

    def seekable(self):
        return True

    def tell(self):
        return self.at

    def seek(self, offset, whence=io.SEEK_SET):
        self.at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self.at, io.SEEK_END: self.size}[whence]
        return self.at

    def readinto(self, buffer):
        end = min(self.at + len(buffer), self.size)
        if not (self.start <= self.at and end <= self.start + len(self.part)):
            self.fetch(self.at, max(end, min(self.at + SLACK, self.size)))
        data = self.part[self.at - self.start:end - self.start]
        buffer[:len(data)] = data
        self.at += len(data)
        return len(data)


def wheel_of(release):
    """(URL, bytes, SHA-256) of a release's wheel for the Python that runs this."""
    import tomllib  # Python 3.11.

    words = [str(UV), "pip", "compile", "--quiet", "--no-deps", "--format", "pylock.toml",
             "--python", sys.executable, "-"]
    locked = subprocess.run(words, input=f"torch=={release}\n", stdout=subprocess.PIPE, text=True,
                            check=True)
    [package] = tomllib.loads(locked.stdout)["packages"]
    # A lock has the wheels that fit this machine, the best one first.
    wheel = package["wheels"][0]
    return wheel["url"], wheel["size"], wheel["hashes"]["sha256"]


def unpack_torch(release, folder):
    """Puts what a prebuilt library depends on into folder/torch; returns a record of the wheel."""
    url, size, digest = wheel_of(release)
    file = RemoteFile(url, size)
    with zipfile.ZipFile(io.BufferedReader(file)) as wheel:
        wanted = [entry for entry in wheel.infolist() if WANTED.fullmatch(entry.filename)]
        headers = [entry for entry in wanted if "/include/" in entry.filename]
        last = max(headers, key=lambda entry: entry.header_offset)
        # One request has all headers, which lie side by side.
        file.fetch(min(entry.header_offset for entry in headers),
                   min(last.header_offset + last.compress_size + SLACK, size))
        for entry in headers + [entry for entry in wanted if entry not in headers]:
            wheel.extract(entry, folder)
    return {"wheel": url.rpartition("/")[2], "wheel_sha256": digest}


def symbols_hash(library):
    """A hash over the names and versions of what a library exports and imports."""
    words = ["nm", "--dynamic", "--with-symbol-versions", "--format=posix", library]
    listed = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
    symbols = sorted(" ".join(line.split()[:2]) for line in listed.stdout.splitlines())
    return hashlib.sha256("\n".join(symbols).encode()).hexdigest()


def facts_of(agent):
    """What the file has of an agent, a folder."""
    described = json.loads((agent / "prebuilt.json").read_text())
    return {"op_agent": agent.name.removeprefix("torch-"),
            "headers_hash": described["headers_hash"],
            "symbols_sha256": symbols_hash(agent / described["libraries"][0])}


def make(build, releases):
    known = json.loads(RELEASES.read_text()) if RELEASES.exists() else {}
    folder = build / "lib/optrace/prebuilt"
    current = set(subprocess.run([build / "optrace-prebuild", "--current", folder], check=True,
                                 stdout=subprocess.PIPE, text=True).stdout.split())
    for release in releases or known:
        agent = f"torch-{known.get(release, {}).get('op_agent')}"
        if agent in current:
            known[release] |= facts_of(folder / "op-agents" / agent)
            continue
        with tempfile.TemporaryDirectory() as scratch:
            record = unpack_torch(release, scratch)
            made = subprocess.run([build / "optrace-prebuild", folder, f"{scratch}/torch"],
                                  stdout=subprocess.PIPE, text=True)
        if made.returncode != 0:
            sys.exit(f"make-prebuilt.py: torch {release} has no libraries: see above")
        agent = json.loads(made.stdout)["op_agent"]
        known[release] = record | facts_of(folder / "op-agents" / agent)
        print(f"torch {release}: {agent}", flush=True)
    ordered = sorted(known, key=lambda release: [int(part) for part in release.split(".")])
    listed = {release: known[release] for release in ordered}
    RELEASES.write_text(json.dumps(listed, indent=1) + "\n")


def make_for_cuda(build):
    """Makes the sets for all major versions of CUDA."""
    folders = [".venv", ".venv-newest"]
    for release in CUDA_TORCHES:
        folders.append(f".venv-torch-{release}")
        requirements = REPOSITORY / f".setup/torch-{release}.txt"
        requirements.write_text(f"torch=={release}\n")
        subprocess.run(["setup/make-venv.sh", folders[-1], requirements], cwd=REPOSITORY,
                       check=True, env={**os.environ, "COMPILE": "torch"})
    torches = [next((REPOSITORY / folder).glob("lib/python3*/site-packages/torch"))
               for folder in folders]
    subprocess.run([build / "optrace-prebuild", build / "lib/optrace/prebuilt", *torches],
                   check=True, stdout=subprocess.DEVNULL)


def check(build):
    known = json.loads(RELEASES.read_text())
    wrong, right = [], 0
    for agent in sorted((build / "lib/optrace/prebuilt/op-agents").iterdir()):
        facts = facts_of(agent)
        release = facts["op_agent"]
        if release not in known:  # A release may be newer than the list.
            print(f"torch {release} is not listed: make-prebuilt.py BUILD {release} adds it")
            continue
        differ = [name for name in facts if known[release][name] != facts[name]]
        wrong += [f"torch {release}: {name} is {facts[name]}, listed is {known[release][name]}"
                  for name in differ]
        right += not differ
    if wrong or not right:
        sys.exit("\n".join(["make-prebuilt.py: setup/prebuilt.json is not of these libraries. "
                            "After a change of their source, run make prebuilt.", *wrong]))
    print(f"{right} as listed")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("releases", nargs="*")
    options = parser.parse_args()
    if options.check:
        check(options.build)
    else:
        make(options.build, options.releases)
        make_for_cuda(options.build)


main()
