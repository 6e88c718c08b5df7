"""Measures how fast optrace indexes PyTorch's source, compared with clangd-19's background index of
the same units.

    indexing.py BUILD_FOLDER SOURCE_TREE [--sample N] [--whole]

The sample is taken evenly from all units that optrace indexes, sorted by name. Both get the same
sample with the same arguments, start from nothing and use all processors. The work that optrace
does once for a tree (generating code, the headers that units share) is timed separately and counted
once when both are extrapolated to the whole tree. Memory is the largest sum of resident sizes of
all their processes.
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time


class Memory(threading.Thread):
    """The largest sum of the resident sizes of a process and of all processes that it started."""

    def __init__(self, process):
        super().__init__(daemon=True)
        self.process, self.peak, self.done = process, 0, threading.Event()
        self.start()

    def run(self):
        while not self.done.wait(0.2):
            self.peak = max(self.peak, sum(resident(pid) for pid in family(self.process.pid)))

    def stop(self):
        self.done.set()
        self.join()
        return self.peak


def family(pid):
    found = [pid]
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            for child in pathlib.Path(f"/proc/{pid}/task/{task}/children").read_text().split():
                found += family(int(child))
    except OSError:
        pass
    return found


def resident(pid):
    """The proportional set size in bytes: a page shared by several processes counts once."""
    try:
        text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    return sum(1024 * int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:"))


def timed(command, **options):
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                               text=True, **options)
    memory = Memory(process)
    errors = process.communicate()[1]
    if process.returncode != 0:
        sys.exit(f"{command} failed:\n{errors}")
    return time.perf_counter() - begin, memory.stop()


class Clangd:
    """Enough of the language server protocol to wait for the background index."""

    def __init__(self, folder, jobs):
        self.process = subprocess.Popen(
            ["clangd-19", "--background-index", f"--compile-commands-dir={folder}", f"-j={jobs}",
             "--background-index-priority=normal", "--log=error"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=folder)

    def send(self, **message):
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.process.stdin.flush()

    def receive(self):
        size = 0
        while (line := self.process.stdout.readline().strip()):
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                size = int(value)
        if size == 0:
            sys.exit("clangd-19 ended before its index was done")
        return json.loads(self.process.stdout.read(size))

    def index(self, opened):
        """Returns when every unit is indexed. opened: a small file that starts the indexer."""
        self.send(id=1, method="initialize", params={
            "processId": os.getpid(), "rootUri": opened.parent.as_uri(),
            "capabilities": {"window": {"workDoneProgress": True}}})
        self.send(method="initialized", params={})
        self.send(method="textDocument/didOpen", params={"textDocument": {
            "uri": opened.as_uri(), "languageId": "cpp", "version": 1, "text": opened.read_text()}})
        while True:
            message = self.receive()
            if message.get("method") == "window/workDoneProgress/create":
                self.send(id=message["id"], result=None)
            elif (message.get("method") == "$/progress" and
                  message["params"]["token"] == "backgroundIndexProgress" and
                  message["params"]["value"]["kind"] == "end"):
                return

    def stop(self):
        self.process.kill()
        self.process.wait()


def clangd_index(folder, units):
    """(seconds, bytes) for units (entries of a compilation database)."""
    folder.mkdir()
    small = folder / "wakes_the_indexer.cpp"
    small.write_text("int wakes_the_indexer;\n")
    known = ("directory", "file", "arguments")  # clangd rejects other keys.
    (folder / "compile_commands.json").write_text(json.dumps(
        [{key: unit[key] for key in known} for unit in units] +
        [{"directory": str(folder), "file": str(small),
          "arguments": ["clang++", "-c", str(small)]}]))
    begin = time.perf_counter()
    clangd = Clangd(folder, os.cpu_count())
    memory = Memory(clangd.process)
    try:
        clangd.index(small)
        spent = time.perf_counter() - begin
    finally:
        clangd.stop()
    peak = memory.stop()
    shards = {path.name.partition(".")[0] for path in folder.rglob("*.idx")}
    missing = [unit["name"] for unit in units if pathlib.Path(unit["file"]).stem not in shards]
    if missing:
        sys.exit(f"clangd-19 left out {missing}")
    return spent, peak


def linked_copy(source, folder):
    """A copy of the tree with hard links to the files. A file can be changed by replacing it."""
    def link(from_, to):
        try:
            os.link(from_, to)
        except OSError:
            shutil.copy2(from_, to)
    shutil.copytree(source, folder, copy_function=link, symlinks=True,
                    ignore=shutil.ignore_patterns(".git", "test"))
    return folder


def change(path):
    text = path.read_text() + "// Changed.\n"
    path.unlink()
    path.write_text(text)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("--sample", type=int, default=64, help="units, for both")
    parser.add_argument("--whole", action="store_true",
                        help="optrace indexes the whole tree: minutes")
    options = parser.parse_args()
    build = options.build.resolve()
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        source = linked_copy(options.source.resolve(), work / "tree")
        subprocess.run([build / "unit_commands", source, sys.executable, work], check=True)
        units = json.loads((work / "compile_commands.json").read_text())
        units.sort(key=lambda unit: unit["name"])
        step = len(units) / options.sample
        sample = [units[int((at + 0.5) * step)] for at in range(options.sample)]
        smallest = {unit["group"]: unit for unit in sorted(
            units, key=lambda unit: -os.path.getsize(unit["file"])) if unit not in sample}
        environment = {**os.environ, "XDG_CACHE_HOME": str(work / "cache"),
                       "OPTRACE_INDEX_DIR": str(work / "indexes")}

        def add(chosen, *words):
            only = [word for unit in chosen for word in ("--only", unit["name"])]
            return timed([build / "optrace", "source", "add", source, "--python", sys.executable,
                          *only, *words], env=environment)

        # The smallest unit of each group first, to time only the code generator and the headers.
        once, once_peak = add(smallest.values(), "-o", work / "x.index")
        ours, peak = add(sample, "-o", work / "x.index")
        theirs, their_peak = clangd_index(work / "clangd", sample)
        scale = len(units) / options.sample
        whole = once + ours * scale
        print(f"{options.sample} of {len(units)} units, taken evenly; {os.cpu_count()} processors")
        print(f"  optrace, once for a tree (generated code, shared headers) {once:7.1f} s")
        print(f"  optrace, the sample                                       {ours:7.1f} s")
        print(f"  clangd-19, the sample                                     {theirs:7.1f} s, "
              f"{theirs / ours:.1f} times as long")
        print(f"  extrapolated to the whole tree: optrace {whole / 60:.1f} min, "
              f"clangd-19 {theirs * scale / 60:.1f} min, "
              f"{theirs * scale / whole:.1f} times as long")
        print(f"  peak memory: optrace {max(peak, once_peak) / 2**20:.0f} MiB, "
              f"clangd-19 {their_peak / 2**20:.0f} MiB")

        kept = sample
        if options.whole:
            spent, peak = add([], "-o", work / "x.index")
            kept = []
            print("  optrace, the whole tree, but for what it has of the sample "
                  f"{spent / 60:.1f} min, {peak / 2**20:.0f} MiB")
        changed = next(unit for unit in sample if unit["name"].startswith("aten/src/ATen/native/"))
        change(pathlib.Path(changed["file"]))
        again, _ = add(kept, "-o", work / "x.index")
        alone, _ = timed(["clang++-19", *changed["arguments"][1:], "-fsyntax-only"])
        print(f"{changed['name']} changed, {'whole tree' if options.whole else 'sample'} kept")
        print(f"  optrace {again:.2f} s, clang++-19 -fsyntax-only of that file {alone:.2f} s, "
              f"ratio {again / alone:.2f}")


main()
