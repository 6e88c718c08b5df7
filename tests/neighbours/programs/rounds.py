"""What the programs here do with torch: ROUNDS steps of training, each of which says its bits."""
import hashlib
import os
import sys
import time

import torch

ROUNDS = int(os.environ.get("ROUNDS", "3"))
# Between rounds, seconds, so that somebody can attach meanwhile.
PAUSE = float(os.environ.get("PAUSE", "0"))


def bits(*tensors):
    """The bytes of tensors in 16 hex digits."""
    sum_of_all = hashlib.sha256()
    for tensor in tensors:
        sum_of_all.update(bytes(tensor.detach().flatten().view(torch.uint8).tolist()))
    return sum_of_all.hexdigest()[:16]


def step(seed):
    """The loss and the gradients of a small model, from a seed."""
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(8, 3, 3, 3, generator=generator, requires_grad=True)
    x = torch.randn(2, 3, 16, 16, generator=generator)
    loss = torch.conv2d(x, weight).relu().square().mean()
    loss.backward()
    return loss, weight.grad


def rounds():
    """The numbers of the rounds, with a pause after each."""
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
