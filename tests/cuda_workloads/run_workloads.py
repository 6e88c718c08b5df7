#!/usr/bin/env python3
"""run_workloads.py [NAME ...]: runs workloads.WORKLOADS, all or those named, in this process.

Prints one JSON object per line: {"versions": hardware and software}; for each workload, in order,
{"name", "ok", "error"}, where "error" is null or "Type: message"; then {"unimplemented": N}, the
number of calls of CUDA functions that the emulated device doesn't implement, null on a real device.
Exits with status 0 if all workloads finished, else 1.
"""
import ctypes
import json
import os
import platform
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from workloads import WORKLOADS


def run(torch, name, device):
    # Memory cached from an earlier workload would look like output of a kernel that doesn't run.
    torch.cuda.empty_cache()
    error = None
    try:
        WORKLOADS[name](torch, device)
        torch.cuda.synchronize()
    except Exception as exception:
        error = f"{type(exception).__name__}: {exception}"
    return {"name": name, "ok": error is None, "error": error}


def driver_version():
    """Returns the version that NVIDIA's kernel module reports; None if there is no module."""
    try:
        with open("/proc/driver/nvidia/version") as file:
            found = re.search(r"Kernel Module.*?(\d+\.[\d.]+)", file.read())
    except OSError:
        return None
    return found and found.group(1)


def driver_cuda_version():
    """Returns the newest CUDA version that the driver supports, such as 12040; None on failure."""
    version = ctypes.c_int()
    if ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version)) != 0:
        return None
    return version.value


def versions(torch):
    major, minor = torch.cuda.get_device_capability()
    return {"arch": f"sm_{major}{minor}", "device": torch.cuda.get_device_name(),
            "driver": driver_version(), "driver_cuda": driver_cuda_version(),
            "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version(),
            "torch": torch.__version__, "python": platform.python_version()}


def unimplemented():
    try:
        count = ctypes.CDLL(None).optrace_device_unimplemented
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
    print(json.dumps({"versions": versions(torch)}), flush=True)
    failed = False
    for name in names:
        result = run(torch, name, "cuda")
        failed = failed or not result["ok"]
        print(json.dumps(result), flush=True)
    print(json.dumps({"unimplemented": unimplemented()}), flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
