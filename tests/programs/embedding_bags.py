"""Embeddings and bags of them, with gradients."""
import torch

torch.manual_seed(0)
for mode in ("sum", "mean", "max"):
    bag = torch.nn.EmbeddingBag(10, 4, mode=mode)
    y = bag(torch.tensor([1, 2, 4, 5, 4, 3]), torch.tensor([0, 2, 5]))
    y.sum().backward()
    print(mode, f"{y.sum().item():.3f} {bag.weight.grad.sum().item():.3f}")
print(torch.nn.functional.one_hot(torch.tensor([0, 2, 1])).tolist())
