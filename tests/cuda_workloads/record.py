#!/usr/bin/env python3
"""record.py [options] [NAME ...]: records the CUDA workloads, all or those named, for the tests.

    python3 tests/cuda_workloads/record.py                     on a machine with a GPU
    python3 tests/cuda_workloads/record.py --dry-run sm_90     on an emulated GPU
    python3 tests/cuda_workloads/record.py --lacking           lists the missing recordings

Makes a folder ARCH-TORCH in fixtures/cuda (--output), such as sm_90-2.11.0+cu130. It contains
recording.json (hardware, versions, errors) and a report NAME.json.xz for each workload; the format
is described in fixtures/cuda/README.md. All workloads run in one process, in their order: compare a
recording only with a dry run of the same workloads.
"""
import argparse
import json
import lzma
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

FOLDER = pathlib.Path(__file__).resolve().parent
REPOSITORY = FOLDER.parents[1]
FORMAT = "optrace.recording/1"
ARCHITECTURES = ["sm_80", "sm_90"]  # Compared with recordings.


class Failed(Exception):
    pass


def workload_reports(report):
    """Returns name -> the report of that workload alone: the frames of its function."""
    found = {}
    pending = [report["roots"]]
    while pending:
        for frame in pending.pop():
            module, _, name = frame["name"].partition(".")
            if frame["layer"] == "python" and module == "workloads" and "." not in name:
                found.setdefault(name, []).append(frame)
            else:
                pending.append(frame["children"])
    return {name: {**report, "roots": frames} for name, frames in found.items()}


def thinned(optrace, report, folder):
    """Returns the report reduced to the data that `optrace compare` keeps in a baseline."""
    whole, thin = folder / "whole.json", folder / "thin.json"
    whole.write_text(json.dumps(report))
    thin.unlink(missing_ok=True)
    result = subprocess.run([*optrace, "compare", whole, "--baseline", thin, "--update"],
                            capture_output=True, text=True)
    if result.returncode != 0:
        raise Failed(f"optrace compare --update failed:\n{result.stderr}")
    return thin.read_bytes()


def record(optrace, python, output, names=(), dry_run=None, environment=None):
    """Runs the workloads; returns the folder made in `output`. `optrace` is a list of words."""
    with tempfile.TemporaryDirectory() as temporary:
        whole = pathlib.Path(temporary, "report.json")
        command = [*optrace, "run",
                   *([f"--dry-run={dry_run}", "--devices", "2"] if dry_run else []),
                   "--python", str(python), "--format", "json", "-o", str(whole),
                   str(FOLDER / "run_workloads.py"), *names]
        # Keeps the report of the second run. Both runs probe the same functions.
        for _ in range(2):
            result = subprocess.run(command, capture_output=True, text=True, env=environment)
        lines = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
        if not lines or not whole.exists():
            raise Failed(f"{shlex.join(command)} made no report:\n{result.stderr[-4000:]}")
        about = next(line["versions"] for line in lines if "versions" in line)
        report = json.loads(whole.read_text())
        about = {"format": FORMAT, **about, "dry_run": bool(dry_run),
                 "workloads": {line["name"]: line["error"] for line in lines if "name" in line}}
        folder = pathlib.Path(output) / f"{about['arch']}-{about['torch']}"
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("*.json.xz"):
            old.unlink()
        # A recording of what could be recorded is better than none: some kernels may not be tied to
        # their calls, the program's processes only compile, and it fails if a workload did.
        about["shortfalls"], report["shortfalls"] = report["shortfalls"], []
        reports = workload_reports(report)
        for name in about["workloads"]:
            thin = thinned(optrace, reports.get(name, {**report, "roots": []}), whole.parent)
            (folder / f"{name}.json.xz").write_bytes(lzma.compress(thin, preset=9))
        (folder / "recording.json").write_text(json.dumps(about, indent=1) + "\n")
        return folder


def read_recording(folder):
    about = json.loads((pathlib.Path(folder) / "recording.json").read_text())
    if about.get("format") != FORMAT:
        raise Failed(f"{folder} is a recording of format {about.get('format')}, not {FORMAT}; "
                     "record it again")
    return about


def compare(optrace, first, second):
    """Returns workload -> comparison of the recordings' reports (schema optrace.comparison/1)."""
    comparisons = {}
    with tempfile.TemporaryDirectory() as temporary:
        for name in read_recording(first)["workloads"]:
            files = []
            for number, folder in enumerate((first, second)):
                file = pathlib.Path(temporary) / f"{number}.json"
                packed = pathlib.Path(folder) / f"{name}.json.xz"
                file.write_bytes(lzma.decompress(packed.read_bytes()))
                files.append(str(file))
            result = subprocess.run([*optrace, "compare", *files, "--format", "json"],
                                    capture_output=True, text=True)
            if result.returncode not in (0, 1):
                raise Failed(f"comparing {name} failed:\n{result.stderr}")
            comparisons[name] = json.loads(result.stdout)
    return comparisons


def recordings(output):
    return sorted(path.parent for path in pathlib.Path(output).glob("*/recording.json"))


def lacking(output, versions):
    """Returns a sentence that lists the missing recordings of these torch versions, or ""."""
    there = {folder.name for folder in recordings(output)}
    absent = [f"{arch}-{version}" for version in versions for arch in ARCHITECTURES
              if f"{arch}-{version}" not in there]
    if not absent:
        return ""
    return (f"no GPU has recorded {', '.join(absent)} yet: run tests/cuda_workloads/record.py on "
            f"one, and put the folder that it makes into {output}")


def torch_version(python):
    """Returns the version in version.py of a Python's torch, without importing torch."""
    result = subprocess.run([str(python), "-c", "import importlib.util as u; "
                             "print(u.find_spec('torch').submodule_search_locations[0])"],
                            capture_output=True, text=True)
    if result.returncode != 0:
        raise Failed(f"{python} has no torch")
    text = (pathlib.Path(result.stdout.strip()) / "version.py").read_text()
    return re.search(r"__version__ = '([^']+)'", text).group(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--optrace", default=str(REPOSITORY / "build/optrace"))
    parser.add_argument("--python", default=sys.executable, help="the Python that has torch")
    parser.add_argument("--output", default=str(REPOSITORY / "fixtures/cuda"))
    parser.add_argument("--dry-run", metavar="MODEL", help="emulate a GPU, such as sm_90")
    parser.add_argument("--lacking", action="store_true")
    options = parser.parse_args()
    try:
        if options.lacking:
            print(lacking(options.output, [torch_version(options.python)])
                  or "every recording is there")
            return
        folder = record(shlex.split(options.optrace), options.python, options.output, options.names,
                        options.dry_run)
        about = read_recording(folder)
        size = sum(path.stat().st_size for path in folder.iterdir())
        failed = [name for name, error in about["workloads"].items() if error]
        print(f"{folder}: {len(about['workloads'])} workloads, {size} bytes"
              + (f"; failed: {', '.join(failed)}" if failed else ""))
    except Failed as failure:
        sys.exit(f"record.py: {failure}")


if __name__ == "__main__":
    main()
