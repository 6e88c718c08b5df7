"""ranks.py OPTRACE [--ranks N]: measures `optrace report` and `optrace merge` of many ranks.

Records the GPT program (bench/programs/gpt_training.py) once and makes N traces of it, 1,024 if not
told otherwise: copies with a rank of their own, with perturbed times. Rank 17 takes another path at
the end of the last step, ranks 100 to 103 take some paths more often. Prints the time and the peak
memory of each command, and what one rank more costs: the difference between N and N / 2 ranks.
"""
import argparse
import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import time

import xxhash
import zstandard

PROGRAM = pathlib.Path(__file__).resolve().parent / "programs/gpt_training.py"
HEADER, SECTION = struct.Struct("<8sIIQ"), struct.Struct("<IIQQ")
META, FUNCTIONS, PATHS = 1, 3, 5
OTHER_RANK, BUSY_RANKS = 17, range(100, 104)
# Of a path: positions in its list of numbers (docs/trace-format.md).
KIND, WHAT, CALLS, TOTAL = 0, 2, 11, 12
# The numbers before a path's counts.
PATH_HEAD = 15
VARIANTS = 8


def numbers_of(data):
    value = shift = 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            yield value
            value = shift = 0


def encoded(numbers):
    data = bytearray()
    for number in numbers:
        while number >= 0x80:
            data.append(number & 0x7F | 0x80)
            number >>= 7
        data.append(number)
    return bytes(data)


def symbols_of(section):
    """The symbols of a trace's functions."""
    at = 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = section[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def text():
        nonlocal at
        size = number()
        at += size
        return section[at - size:at]

    symbols = []
    for _ in range(number()):
        number(), number()
        symbols.append(text())
        text(), number()
        for _ in range(number()):
            number()
    return symbols


class Paths:
    """The paths of a trace, as lists of numbers."""

    def __init__(self, section):
        numbers = numbers_of(section)
        self.head = [next(numbers) for _ in range(9)]
        self.paths = []
        for _ in range(self.head[-1]):
            path = [next(numbers) for _ in range(PATH_HEAD)]
            for size in (3, 3, None, 5):
                path.append(next(numbers))  # A count of counts, or the ops left out.
                if size:
                    path += [next(numbers) for _ in range(size * path[-1])]
            path.append(next(numbers))
            self.paths.append(path)

    def section(self):
        return encoded(self.head) + b"".join(map(encoded, self.paths))


def perturb_times(paths, chance):
    for path in paths.paths:
        if path[TOTAL]:
            path[TOTAL] += chance.randrange(path[TOTAL] // 8 + 1)


def make_traces(recorded, folder, count):
    data = recorded.read_bytes()
    magic, version, section_count, _ = HEADER.unpack_from(data)
    sections, at = [], HEADER.size
    for _ in range(section_count):
        kind, _, stored, size = SECTION.unpack_from(data, at)
        at += SECTION.size + stored
        sections.append((kind, zstandard.decompress(data[at - stored:at], size)))
    content = dict(sections)
    compress = zstandard.ZstdCompressor(level=3).compress

    def stored_section(kind, plain):
        stored = compress(plain)
        return SECTION.pack(kind, 0, len(stored), len(plain)) + stored

    chance = random.Random(0)
    variants = []
    for _ in range(VARIANTS):
        paths = Paths(content[PATHS])
        perturb_times(paths, chance)
        variants.append(stored_section(PATHS, paths.section()))
    kernels = [number + 1 for number, symbol in enumerate(symbols_of(content[FUNCTIONS]))
               if b"native" in symbol and b"_kernel" in symbol]
    other, busy = Paths(content[PATHS]), Paths(content[PATHS])
    of_kernels = [i for i, path in enumerate(other.paths)
                  if path[KIND] // 2 == 0 and path[WHAT] in kernels]
    last = other.paths[of_kernels[-1]]
    last[WHAT] = next(kernel for kernel in kernels if kernel != last[WHAT])
    for i in of_kernels[:50]:
        busy.paths[i][CALLS] += 20
    special = {OTHER_RANK: stored_section(PATHS, other.section()),
               **dict.fromkeys(BUSY_RANKS, stored_section(PATHS, busy.section()))}
    rest = {kind: b"".join(stored_section(k, plain) for k, plain in sections if k == kind)
            for kind, _ in sections}
    meta = json.loads(content[META])
    traces = []
    for rank in range(count):
        meta["process"] = {"id": 10_000 + rank, "rank": rank}
        rest[META] = stored_section(META, json.dumps(meta).encode())
        rest[PATHS] = special.get(rank) or variants[rank % VARIANTS]
        body = b"".join(rest[kind] for kind in sorted(rest))
        traces.append(folder / f"job.rank{rank}.trace")
        traces[-1].write_bytes(HEADER.pack(magic, version, section_count,
                                           xxhash.xxh3_64_intdigest(body)) + body)
    return traces


def measured(command):
    """Returns the wall time, the CPU time and the peak memory (MB) of a command."""
    begin = time.perf_counter()
    # A process of its own: the peak of all children is that of the largest one.
    script = ("import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True); "
              "used = resource.getrusage(resource.RUSAGE_CHILDREN); "
              "print(used.ru_utime + used.ru_stime, used.ru_maxrss)")
    output = subprocess.run([sys.executable, "-c", script, *map(str, command)], check=True,
                            stdout=subprocess.PIPE, text=True).stdout
    wall = time.perf_counter() - begin
    processor, peak = output.split()
    return wall, float(processor), int(peak) * 1024 / 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("optrace")
    parser.add_argument("--ranks", type=int, default=1024)
    parser.add_argument("--trace", type=pathlib.Path, help="a trace of the program")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        recorded = options.trace or folder / "gpt.trace"
        if not options.trace:
            subprocess.run([options.optrace, "run", "--python", sys.executable, "--trace", recorded,
                            "-o", "/dev/null", PROGRAM], check=True, stdout=subprocess.DEVNULL)
        traces = make_traces(recorded, folder, options.ranks)
        report, merged = folder / "report.txt", folder / "job.trace"
        print(f"{len(traces)} traces of {recorded.stat().st_size / 1e6:.1f} MB")
        for what, command in (("report", ["report", "-o", report]),
                              ("merge", ["merge", "-o", merged])):
            half = measured([options.optrace, *command, *traces[:len(traces) // 2]])
            whole = measured([options.optrace, *command, *traces])
            more = len(traces) - len(traces) // 2
            print(f"  {what:<7} {whole[0]:6.1f} s, {whole[1]:6.1f} s of CPU time, "
                  f"{whole[2]:5.0f} MB; one rank more: {(whole[0] - half[0]) / more * 1e3:.1f} ms, "
                  f"{(whole[2] - half[2]) / more:.2f} MB", flush=True)
        print(f"  report of the merged trace ({merged.stat().st_size / 1e6:.1f} MB): "
              f"{measured([options.optrace, 'report', '-o', report, merged])[0]:.2f} s")
        print(*(f"  {line.strip()}" for line in report.read_text().splitlines()[:12]
                if "rank" in line), sep="\n")


if __name__ == "__main__":
    main()
