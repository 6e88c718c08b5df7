"""A model exported by torch.export, run as a program and decomposed."""
import torch


class Gated(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 8)

    def forward(self, x):
        value, gate = self.linear(x).chunk(2, dim=-1)
        return value * torch.sigmoid(gate)


torch.manual_seed(0)
x = torch.randn(3, 4)
exported = torch.export.export(Gated(), (x,))
print(len(exported.graph.nodes), exported.module()(x).shape)
