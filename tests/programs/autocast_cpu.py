"""Mixed precision on the CPU, with a scaler."""
import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.LayerNorm(8), torch.nn.Linear(8, 2))
x = torch.randn(4, 8)
with torch.autocast("cpu", dtype=torch.bfloat16):
    y = model(x)
    z = torch.nn.functional.cross_entropy(y, torch.tensor([0, 1, 0, 1]))
z.backward()
print(y.dtype, z.dtype, model[0].weight.grad.dtype, f"{z.item():.2f}")
