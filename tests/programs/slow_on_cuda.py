"""Programs for the rules of `optrace findings` about a GPU; see slow_on_cpu.py."""
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(16, 16))
        self.table = torch.ones(16)

    def forward(self, rows):
        rows = rows + self.table.to(rows.device)
        return rows[torch.tensor([1, 2, 3])] @ self.weight  # implicit-copy


def copies():
    model = Model().cuda()
    rows = torch.ones(4, 16, device="cuda")
    for _ in range(3):
        model(rows).sum().backward()
        rows[[0, 1, 2, 3]]  # implicit-copy
        rows[torch.tensor([1, 2, 3], device="cuda")]


def waits():
    values = torch.ones(4, 16, device="cuda")
    total = 0
    for _ in range(12):
        values.add_(1)
        total += values.sum().item()  # host-wait
        values.nonzero()  # host-wait
        torch.ones(2).sum().item()
    return total + values.sum().item()


def unchanged_inputs(mask):
    for _ in range(12):
        torch.softmax(mask, -1)  # repeated-op
        torch.ones(4, 16, device="cuda").exp()


def fused():
    model = nn.Linear(16, 16).cuda()
    looped = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)
    foreach = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        model(torch.ones(2, 16, device="cuda")).sum().backward()
        looped.step()  # for-loop-optimizer
        foreach.step()


def writes():
    rows, values = torch.zeros(8, 16, device="cuda"), torch.ones(3, 16, device="cuda")
    index = torch.arange(3, device="cuda")
    torch.use_deterministic_algorithms(True)
    rows[index] = values  # slow-kernel
    rows.index_put_((index,), values, accumulate=True)
    torch.use_deterministic_algorithms(False)
    rows[index] = values


copies()
waits()
writes()
unchanged_inputs(torch.ones(4, 16, device="cuda"))
fused()
