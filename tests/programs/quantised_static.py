"""Tensors that are quantised by hand, and what works on them."""
import torch

torch.manual_seed(0)
x = torch.randn(2, 3, 8, 8)
q = torch.quantize_per_tensor(x, 0.05, 64, torch.quint8)
print(q.int_repr().sum().item(), f"{q.dequantize().sum().item():.3f}")
print(torch.nn.functional.max_pool2d(q, 2).int_repr().sum().item())
print(torch.cat([q, q]).int_repr().float().mean().item())
