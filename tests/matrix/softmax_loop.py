"""Prints "ready" and calls softmax until it is ended."""
import time

import torch

x = torch.rand(8, 8)
print("ready", flush=True)
while True:
    torch.softmax(x, 0)
    time.sleep(0.001)
