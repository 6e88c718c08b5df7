"""Merges the traces of a job's ranks on all machines of a Ray cluster, eight at a time. Any system
that can reduce will do: the result depends neither on the order nor on the grouping.

    for rank in 0 1; do RANK=$rank optrace run --trace step.trace training_step.py; done
    python merge_with_ray.py step.trace step.rank*.trace
    optrace report step.trace
"""
import pathlib
import subprocess
import sys
import tempfile

import ray

AT_ONCE = 8


@ray.remote
def read(file):
    return pathlib.Path(file).read_bytes()


@ray.remote
def merge(*traces):
    with tempfile.TemporaryDirectory() as folder:
        files = [pathlib.Path(folder, f"{number}.trace") for number in range(len(traces))]
        for file, trace in zip(files, traces):
            file.write_bytes(trace)
        merged = pathlib.Path(folder, "merged.trace")
        subprocess.run(["optrace", "merge", "-o", merged, *files], check=True)
        return merged.read_bytes()


def main():
    output, *files = sys.argv[1:]
    ray.init(include_dashboard=False)
    merged = [read.remote(file) for file in files]
    while True:
        merged = [merge.remote(*merged[start:start + AT_ONCE])
                  for start in range(0, len(merged), AT_ONCE)]
        if len(merged) == 1:
            break
    pathlib.Path(output).write_bytes(ray.get(merged[0]))


if __name__ == "__main__":
    main()
