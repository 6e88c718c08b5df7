"""A model whose training step torch.compile compiles with Inductor, and a function with a break."""
import torch
from torch import nn


class Perceptron(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 1))

    def forward(self, x):
        return self.layers(x).squeeze(-1)


@torch.compile
def scaled(x):
    x = torch.sin(x) * 2
    print("between the graphs")
    return x.cos().sum()


torch.manual_seed(0)
model = Perceptron()
step = torch.compile(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(32, 8)
for _ in range(3):
    loss = nn.functional.mse_loss(step(x), x.sum(1))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
print(f"{loss.item():.2f} {scaled(x).item():.2f}")
