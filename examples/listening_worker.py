"""A worker that can be traced at any time, also in a container where ptrace is not permitted. It
prints the command that traces it until the next linear layer; the worker then continues.

    python listening_worker.py
"""
import os
import time

import torch

import optrace


def main():
    optrace.listen()
    print(f"optrace attach {os.getpid()} --until-op aten::linear", flush=True)
    model = torch.nn.Linear(8, 4)
    while True:
        model(torch.ones(2, 8))
        time.sleep(0.1)


if __name__ == "__main__":
    main()
