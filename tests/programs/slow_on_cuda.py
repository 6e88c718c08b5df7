"""Situations for the rules of `optrace findings` about a GPU, in a dry run; see slow_on_cpu.py."""
import torch
from torch import nn
from torch.nn import functional as F

last = torch.channels_last
rows, index, values = torch.ones(16, 4, device="cuda"), torch.tensor([1, 2]), torch.ones(4)
mask, chosen = torch.ones(16, dtype=torch.bool), torch.ones(16, dtype=torch.bool, device="cuda")
model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)).cuda()
labels = torch.zeros(16, dtype=torch.long)


def implicit_copies():
    rows[index]  # implicit-copy
    rows[:, index]  # implicit-copy
    rows[index, index]  # implicit-copy
    rows[0] = values  # implicit-copy
    rows[:, 0] = torch.ones(16)  # implicit-copy
    rows[index] = 0  # implicit-copy
    rows.index_put_((index,), torch.ones(2, 4, device="cuda"))  # implicit-copy
    torch.index_put(rows, (index,), torch.ones(2, 4, device="cuda"))  # implicit-copy
    rows[1:3] = torch.zeros(2, 4)  # implicit-copy
    rows.data[2] = values  # implicit-copy
    rows.to("cpu")  # not implicit-copy
    values.cuda()  # not implicit-copy
    rows.copy_(torch.ones(16, 4))  # not implicit-copy
    torch.tensor([1.0, 2.0], device="cuda")  # not implicit-copy
    torch.as_tensor(values, device="cuda")  # not implicit-copy
    rows[index.cuda()]  # not implicit-copy
    rows + torch.tensor(1.0)  # not implicit-copy
    rows * 2.0  # not implicit-copy
    rows[1] = 3.0  # not implicit-copy
    values.type_as(rows)  # not implicit-copy
    model.load_state_dict(model.state_dict())  # not implicit-copy
    values.pin_memory().to("cuda", non_blocking=True)  # not implicit-copy
    rows[[1, 2]].sum()  # implicit-copy


def compiled_copies():
    @torch.compile(backend="aot_eager")
    def moved(one, other):
        return one.to("cuda") + other.cuda().sum()  # not implicit-copy

    @torch.compile(backend="aot_eager")
    def made(one):
        return one * torch.tensor([1.0, 2.0], device="cuda").sum()  # not implicit-copy

    for _ in range(2):
        moved(torch.ones(8), torch.ones(8))
        made(rows)


def waits():
    for _ in range(3):
        rows.sum().item()  # host-wait
        float(rows.sum())  # host-wait
        int(rows[0, 0])  # host-wait
        if rows.sum() > 0:  # host-wait
            pass
        rows.nonzero()  # host-wait
        rows[chosen]  # host-wait
        rows.cpu()  # host-wait
        rows.tolist()  # host-wait
        torch.cuda.synchronize()  # host-wait
        rows.to("cpu")  # host-wait
        bool(torch.isnan(rows).any())  # host-wait
        torch.masked_select(rows, rows > 0)  # host-wait
        torch.where(rows > 0)  # host-wait
        f"{rows.mean()}"  # host-wait
    for _ in range(3):
        values.sum().item()  # not host-wait
        rows.masked_fill(rows > 0, 0)  # not host-wait
        torch.where(rows > 0, rows, -rows)  # not host-wait
        rows.clamp_(0)  # not host-wait
        rows.shape[0] + len(rows)  # not host-wait
        if values.sum() > 0:  # not host-wait
            rows.detach()  # not host-wait
        with torch.no_grad():
            F.cross_entropy(model(rows), labels.cuda(non_blocking=True))  # not host-wait
        rows.argmax(1)  # not host-wait
        mask.nonzero()  # not host-wait
    rows.sum().item()  # not host-wait
    torch.cuda.synchronize()  # not host-wait
    rows.cpu()  # not host-wait


def layout_copies():
    striped = nn.Conv2d(4, 8, 3).cuda().to(memory_format=last)
    planar = nn.Conv2d(4, 8, 3).cuda()
    norm, batch_norm = nn.GroupNorm(2, 8).cuda(), nn.BatchNorm2d(8).cuda()
    image = torch.ones(2, 4, 16, 16, device="cuda").to(memory_format=last)
    for _ in range(3):
        planar(image)  # layout-copy
        result = striped(image)  # not layout-copy
        norm(result)  # layout-copy
        batch_norm(result)  # not layout-copy
        result.relu()  # not layout-copy
        F.interpolate(result, scale_factor=2)  # not layout-copy
        F.max_pool2d(result, 2)  # not layout-copy
        striped(image.contiguous())  # layout-copy


def optimizers():
    def parameters(count=4):
        made = [nn.Parameter(torch.ones(64, device="cuda")) for _ in range(count)]
        for one in made:
            one.grad = torch.ones_like(one)
        return made

    optim = torch.optim
    looped = [kind(parameters(), foreach=False) for kind in (optim.Adam, optim.SGD, optim.Rprop)]
    others = [optim.Adam(parameters()), optim.AdamW(parameters(), fused=True),
              optim.SGD(parameters()), optim.SGD(parameters(1), foreach=False),
              optim.Adam(parameters(1), foreach=False)]
    adam, sgd, rprop = looped
    for _ in range(3):
        adam.step()  # for-loop-optimizer
        sgd.step()  # for-loop-optimizer
        rprop.step()  # for-loop-optimizer
        for other in others:
            other.step()  # not for-loop-optimizer


def kernels():
    image, weight = torch.ones(2, 6, 12, 12, device="cuda"), torch.ones(6, 6, 3, 3, device="cuda")
    with torch.backends.cudnn.flags(enabled=False):
        F.conv2d(image, weight)  # slow-kernel
        F.conv_transpose2d(image, weight)  # slow-kernel
    F.conv2d(image, weight)  # not slow-kernel
    F.conv2d(image.double(), weight.double())  # not slow-kernel
    F.conv_transpose2d(image, weight)  # not slow-kernel
    F.conv2d(image, weight[:, :, :1, :1])  # not slow-kernel


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


def wait_for_totals():
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


def writes():
    rows, values = torch.zeros(8, 16, device="cuda"), torch.ones(3, 16, device="cuda")
    index = torch.arange(3, device="cuda")
    torch.use_deterministic_algorithms(True)
    rows[index] = values  # slow-kernel
    rows.index_put_((index,), values, accumulate=True)
    torch.use_deterministic_algorithms(False)
    rows[index] = values


def works_on_two_devices(device):
    """Does half of what the rules look for on each device."""
    rows, few = torch.ones(100, 100, device=device), torch.ones(4, device=device)
    rows.sum().item()  # not host-wait
    torch.cuda.synchronize(device)  # not host-wait
    rows.t().contiguous()  # not layout-copy
    for _ in range(600):
        few + 1  # not tiny-ops
    for _ in range(6):
        torch.arange(100, device=device)  # not repeated-op


def waits_for_the_second(device):
    for _ in range(torch.device(device).index + 1):
        torch.ones(2, device=device).sum().item()  # host-wait


implicit_copies()
compiled_copies()
copies()
waits()
wait_for_totals()
layout_copies()
optimizers()
kernels()
writes()
unchanged_inputs(torch.ones(4, 16, device="cuda"))
for device in ("cuda:0", "cuda:1"):
    works_on_two_devices(device)
    waits_for_the_second(device)
