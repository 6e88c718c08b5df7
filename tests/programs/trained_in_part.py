"""Situations for the rule `unread-gradient` of `optrace findings`; see slow_on_cpu.py. The rule
judges a whole trace, so each model has one, in the folder that is given."""
import sys

import torch
from torch import nn
from torch.nn import functional as F

import optrace

rows = torch.ones(2, 5)


class Model(nn.Module):
    def __init__(self, body=None):
        super().__init__()
        self.body, self.head = body or nn.Linear(5, 7), nn.Linear(7, 3)

    def forward(self, rows):
        return self.head(self.body(rows))


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


def only_the_head():
    model = Model()
    optimizer = sgd(model.head.parameters())
    for _ in range(3):
        optimizer.zero_grad()
        F.cross_entropy(model(rows), torch.tensor([0, 1])).backward()  # unread-gradient
        optimizer.step()


def of_the_input():
    model, given = Model(), torch.ones(4, 5, requires_grad=True)
    optimizer = sgd(model.parameters())
    for _ in range(3):
        model(given).sum().backward()  # unread-gradient
        optimizer.step()


def a_head_put_in_later():
    model = Model()
    optimizer = torch.optim.Adam(model.parameters())
    model.head = nn.Linear(7, 4)
    for _ in range(3):
        optimizer.zero_grad()
        model(rows).sum().backward()  # unread-gradient
        optimizer.step()


def all_but_biases():
    model = Model()
    optimizer = sgd([one for name, one in model.named_parameters() if "bias" not in name])
    for _ in range(3):
        model(rows).sum().backward()  # unread-gradient
        optimizer.step()


def low_rank_factors():
    model, down, up = Model(), nn.Linear(5, 2, bias=False), nn.Linear(2, 7, bias=False)
    optimizer = torch.optim.AdamW([*down.parameters(), *up.parameters()], fused=True)
    for _ in range(3):
        optimizer.zero_grad()
        model.head(model.body(rows) + up(down(rows))).sum().backward()  # unread-gradient
        optimizer.step()


def below_convolutions():
    model = Model(nn.Sequential(nn.Conv2d(1, 7, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten()))
    optimizer = sgd(model.head.parameters())
    for _ in range(2):
        model(torch.ones(2, 1, 6, 6)).sum().backward()  # unread-gradient
        optimizer.step()


def of_an_embedding():
    model = Model(nn.EmbeddingBag(11, 7))
    optimizer = sgd(model.head.parameters())
    for _ in range(3):
        model(torch.zeros(2, 4, dtype=torch.long)).sum().backward()  # unread-gradient
        optimizer.step()


def of_a_recurrent_encoder():
    encoder, head = nn.GRU(5, 6), nn.Linear(6, 3)
    optimizer = sgd(head.parameters())
    for _ in range(3):
        head(encoder(rows[None])[0]).sum().backward()  # unread-gradient
        optimizer.step()


def of_a_scale_by_hand():
    model, scale = Model(), nn.Parameter(torch.ones(3))
    model.head.bias = None
    optimizer = sgd(model.parameters())
    for _ in range(3):
        (model(rows) * scale).sum().backward()  # unread-gradient
        optimizer.step()


def over_several_batches():
    model = Model()
    optimizer = sgd(model.head.parameters())
    for number in range(4):
        (model(rows).sum() / 2).backward()  # unread-gradient
        if number % 2:
            optimizer.step()
            optimizer.zero_grad()


def of_a_model_that_teaches():
    teacher, student = Model(nn.Linear(5, 4)), nn.Linear(5, 3, bias=False)
    teacher.head = nn.Linear(4, 3)
    optimizer = sgd(student.parameters())
    for _ in range(3):
        F.mse_loss(student(rows), teacher(rows)).backward()  # unread-gradient
        optimizer.step()


def everything():
    model = Model()
    optimizer = sgd(model.parameters())
    for _ in range(3):
        optimizer.zero_grad()
        model(rows).sum().backward()  # not unread-gradient
        optimizer.step()


def frozen():
    model = Model()
    model.body.requires_grad_(False)
    optimizer = sgd(model.head.parameters())
    for _ in range(3):
        model(rows).sum().backward()  # not unread-gradient
        optimizer.step()


def clipped_together():
    model = Model()
    optimizer = sgd(model.head.parameters())
    for _ in range(3):
        model(rows).sum().backward()  # not unread-gradient
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


def body_without_graph():
    model = Model()
    optimizer = sgd(model.head.parameters())
    for _ in range(3):
        with torch.no_grad():
            between = model.body(rows)
        model.head(between).sum().backward()  # not unread-gradient
        optimizer.step()


def cut_off():
    model = Model()
    optimizer = sgd(model.head.parameters())
    for _ in range(3):
        model.head(model.body(rows).detach()).sum().backward()  # not unread-gradient
        optimizer.step()


def logged():
    model, norms = Model(), []
    optimizer = sgd(model.head.parameters())
    for _ in range(3):
        model(rows).sum().backward()  # not unread-gradient
        norms.append([one.grad.norm() for one in model.parameters()])
        optimizer.step()


def updated_by_hand():
    model = Model()
    optimizer = sgd(model.head.parameters())
    for _ in range(3):
        model(rows).sum().backward()  # not unread-gradient
        with torch.no_grad():
            for one in model.body.parameters():
                one -= 0.1 * one.grad
        optimizer.step()


def saliency():
    model, given = Model(), rows.clone().requires_grad_()
    optimizer = sgd(model.parameters())
    for _ in range(3):
        model(given).sum().backward()  # not unread-gradient
        given.grad.abs().amax()
        optimizer.step()


def in_a_hook():
    model = Model()
    for one in model.body.parameters():
        one.register_hook(lambda grad: grad.clamp(-1, 1))
    optimizer = sgd(model.head.parameters())
    for _ in range(3):
        model(rows).sum().backward()  # not unread-gradient
        optimizer.step()


def two_optimizers():
    model = Model()
    optimizers = sgd(model.body.parameters()), torch.optim.Adam(model.head.parameters())
    for _ in range(3):
        model(rows).sum().backward()  # not unread-gradient
        for optimizer in optimizers:
            optimizer.step()


def one_step():
    model = Model()
    optimizer = sgd(model.head.parameters())
    model(rows).sum().backward()  # not unread-gradient
    optimizer.step()


for train in (
    only_the_head, of_the_input, a_head_put_in_later, all_but_biases, low_rank_factors,
    below_convolutions, of_an_embedding, of_a_recurrent_encoder, of_a_scale_by_hand,
    over_several_batches, of_a_model_that_teaches, everything, frozen, clipped_together,
    body_without_graph, cut_off, logged, updated_by_hand, saliency, in_a_hook,
    two_optimizers, one_step):
    with optrace.trace() as trace:
        train()
    trace.save(f"{sys.argv[1]}/{train.__name__}.trace")
