"""Indexing by numbers, slices, masks and tensors, read and written."""
import torch

x = torch.arange(24.0).reshape(4, 6)
print(x[1, 2].item(), x[1:3, ::2].sum().item(), x[x > 10].sum().item(), x[[0, 2], [1, 3]].tolist())
x[x > 20] = 0
x[0] += 1
x[:, torch.tensor([0, 5])] = -1
x.index_add_(0, torch.tensor([1, 1]), torch.ones(2, 6))
x.scatter_(1, torch.zeros(4, 1, dtype=torch.long), 7.0)
print(x.sum().item(), x.gather(1, torch.ones(4, 1, dtype=torch.long)).sum().item())
print(torch.nonzero(x < 0).shape, x.take(torch.tensor([3, 9])).tolist(), (x == 7).any().item())
