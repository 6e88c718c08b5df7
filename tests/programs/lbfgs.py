"""A line fitted with LBFGS and a closure, as in the tutorial about time sequences."""
import torch

torch.manual_seed(0)
x = torch.linspace(0, 1, 20, dtype=torch.float64)
y = 3 * x + 1
weight = torch.zeros(2, dtype=torch.float64, requires_grad=True)
optimizer = torch.optim.LBFGS([weight], max_iter=5, line_search_fn="strong_wolfe")


def closure():
    optimizer.zero_grad()
    loss = (weight[0] * x + weight[1] - y).square().mean()
    loss.backward()
    return loss


for _ in range(2):
    optimizer.step(closure)
print(f"{closure().item():.4f}")
