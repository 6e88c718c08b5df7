"""A scripted module and a scripted function with a loop."""
import torch


class Gate(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(4, 4))

    def forward(self, x):
        if bool(x.sum() > 0):
            return torch.relu(x @ self.weight - 1)
        return torch.sigmoid(x)


@torch.jit.script
def repeat(x: torch.Tensor, times: int) -> torch.Tensor:
    for _ in range(times):
        x = torch.sigmoid(x.mm(x)) - 0.1
    return x


gate = torch.jit.script(Gate())
x = torch.ones(4, 4)
for _ in range(3):
    print(f"{gate(x).sum().item():.3f} {repeat(x, 3).sum().item():.3f}")
