#!/usr/bin/env python3
"""Runs clang-tidy over all C++ sources that git tracks, as BUILD/compile_commands.json has them.

Sources that CMake compiles together (cmake/Unity.cmake) are checked together, because most of the
time goes to the headers that they share. --analyze does the rest, with each source alone: the
static analyser (the checks clang-analyzer-*), which takes longer than all other checks, and a few
checks that see nothing in a source which another file includes.

--changed checks what differs from the commit of the last run over all sources, which CHANGELOG.md
names. A header is checked in one unit that includes it. Everything is checked if that commit is not
in this clone or if the checks are different ones.
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
WHOLE_RUN = re.compile(r"^\| `make lint` \|.* commit ([0-9a-f]+)", re.MULTILINE)
# What decides which checks there are.
SETTINGS = re.compile(r"(^|/)\.clang-tidy$|^setup/(clang-tidy\.py|requirements-lint\.txt)$")
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


def changed_files():
    """Returns the paths that differ from the last run over all sources; None if everything may."""
    whole_run = WHOLE_RUN.search((ROOT / "CHANGELOG.md").read_text())
    names = whole_run and subprocess.run(
        ["git", "diff", "--name-only", "--diff-filter=d", whole_run[1]], cwd=ROOT,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    if not names or names.returncode != 0:
        return None
    changed = names.stdout.split()
    return None if any(map(SETTINGS.search, changed)) else {ROOT / name for name in changed}


def included_files(build):
    """Returns {source that was compiled: files that it includes}, which Ninja knows."""
    listed = subprocess.run(["ninja", "-C", build, "-t", "deps"], stdout=subprocess.PIPE, text=True,
                            check=True).stdout
    including = {}
    for entry in listed.split("\n\n"):
        names = [build / name.strip() for name in entry.splitlines()[1:]]
        if names:
            including[names[0]] = set(names)
    return including


def changed_units(units, changed, build):
    """Returns the units that contain changed sources, and one for each other changed header. A unit
    that was never compiled may include any header."""
    included = included_files(build.resolve())
    chosen = [unit for unit in units if not changed.isdisjoint(unit.sources)]
    seen = set().union(*(included.get(unit.path, ()) for unit in chosen))
    for header in sorted(path for path in changed if path.suffix == ".h"):
        if header in seen:
            continue
        unit = next((unit for unit in units if header in included.get(unit.path, ())), None)
        added = [unit] if unit else [one for one in units if one.path not in included]
        chosen += [one for one in added if one not in chosen]
        seen.update(*(included.get(one.path, {header}) for one in added))
    return chosen


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
    parser.add_argument("--changed", action="store_true",
                        help="check what changed since the last run over all sources")
    parser.add_argument("files", nargs="*", metavar="FILE",
                        help="check only these, with what is compiled together with them")
    options = parser.parse_args()
    units = units_of_all(options.build, options.analyze)
    if options.files:
        units = chosen_units(units, options.files)
    elif options.changed and (changed := changed_files()) is not None:
        units = changed_units(units, changed, options.build)
    units.sort(key=lambda unit: len(unit.sources), reverse=True)  # The longest runs first.
    found = check(units, ALONE if options.analyze else TOGETHER, options.jobs)
    sources = {source for unit in units for source in unit.sources}
    if found:
        sys.exit(f"clang-tidy: {found} findings in {len(sources)} sources")
    print(f"clang-tidy: no findings in {len(sources)} sources ({len(units)} units)")


if __name__ == "__main__":
    main()
