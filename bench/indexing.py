"""How fast optrace indexes PyTorch's source, beside clangd-19's background index of the same units.

    indexing.py BUILD_FOLDER SOURCE_TREE [SAMPLE]

SAMPLE (default 64) units are taken evenly from all that optrace indexes, sorted by name: the same for
both, with the same arguments. Both start from nothing and use all processors. What optrace does once for
a tree (generating code, the headers that units share) is timed by itself and counted once when both are
extrapolated to the whole tree. Memory is the largest sum of resident sizes of all their processes.
"""
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
    """The largest sum of the resident sizes of a process and all that it started."""

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
    """Proportional set size in bytes: a page that several processes share counts once."""
    try:
        text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    return sum(1024 * int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:"))


def timed(command, **options):
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                               **options)
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
        """Returns when every unit is indexed. opened: a small file that wakes the indexer."""
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
    """Seconds, bytes; of units (entries of a compilation database)."""
    folder.mkdir()
    small = folder / "wakes_the_indexer.cpp"
    small.write_text("int wakes_the_indexer;\n")
    known = ("directory", "file", "arguments")  # clangd refuses a database with others.
    (folder / "compile_commands.json").write_text(json.dumps(
        [{key: unit[key] for key in known} for unit in units] +
        [{"directory": str(folder), "file": str(small), "arguments": ["clang++", "-c", str(small)]}]))
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


def main():
    build, source = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
    wanted = int(sys.argv[3]) if len(sys.argv) > 3 else 64
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        subprocess.run([build / "unit_commands", source, sys.executable, work], check=True)
        units = json.loads((work / "compile_commands.json").read_text())
        units.sort(key=lambda unit: unit["name"])
        step = len(units) / wanted
        sample = [units[int((at + 0.5) * step)] for at in range(wanted)]
        groups = {unit["group"]: unit for unit in sorted(
            units, key=lambda unit: -os.path.getsize(unit["file"])) if unit not in sample}

        environment = {**os.environ, "XDG_CACHE_HOME": str(work / "cache")}

        def optrace(chosen):
            only = [word for unit in chosen for word in ("--only", unit["name"])]
            return timed([build / "optrace", "source", "add", source, "--python", sys.executable,
                          *only, "-o", work / "x.index"], env=environment)

        # The smallest unit of each group first: what is left are the code generator and the headers.
        once, once_peak = optrace(groups.values())
        ours, peak = optrace(sample)
        theirs, their_peak = clangd_index(work / "clangd", sample)
        whole, their_whole = once + ours * len(units) / wanted, theirs * len(units) / wanted
        print(f"{wanted} of {len(units)} units, taken evenly; {os.cpu_count()} processors")
        print(f"  optrace, once for a tree (generated code, shared headers) {once:8.1f} s")
        print(f"  optrace, the sample                                       {ours:8.1f} s")
        print(f"  clangd-19, the sample                                     {theirs:8.1f} s"
              f"   ratio {theirs / ours:5.2f}")
        print(f"  extrapolated to the whole tree: optrace {whole / 60:.1f} min, "
              f"clangd-19 {their_whole / 60:.1f} min, ratio {their_whole / whole:.2f}")
        print(f"  peak memory: optrace {max(peak, once_peak) / 2**20:.0f} MiB, "
              f"clangd-19 {their_peak / 2**20:.0f} MiB")
        shutil.rmtree(work / "clangd")


main()
