"""Measures `optrace attach`: how long the process is paused, how soon ops are traced, and its speed
afterwards; compared with `py-spy dump` and `memray attach`, which also inspect a running Python.

    attach.py OPTRACE FOLDER

py-spy and memray are in FOLDER (pip install --target). The pause is the longest time between two
steps of a loop that reads the clock, including waiting for the GIL. `optrace attach` ends as soon
as it has seen an op, so the whole command takes longer than the time to the first op.
"""
import mmap
import os
import pathlib
import statistics
import struct
import subprocess
import sys
import tempfile
import time

PROGRAM = """
import mmap, struct, sys, time
import torch
torch.set_num_threads(1)
with open(sys.argv[1], "r+b") as file:
    memory = mmap.mmap(file.fileno(), 16)
layer, batch, now = torch.nn.Linear(4, 4), torch.ones(2, 4), time.perf_counter_ns
last, steps = now(), 0
while True:
    time_now = now()
    if time_now - last > struct.unpack_from("q", memory)[0]:
        struct.pack_into("q", memory, 0, time_now - last)
    last = time_now
    steps += 1
    if steps % 2000 == 0:
        layer(batch)
        struct.pack_into("q", memory, 8, steps)
        last = now()
"""
ROUNDS = 100


class Program:
    def __init__(self, folder, path):
        self._file = pathlib.Path(folder, "memory")
        self._file.write_bytes(bytes(16))
        self._memory = mmap.mmap(os.open(self._file, os.O_RDWR), 16)
        self._process = subprocess.Popen([sys.executable, "-c", PROGRAM, self._file],
                                         env={**os.environ, "PYTHONPATH": path})
        self.pid = self._process.pid
        while self.steps() == 0 and self._process.poll() is None:
            time.sleep(0.1)

    def steps(self):
        return struct.unpack_from("q", self._memory, 8)[0]

    def longest_pause(self):
        """The longest pause since the last call, in milliseconds."""
        pause = struct.unpack_from("q", self._memory)[0] / 1e6
        struct.pack_into("q", self._memory, 0, 0)
        return pause

    def speed(self):
        """Steps per second."""
        before, start = self.steps(), time.perf_counter()
        time.sleep(2)
        return (self.steps() - before) / (time.perf_counter() - start)

    def end(self):
        self._process.kill()
        self._process.wait()


def measure(program, name, command, rounds):
    pauses, times = [], []
    for _ in range(rounds):
        time.sleep(0.05)
        program.longest_pause()
        start = time.perf_counter()
        result = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                text=True, check=False)
        times.append(time.perf_counter() - start)
        if result.returncode != 0:
            print(f"{name}: failed: {result.stderr.strip().splitlines()[-1:]}")
            return
        time.sleep(0.05)
        pauses.append(program.longest_pause())
    print(f"{name}: stands still for {statistics.median(pauses):.1f} ms (largest of {rounds}: "
          f"{max(pauses):.1f}); the whole command {1000 * statistics.median(times):.0f} ms")


def main():
    command, tools = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        program = Program(folder, tools)
        try:
            attach = [command, "attach", str(program.pid), "--until-op", "aten::*", "-o",
                      os.path.join(folder, "report")]
            subprocess.run(attach, check=True)  # Makes the plans, once per torch.
            before = program.speed()
            measure(program, "nobody looks", ["sleep", "0.3"], ROUNDS)
            measure(program, "optrace attach", attach, ROUNDS)
            print(f"speed afterwards: {program.speed() / before:.2f} of that before")
            measure(program, "py-spy dump",
                    [os.path.join(tools, "bin/py-spy"), "dump", "--pid", str(program.pid)], ROUNDS)
            measure(program, "memray attach",
                    [sys.executable, "-m", "memray", "attach", "-o", os.path.join(folder, "memray"),
                     "--force", "--duration", "1", str(program.pid)], 1)
        finally:
            program.end()


if __name__ == "__main__":
    main()
