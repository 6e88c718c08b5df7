"""vmap of functions with and without batching rules of their own."""
import torch

torch.manual_seed(0)
x, w = torch.randn(5, 3), torch.randn(3)
print(f"{torch.vmap(torch.dot, (0, None))(x, w).sum().item():.3f}")
print(f"{torch.vmap(lambda row: torch.nn.functional.softmax(row, 0).max())(x).sum().item():.3f}")
print(f"{torch.vmap(torch.vmap(torch.mul))(x, x).sum().item():.3f}")
print(torch.vmap(lambda row: torch.where(row > 0, row, -row).sum(), out_dims=0)(x).shape)
