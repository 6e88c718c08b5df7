"""Attention: the function, the module, and an encoder layer."""
import torch
from torch.nn.functional import scaled_dot_product_attention

torch.manual_seed(0)
q = torch.randn(2, 2, 8, 16, requires_grad=True)
y = scaled_dot_product_attention(q, q, q, is_causal=True)
y.sum().backward()
print(f"{y.sum().item():.3f} {q.grad.sum().item():.3f}")
x = torch.randn(4, 2, 16)
attention = torch.nn.MultiheadAttention(16, 2)
print(f"{attention(x, x, x)[1].sum().item():.3f}")
layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval()
with torch.inference_mode():
    print(f"{layer(x).sum().item():.3f}")
