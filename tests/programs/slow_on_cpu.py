"""Programs for the rules of `optrace findings`. A comment names what is found at its line; nothing
is found at any other line."""
import torch
from torch import nn
from torch.nn import functional as F


def convolutions():
    image, weight = torch.ones(2, 6, 6, 6), torch.ones(2, 6, 3, 3)
    F.conv2d(image.double(), weight.double())  # slow-kernel
    F.conv2d(image, weight)


def attention():
    query = torch.ones(1, 2, 8, 16, requires_grad=True)
    mask = torch.zeros(8, 8, requires_grad=True)
    F.scaled_dot_product_attention(query, query, query, attn_mask=mask)  # slow-kernel
    F.scaled_dot_product_attention(query.detach(), query.detach(), query.detach())


def batches():
    rows = torch.ones(3, 4)
    torch.vmap(torch.histc)(rows)  # slow-kernel
    torch.vmap(torch.sin)(rows)


def layouts():
    planar = nn.Conv2d(4, 4, 3)
    striped = nn.Conv2d(4, 4, 3).to(memory_format=torch.channels_last)
    image = torch.ones(2, 4, 8, 8).to(memory_format=torch.channels_last)
    for _ in range(3):
        planar(image)  # layout-copy
        found = striped(image)
        found.contiguous()  # layout-copy
        found.contiguous(memory_format=torch.channels_last)
        found.clone()
    square = torch.ones(64, 64)
    for _ in range(3):
        square.t().contiguous()  # layout-copy
        square[:8, :8].t().contiguous()
        square.t().t().contiguous()


def little(values):
    total = torch.zeros(())
    for index in range(600):
        total = total + values[index % 4, 0]  # tiny-ops
    for index in range(100):
        total = total + values[index % 4, 0]
    for _ in range(600):
        values.sum().add(1)  # repeated-op
    return total


def optimizers():
    model = nn.Sequential(nn.Linear(32, 32), nn.Linear(32, 32))
    looped = torch.optim.AdamW(model.parameters())
    fused = torch.optim.AdamW(model.parameters(), fused=True)
    without_fused = torch.optim.Rprop(model.parameters())
    alone = torch.optim.SGD([model[0].weight], lr=0.1)
    for _ in range(3):
        model(torch.ones(2, 32)).sum().backward()
        looped.step()  # for-loop-optimizer
        fused.step()
        without_fused.step()
        alone.step()


def casts():
    model, converted = nn.Linear(16, 16), nn.Linear(16, 16).bfloat16()
    rows = torch.ones(2, 16)
    for _ in range(3):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            model(rows).sum().backward()  # repeated-cast
            converted(rows).sum().backward()


def constants(rows):
    for size in range(12):
        rows + torch.arange(4)  # repeated-op
        rows + torch.arange(size, size + 4)


def unchanged_inputs(mask, weight):
    for _ in range(12):
        mask.to(torch.bool)  # repeated-op
        torch.softmax(weight, -1)  # repeated-op
        weight[1:].t().sum(0)  # repeated-op
        with torch.no_grad():
            torch.cat([mask, weight]).relu()  # repeated-op


def changed_inputs(mask, weight):
    """What changes from call to call, by an op or without one, and what is not to be kept."""
    shared, numbers = torch.ones(8), torch.ones(8).numpy()
    given, statistics = shared.numpy(), nn.BatchNorm1d(8, affine=False)
    many, parameter = [torch.ones(8) for _ in range(100)], nn.Parameter(torch.ones(8))
    for step in range(12):
        torch.ones(8).exp()
        mask.add_(1)
        mask.exp()
        mask.data.mul_(2)
        mask.sin()
        mask.data = torch.ones(8, 8)
        mask.cos()
        torch._foreach_add_(many, 1)
        many[90].exp()
        numbers[:] = step
        torch.from_numpy(numbers).exp()
        given[:] = step
        shared.exp()
        statistics(weight)
        statistics.running_mean.exp()
        parameter.exp().sum().backward()
        F.dropout(weight)
        weight.clone()
        torch.zeros_like(weight)
        weight[step % 4:].exp()
        weight.add(step)


def unused_graphs():
    model = nn.Sequential(*[nn.Linear(8, 8) for _ in range(6)])
    rows = torch.ones(2, 8)
    for _ in range(2):
        model(rows).sum().backward()
        model(rows)  # unused-graph
        model(rows.detach()).detach().sum()  # unused-graph
        with torch.no_grad():
            model(rows)


def compiled():
    @torch.compile(backend="eager")
    def broken(rows):
        rows = rows + 1
        torch._dynamo.graph_break()  # graph-break
        return rows * 2

    @torch.compile(backend="eager", dynamic=False)
    def shaped(rows):
        return rows + 1

    for size in range(2, 6):
        shaped(torch.ones(size))  # recompile
        shaped(torch.ones(2))
    for _ in range(3):
        broken(torch.ones(2))


convolutions()
attention()
batches()
layouts()
little(torch.ones(32, 32))
casts()
constants(torch.ones(4))
unchanged_inputs(torch.ones(8, 8), torch.ones(8, 8))
changed_inputs(torch.ones(8, 8), torch.ones(8, 8))
unused_graphs()
optimizers()
compiled()
