"""Measures the cost of a dry run.

    dry_run.py OPTRACE

Runs the whole command `optrace conv2d` on the CPU and dry, in turn; and a training step of a
12-layer transformer dry, with all probes recording. Prints medians, and the median ratio of the two
commands in the same round.
"""
import statistics
import subprocess
import sys
import time

COMMAND = sys.argv[1]
ROUNDS = 7

STEP = """
import statistics, time, torch
layer = torch.nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True)
model = torch.nn.TransformerEncoder(layer, 12, enable_nested_tensor=False).cuda()
optimizer = torch.optim.AdamW(model.parameters())
x = torch.randn(8, 128, 512, device="cuda")
times = []
for _ in range(12):
    begin = time.perf_counter()
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()
    torch.cuda.synchronize()
    times.append(time.perf_counter() - begin)
print(1000 * statistics.median(times[2:]))
"""


def seconds(*arguments):
    begin = time.perf_counter()
    subprocess.run([COMMAND, "conv2d", *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def main():
    seconds(), seconds("--dry-run")  # Caches the plans and builds the device.
    rounds = [(seconds(), seconds("--dry-run")) for _ in range(ROUNDS)]
    cpu, dry = (statistics.median(column) for column in zip(*rounds))
    ratio = statistics.median(dry / cpu for cpu, dry in rounds)
    print(f"optrace conv2d: {cpu:.2f} s on the CPU, dry {dry:.2f} s: {ratio:.2f} x")
    step = subprocess.run([COMMAND, "run", "--dry-run", "-c", STEP], check=True, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    print("a step of a 12-layer transformer, dry, everything recorded: "
          f"{float(step.stdout):.0f} ms")


main()
