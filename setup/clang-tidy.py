#!/usr/bin/env python3
"""Runs clang-tidy over all C++ sources that git tracks, as BUILD/compile_commands.json has them.

Sources that CMake compiles together (cmake/Unity.cmake) are checked together, because most of the
time goes to the headers that they share. --analyze does the rest, with each source alone: the
static analyser (the checks clang-analyzer-*), which takes longer than all other checks, and a few
checks that see nothing in a source which another file includes.
"""
import argparse
import concurrent.futures
import functools
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
CLANG_TIDY = str(pathlib.Path(sys.executable).parent / "clang-tidy")
# Both are added to the checks of .clang-tidy. The last three look only at the main file.
TOGETHER = "-clang-analyzer-*"
ALONE = ("-bugprone-*,-misc-*,-modernize-*,-performance-*,-readability-*,"
         "misc-unused-alias-decls,misc-unused-using-decls,readability-redundant-preprocessor")
# The analyser gives up on a function after this many steps. With its default, 225000, a few long
# functions take most of the time.
ANALYZER_ARGUMENTS = ["-Xclang", "-analyzer-config", "-Xclang", "max-nodes=50000"]
UNITED = re.compile(r'^#include "(.+)"$', re.MULTILINE)
# A finding is a line with its place and what follows up to the line of the next.
FINDING = re.compile(r"^(?=\S+:\d+:\d+: (?:error|warning): )", re.MULTILINE)


@functools.cache
def configuration(folder):
    """Returns the configuration of the sources in a folder. clang-tidy itself would take that of
    the build folder for a file there which includes them."""
    return subprocess.run([CLANG_TIDY, "--dump-config", folder / "x.cpp", "--"], check=True,
                          stdout=subprocess.PIPE, text=True).stdout


class Unit:
    """What one run of clang-tidy checks: a source, or a file of CMake that includes several."""

    def __init__(self, path, sources, command):
        self.path = path
        self.sources = sources
        self.command = command

    def arguments(self):
        words = iter(shlex.split(self.command["command"])[1:])
        for word in words:
            if word in ("-o", "-c"):
                next(words)
            # Warnings are the compiler's, and clang can't read the standard library's headers with
            # -mgeneral-regs-only.
            elif not word.startswith("-W") and word != "-mgeneral-regs-only":
                yield word

    def findings(self, checks):
        """Runs clang-tidy and returns its findings."""
        result = subprocess.run(
            [CLANG_TIDY, "--quiet", f"--config={configuration(self.sources[0].parent)}",
             f"--checks={checks}", self.path, "--", *self.arguments(), *ANALYZER_ARGUMENTS],
            cwd=self.command["directory"], capture_output=True, text=True)
        if result.returncode == 0:
            return []
        return ([text for text in FINDING.split(result.stdout) if text] or
                [f"{CLANG_TIDY} failed ({result.returncode}) on {self.path}:\n{result.stderr}"])


def compiled(build, alone):
    """Returns the units of all compile commands."""
    for command in json.loads((build / "compile_commands.json").read_text()):
        path = pathlib.Path(command["file"])
        sources = [path]
        if path.parent.name == "Unity":
            sources = [pathlib.Path(name) for name in UNITED.findall(path.read_text())]
        if alone:
            yield from (Unit(source, [source], command) for source in sources)
        else:
            yield Unit(path, sources, command)


def units_of_all(build, alone):
    """Returns units that contain all sources which git tracks, without those that add no source."""
    tracked = subprocess.run(["git", "ls-files", "*.cpp"], cwd=ROOT, stdout=subprocess.PIPE,
                             text=True, check=True).stdout.split()
    missing = {ROOT / name for name in tracked}
    units = []
    for unit in compiled(build, alone):
        if not missing.isdisjoint(unit.sources):
            units.append(unit)
            missing.difference_update(unit.sources)
    if missing:
        names = sorted(str(path.relative_to(ROOT)) for path in missing)
        sys.exit(f"No target of CMake compiles {', '.join(names)}.")
    return units


def chosen_units(units, files):
    """Returns the units that contain `files`."""
    paths = {pathlib.Path(file).resolve() for file in files}
    for path in sorted(paths):
        if not any(path in unit.sources for unit in units):
            sys.exit(f"{path} is no C++ source that CMake compiles. Name a source that includes it "
                     "if it is a header.")
    return [unit for unit in units if not paths.isdisjoint(unit.sources)]


class Progress:
    """Shows on a terminal how many units are done, and the time that the others will take."""

    def __init__(self, units):
        self._units = len(units)
        self._sources = sum(len(unit.sources) for unit in units)
        self._done = []
        self._start = time.monotonic()

    def _show(self, text):
        if sys.stderr.isatty():
            print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)

    def hide(self):
        self._show("")

    def count(self, unit):
        self._done.append(unit)
        checked = sum(len(unit.sources) for unit in self._done)
        left = (time.monotonic() - self._start) / checked * (self._sources - checked)
        self._show(f"{len(self._done)} of {self._units} units, about {left / 60:.0f} min left")


def check(units, checks, jobs):
    """Prints the findings of units, each once: a header's are in each unit that includes it.
    Returns their number."""
    printed = set()
    progress = Progress(units)
    pool = concurrent.futures.ThreadPoolExecutor(jobs)
    try:
        runs = {pool.submit(unit.findings, checks): unit for unit in units}
        for run in concurrent.futures.as_completed(runs):
            progress.hide()
            for finding in run.result():
                if finding not in printed:
                    printed.add(finding)
                    print(finding, end="", flush=True)
            progress.count(runs[run])
    finally:
        pool.shutdown(cancel_futures=True)  # Ctrl-C ends it after the running units.
        progress.hide()
    return len(printed)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--analyze", action="store_true",
                        help="run the static analyser and the checks that need each source alone")
    parser.add_argument("files", nargs="*", metavar="FILE",
                        help="check only these, with what is compiled together with them")
    options = parser.parse_args()
    units = units_of_all(options.build, options.analyze)
    if options.files:
        units = chosen_units(units, options.files)
    units.sort(key=lambda unit: len(unit.sources), reverse=True)  # The longest runs first.
    found = check(units, ALONE if options.analyze else TOGETHER, options.jobs)
    sources = {source for unit in units for source in unit.sources}
    if found:
        sys.exit(f"clang-tidy: {found} findings in {len(sources)} sources")
    print(f"clang-tidy: no findings in {len(sources)} sources ({len(units)} units)")


if __name__ == "__main__":
    main()
