"""Programs for the rule `unread-gradient` of `optrace findings`, one for each part of a model that
is trained; see slow_on_cpu.py."""
import sys

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone, self.head = nn.Linear(5, 7), nn.Linear(7, 3)

    def forward(self, rows):
        return self.head(self.backbone(rows))


def train(model, parameters, rows, norm=False):
    optimizer = torch.optim.SGD(parameters, lr=0.1, momentum=0.9)
    for _ in range(3):
        optimizer.zero_grad()
        loss = model(rows).sum()
        loss.backward()  # unread-gradient
        if norm:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


model = Model()
rows = torch.ones(2, 5)
if sys.argv[1] == "all":
    train(model, model.parameters(), rows)
elif sys.argv[1] == "head":
    train(model, model.head.parameters(), rows)
elif sys.argv[1] == "frozen":
    model.backbone.requires_grad_(False)
    train(model, model.head.parameters(), rows)
elif sys.argv[1] == "clipped":
    train(model, model.head.parameters(), rows, norm=True)
elif sys.argv[1] == "input":
    train(model, model.parameters(), torch.ones(2, 5, requires_grad=True))
