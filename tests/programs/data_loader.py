"""A DataLoader without workers, with a collate function and a sampler."""
import torch
from torch.utils.data import DataLoader, RandomSampler, TensorDataset

generator = torch.Generator().manual_seed(0)
data = TensorDataset(torch.arange(32.0).reshape(16, 2), torch.arange(16))
loader = DataLoader(data, batch_size=4, sampler=RandomSampler(data, generator=generator))
print([(round(x.exp().log().sum().item()), y.tolist()) for x, y in loader])
