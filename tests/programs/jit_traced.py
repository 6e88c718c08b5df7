"""A module traced by torch.jit, frozen, and saved in memory."""
import io

import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU())
model.eval()
x = torch.randn(1, 3, 8, 8)
traced = torch.jit.freeze(torch.jit.trace(model, x))
buffer = io.BytesIO()
torch.jit.save(traced, buffer)
buffer.seek(0)
loaded = torch.jit.load(buffer)
with torch.no_grad():
    for _ in range(2):
        print(f"{loaded(x).sum().item():.3f}")
