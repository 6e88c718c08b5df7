"""The torch work of the programs here: ROUNDS training steps, each of which prints its bits."""
import hashlib
import os
import sys
import time

import torch

ROUNDS = int(os.environ.get("ROUNDS", "3"))
# Seconds between rounds, to leave time for attaching.
PAUSE = float(os.environ.get("PAUSE", "0"))


def bits(*tensors):
    """Returns a hash of the tensors' bytes, in 16 hex digits."""
    sum_of_all = hashlib.sha256()
    for tensor in tensors:
        sum_of_all.update(bytes(tensor.detach().flatten().view(torch.uint8).tolist()))
    return sum_of_all.hexdigest()[:16]


def step(seed):
    """Returns the loss and the gradient of a small model with this seed."""
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(8, 3, 3, 3, generator=generator, requires_grad=True)
    x = torch.randn(2, 3, 16, 16, generator=generator)
    loss = torch.conv2d(x, weight).relu().square().mean()
    loss.backward()
    return loss, weight.grad


def rounds():
    """Yields the numbers of the rounds, with a pause after each."""
    for number in range(ROUNDS):
        yield number
        sys.stdout.flush()
        time.sleep(PAUSE)


def main():
    torch.set_num_threads(1)
    for number in rounds():
        print(number, bits(*step(number)))


if __name__ == "__main__":
    main()
