#!/usr/bin/env python3
"""run_workloads.py [NAME ...]: runs workloads.WORKLOADS, all or those named, in this process.

Prints one JSON object a line and workload, in their order: {"name", "ok", "error"}. "error" is
null or "Type: message". Then {"unthought": N}: calls of CUDA functions that the emulated device
knows nothing about, null on a real one. Exits 0 if all finished, else 1.
"""
import ctypes
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from workloads import WORKLOADS  # noqa: E402


def run(torch, name, device):
    # What an earlier one left in PyTorch's cache is what a kernel that doesn't run seems to write.
    torch.cuda.empty_cache()
    error = None
    try:
        WORKLOADS[name](torch, device)
        torch.cuda.synchronize()
    except Exception as exception:
        error = f"{type(exception).__name__}: {exception}"
    return {"name": name, "ok": error is None, "error": error}


def unthought():
    try:
        count = ctypes.CDLL(None).optrace_device_unthought
    except AttributeError:
        return None
    count.restype = ctypes.c_uint64
    return count()


def main():
    names = sys.argv[1:] or list(WORKLOADS)
    unknown = [name for name in names if name not in WORKLOADS]
    if unknown:
        sys.exit(f"no workload is named {', '.join(unknown)}; there are: {' '.join(WORKLOADS)}")
    import torch
    if not torch.cuda.is_available():
        sys.exit("torch sees no CUDA device")
    failed = False
    for name in names:
        result = run(torch, name, "cuda")
        failed = failed or not result["ok"]
        print(json.dumps(result), flush=True)
    print(json.dumps({"unthought": unthought()}), flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
