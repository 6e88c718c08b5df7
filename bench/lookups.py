"""Measures look-ups: the time of the whole process, from exec to exit, without Python.

lookups.py [COMMAND]: the medians of 20 runs each for ten names with `optrace locate` and ten ops
with `optrace explain`, on the index shipped with optrace. Output goes to /dev/null.
"""
import os
import statistics
import subprocess
import sys
import time

RUNS = 20
NAMES = ["nn.Linear", "nn.Linear.to", "optim.Adam.step", "F.conv2d", "torch.matmul", "Tensor.add_",
         "aten::add.Tensor", "at::native::convolution", "vectorized_elementwise_kernel",
         "cudnnBackendExecute"]
OPS = ["conv2d", "add.Tensor", "matmul", "linear", "softmax.int", "layer_norm", "gelu",
       "_scaled_grouped_mm", "embedding", "cudnn_convolution"]


def milliseconds(arguments):
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        subprocess.run(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        times.append((time.perf_counter() - start) * 1000)
    return statistics.median(times)


def main():
    command = sys.argv[1] if len(sys.argv) > 1 else "build/optrace"
    python = os.environ.get("OPTRACE_PYTHON", ".venv/bin/python")
    for verb, names in [("locate", NAMES), ("explain", OPS)]:
        medians = {}
        for name in names:
            arguments = [command, verb, name, "--python", python]
            known = subprocess.run(arguments, capture_output=True, check=False).returncode == 0
            medians[name] = milliseconds(arguments)
            print(f"{verb:8} {name:31} {medians[name]:6.1f} ms{'' if known else '  (not known)'}")
        print(f"{verb:8} {'median of the ten':31} {statistics.median(medians.values()):6.1f} ms, "
              f"slowest {max(medians.values()):.1f} ms\n")


if __name__ == "__main__":
    main()
