#!/usr/bin/env python3
"""launches.py REPORT.json: prints the kernels that PyTorch's own ops launched, as JSON.

One entry for each op, kernel and size: [op or autograd node, kernel without its template arguments,
grid, block], in order. Kernels of CUDA's libraries are left out, since a dry run has none, and
those that PyTorch compiles at run time.
"""
import json
import re
import sys

OWN = re.compile("(at|at_cuda_detail|pytorch_flash)::|(indexing_backward|softmax_warp)_")


def launches(report):
    found = set()
    pending = [(frame, None) for frame in report["roots"]]
    while pending:
        frame, op = pending.pop()
        op = frame["op"] or op
        pending += [(child, op) for child in frame["children"]]
        kernel = frame["name"].replace("(anonymous namespace)::", "").split("<")[0]
        if frame["layer"] == "device" and OWN.match(kernel):
            found |= {(op, kernel, tuple(launch["grid"]), tuple(launch["block"]))
                      for launch in frame["detail"].get("launches", [])}
    # Some launches have no op.
    return [[op, kernel, list(grid), list(block)]
            for op, kernel, grid, block in sorted(found, key=str)]


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        print(json.dumps(launches(json.load(file))))
