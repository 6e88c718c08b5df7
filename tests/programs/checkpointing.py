"""Activations that are computed again in the backward pass."""
import torch
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

torch.manual_seed(0)
model = torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(4)))
x = torch.ones(2, 4, requires_grad=True)
checkpoint(lambda t: model(t).tanh(), x, use_reentrant=False).sum().backward()
checkpoint_sequential(model, 2, x, use_reentrant=False).sum().backward()
checkpoint(model, x, use_reentrant=True).sum().backward()
print(f"{x.grad.sum().item():.3f}")
