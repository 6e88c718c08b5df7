"""Traces one function in the process itself, and lists the library calls below it (oneDNN, BLAS),
each with its count and the line of this file that leads there.

    python library_calls.py
"""
import collections

import torch

import optrace


def two_layers(images, weight, matrix):
    features = torch.relu(torch.conv2d(images, weight))
    return features.flatten(1) @ matrix


def library_calls(frame, line=None):
    """Yields (line, name, calls) of each library call below a frame."""
    if frame.layer == "library" and not frame.children:
        yield line, frame.name, frame.calls
    in_this_file = frame.layer == "python" and frame.source and frame.source["file"] == __file__
    for child in frame.children:
        called_at = child.source["call_line"] if in_this_file and child.source else line
        yield from library_calls(child, called_at)


if __name__ == "__main__":
    inputs = torch.ones(4, 3, 32, 32), torch.ones(8, 3, 3, 3), torch.ones(8 * 30 * 30, 10)
    with optrace.trace() as trace:
        two_layers(*inputs)
    counts = collections.Counter()
    for root in trace.frames:
        for line, name, calls in library_calls(root):
            counts[line, name] += calls
    for (line, name), calls in counts.items():
        print(f"line {line}: {name}, {calls} ×")
