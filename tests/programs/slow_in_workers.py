"""A program with DataLoader workers for `optrace findings`; see slow_on_cpu.py."""
import torch
from torch.utils.data import DataLoader, TensorDataset


def batches(count, workers):
    data = TensorDataset(torch.arange(float(count)))
    return DataLoader(data, batch_size=1, num_workers=workers)


def load():
    for batch in batches(1, 2):  # idle-worker
        print(batch)
    for batch in batches(2, 2):
        print(batch)


load()
