"""Reads the JSON report of a program, and lists its ops by the number of calls.

    optrace run --format json -o step.json training_step.py
    python read_report.py step.json
"""
import collections
import sys

import optrace


def all_frames(frames):
    for frame in frames:
        yield frame
        yield from all_frames(frame.children)


def main():
    counts = collections.Counter()
    for frame in all_frames(optrace.load(sys.argv[1]).frames):
        if frame.op and (frame.detail or {}).get("step") == "call":
            counts[frame.op] += frame.calls
    for op, calls in counts.most_common():
        print(f"{calls:5}  {op}")


if __name__ == "__main__":
    main()
