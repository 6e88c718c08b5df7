"""gather, scatter, topk, sort, unique, masks, searchsorted and a histogram."""
import torch

torch.manual_seed(0)
scores = torch.randn(5, 7)
values, places = scores.topk(3, dim=1)
assert torch.equal(scores.gather(1, places), values)
counts = torch.zeros(7).scatter_add_(0, places.flatten(), torch.ones(15))
ranks = scores.argsort(1).argsort(1)
kept = scores.masked_fill(ranks < 4, 0.0)
edges = torch.linspace(-3, 3, 7)
bins = torch.bucketize(scores, edges)
print(counts.sum().item(), int((kept != 0).sum()), torch.unique(bins).numel() <= 8,
      torch.bincount(bins.flatten(), minlength=8).sum().item(), torch.cumsum(counts, 0)[-1].item())
total = torch.zeros(3, 7).index_add_(0, torch.tensor([0, 2, 1, 0, 2]), scores)
print(f"{(total.sum() - scores.sum()).abs().item():.3f}", torch.nonzero(total > 1e9).shape)
