"""A small transformer in half precision: the model of docs/ci.md's recipe for upgrades."""
import torch

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
model = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, norm_first=True)
model = model.to(device=device, dtype=torch.float16).train()
x = torch.randn(2, 128, 64, device=device, dtype=torch.float16)
model(x).sum().backward()
