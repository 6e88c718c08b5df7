#!/usr/bin/env python3
"""Runs clang-tidy on the C++ sources in BUILD/compile_commands.json.

setup/clang-tidy-clean.txt lists the sources without findings, a line `KEY PATH` each. The key is a
hash of everything in the project that the result depends on, so a listed source needs no new run
until it, a header that it includes, its arguments or .clang-tidy change. Installed headers are not
in the key: they are those of Debian 12 and of the reference wheels.
"""
import argparse
import concurrent.futures
import functools
import hashlib
import json
import os
import pathlib
import random
import re
import shlex
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIST = ROOT / "setup/clang-tidy-clean.txt"
CLANG_TIDY = "clang-tidy-19"
# The static analyser gives up on a function after this many steps. With its default, 225000, it
# takes nine tenths of clang-tidy's time, most of it in a few long functions.
ANALYZER = ["-Xclang", "-analyzer-config", "-Xclang", "max-nodes=50000"]
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
UNITED = re.compile(r'^#include "(.+)"$', re.MULTILINE)
# A comment that fills its line has no effect on the result, unless it suppresses a finding.
COMMENT = re.compile(r"^\s*//(?!.*NOLINT).*\n", re.MULTILINE)


@functools.cache
def code_of(path):
    """Returns the text of a file without comments."""
    return COMMENT.sub("", path.read_text())


@functools.cache
def included_by(path, folders):
    """Returns the headers of the project that a file itself includes."""
    found = []
    for name in INCLUDE.findall(code_of(path)):
        places = (folder / name for folder in (path.parent, *folders))
        found += [place.resolve() for place in places if place.is_file()][:1]
    return found


@functools.cache
def configuration():
    version = subprocess.run([CLANG_TIDY, "--version"], stdout=subprocess.PIPE, text=True,
                             check=True).stdout
    return "\0".join([re.search(r"version \d+", version)[0], *ANALYZER,
                      (ROOT / ".clang-tidy").read_text()])


class Source:
    def __init__(self, entry):
        self.path = pathlib.Path(entry["file"])
        self.name = str(self.path.relative_to(ROOT))
        self._folder = entry["directory"]
        self._arguments = []
        words = iter(shlex.split(entry["command"])[1:])
        for word in words:
            if word in ("-o", "-c", "-include"):
                next(words)  # The precompiled headers of -include are g++'s.
            elif word not in ("-Winvalid-pch", "-Wno-subobject-linkage", "-mgeneral-regs-only"):
                # clang doesn't know the first two, nor reads the standard library's headers with
                # the last.
                self._arguments.append(word)

    def _files(self):
        """Returns the source and all headers of the project that it includes, sorted."""
        folders = tuple(pathlib.Path(word[2:]) for word in self._arguments
                        if word.startswith(f"-I{ROOT}"))
        files, waiting = {self.path}, [self.path]
        while waiting:
            new = set(included_by(waiting.pop(), folders)) - files
            files |= new
            waiting += new
        return sorted(files)

    @functools.cached_property
    def key(self):
        result = hashlib.sha256(configuration().encode())
        for word in self._arguments:
            if word.startswith(("-D", "-std=")):
                word = word.replace(self._folder, "BUILD").replace(str(ROOT), "ROOT")
                result.update(f"\0{word}".encode())
        for file in self._files():
            result.update(f"\0{file.relative_to(ROOT)}\0{code_of(file)}".encode())
        return result.hexdigest()[:20]

    def findings(self):
        """Runs clang-tidy and returns its findings; an empty text if there are none."""
        result = subprocess.run(
            [CLANG_TIDY, "--quiet", "--warnings-as-errors=*", self.path, "--", *self._arguments,
             *ANALYZER], cwd=self._folder, capture_output=True, text=True)
        if result.returncode == 0:
            return ""
        return result.stdout or result.stderr or f"{CLANG_TIDY} failed: {result.returncode}\n"


def compile_commands(build):
    """Returns the compile commands. That of sources which are compiled together
    (cmake/Unity.cmake) is given for each of them."""
    for entry in json.loads((build / "compile_commands.json").read_text()):
        path = pathlib.Path(entry["file"])
        if path.parent.name == "Unity":
            yield from ({**entry, "file": file} for file in UNITED.findall(path.read_text()))
        else:
            yield entry


def all_sources(build):
    """Returns the sources that git tracks. One that several targets compile is checked once."""
    tracked = subprocess.run(["git", "ls-files", "*.cpp"], cwd=ROOT, stdout=subprocess.PIPE,
                             text=True, check=True).stdout.split()
    sources = {}
    for entry in compile_commands(build):
        source = Source(entry)
        sources.setdefault(source.name, source)
    if missing := set(tracked) - sources.keys():
        sys.exit(f"No target of CMake compiles {', '.join(sorted(missing))}.")
    return [sources[name] for name in tracked]


def read_list():
    lines = LIST.read_text().splitlines() if LIST.exists() else []
    return {tuple(line.split(" ", 1)) for line in lines}


def write_list(entries):
    new = LIST.with_suffix(".new")
    new.write_text("".join(f"{key} {name}\n"
                           for key, name in sorted(entries, key=lambda entry: entry[::-1])))
    new.replace(LIST)


def check(sources, clean, jobs, seconds):
    """Checks sources in turn, and updates `clean`; without a limit (None), the list, too. Returns
    the names of those with findings, and the number of those that were reached within `seconds`."""
    end = time.monotonic() + seconds if seconds is not None else float("inf")
    failed, reached = [], 0

    def run(source):
        return None if time.monotonic() > end else source.findings()

    pool = concurrent.futures.ThreadPoolExecutor(jobs)
    try:
        for source, findings in zip(sources, pool.map(run, sources)):
            if findings is None:
                continue
            reached += 1
            if findings:
                failed.append(source.name)
                clean.discard((source.key, source.name))
                print(findings, end="", flush=True)
            else:
                clean.add((source.key, source.name))
            if seconds is None:
                write_list(clean)
    finally:
        pool.shutdown(cancel_futures=True)  # Ctrl-C ends it after the running sources.
    return failed, reached


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seconds", type=float, default=None,
                        help="start no run later than this. Time that is left goes to a random "
                        "sample of the listed sources")
    parser.add_argument("files", nargs="*", help="check only these")
    options = parser.parse_args()
    sources = all_sources(options.build)
    listed = read_list()
    clean = listed & {(source.key, source.name) for source in sources}
    if options.files:
        sources = [source for source in sources if source.name in options.files]
    pending = [source for source in sources if (source.key, source.name) not in clean]
    sample = []
    never = 0
    if options.seconds is not None:
        # The list only grows: a source that was never clean fails `make lint`, not a limited run.
        named = {name for _, name in listed}
        never = sum(source.name not in named for source in pending)
        pending = [source for source in pending if source.name in named]
        random.shuffle(pending)
        sample = [source for source in sources if (source.key, source.name) in clean]
        random.shuffle(sample)
    failed, reached = check(pending + sample, clean, options.jobs, options.seconds)
    if options.seconds is None:
        write_list(clean)
    if failed:
        sys.exit(f"clang-tidy: findings in {', '.join(failed)}")
    print(f"clang-tidy: no findings; {reached} of {len(sources)} sources checked now, "
          f"{max(len(pending) - reached, 0)} changed ones not reached in time, "
          f"{never} never listed.")


if __name__ == "__main__":
    main()
