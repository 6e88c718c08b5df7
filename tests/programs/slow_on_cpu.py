"""Situations from users' reports for the rules of `optrace findings`. A comment names the rule that
finds its line, or `not` and the rule to which the line only looks alike; nothing else is found."""
import contextlib
import math

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

last = torch.channels_last


def slow_kernels():
    image, weight = torch.ones(2, 6, 12, 12), torch.ones(6, 6, 3, 3)
    volume, cube = torch.ones(2, 3, 8, 8, 8), torch.ones(3, 3, 3, 3, 3)
    F.conv2d(image.double(), weight.double())  # slow-kernel
    F.conv1d(image[:, :, 0].double(), weight[:, :, 0].double())  # slow-kernel
    F.conv3d(volume.double(), cube.double())  # slow-kernel
    F.conv2d(image.double(), weight.double(), dilation=2)  # slow-kernel
    F.conv_transpose2d(image.double(), weight.double())  # slow-kernel
    F.conv_transpose3d(volume.double(), cube.double())  # slow-kernel
    with torch.backends.mkldnn.flags(enabled=False):
        F.conv2d(image, weight)  # slow-kernel
        F.conv_transpose2d(image, weight)  # slow-kernel
    F.conv_transpose2d(image, weight, stride=1, output_padding=1, dilation=2)  # slow-kernel
    trained = weight.double().requires_grad_()
    result = F.conv2d(image.double(), trained).sum()  # slow-kernel
    result.backward()
    query = torch.ones(1, 2, 8, 16, requires_grad=True)
    mask = torch.zeros(8, 8, requires_grad=True)
    F.scaled_dot_product_attention(query, query, query, attn_mask=mask)  # slow-kernel
    torch.vmap(torch.histc)(torch.ones(3, 4))  # slow-kernel
    F.conv2d(image, weight)  # not slow-kernel
    F.conv1d(image[:, :, 0], weight[:, :, 0])  # not slow-kernel
    F.conv3d(volume, cube)  # not slow-kernel
    F.conv2d(image, weight, dilation=2)  # not slow-kernel
    F.conv_transpose2d(image, weight)  # not slow-kernel
    F.conv2d(image, torch.ones(6, 1, 3, 3), groups=6)  # not slow-kernel
    F.conv2d(image[:1], weight[:, :, :1, :1])  # not slow-kernel
    F.linear(image.double(), torch.ones(4, 12).double())  # not slow-kernel
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    F.conv2d(torch.ones(1, 96, 20, 24), torch.ones(96, 96, 1, 1))  # not slow-kernel
    F.conv_transpose2d(torch.ones(1, 4, 8, 8), torch.ones(4, 4, 1, 1))  # not slow-kernel
    small = torch.ones(4, 4, 1, 1, requires_grad=True)
    F.conv2d(torch.ones(1, 4, 8, 8), small).sum().backward()  # not slow-kernel
    torch.set_num_threads(threads)
    plain = query.detach()
    F.scaled_dot_product_attention(plain, plain, plain)  # not slow-kernel
    torch.vmap(torch.sin)(torch.ones(3, 4))  # not slow-kernel


def layout_copies():
    planar, point = nn.Conv2d(4, 4, 3), nn.Conv2d(4, 8, 1)
    striped = nn.Conv2d(4, 4, 3).to(memory_format=last)
    image = torch.ones(2, 4, 16, 16).to(memory_format=last)
    square, stack = torch.ones(64, 64), torch.ones(4, 32, 64)
    for _ in range(3):
        planar(image)  # layout-copy
        found = striped(image)
        found.contiguous()  # layout-copy
        found.flatten(1)  # layout-copy
        found.reshape(2, -1)  # layout-copy
        image.permute(0, 3, 1, 2).contiguous().sum()  # not layout-copy
        square.t().contiguous()  # layout-copy
        square.t().reshape(-1)  # layout-copy
        square.t().flatten()  # layout-copy
        stack.transpose(1, 2).contiguous()  # layout-copy
        stack.permute(2, 1, 0).reshape(64, -1)  # layout-copy
        stack.permute(2, 0, 1).reshape(64, -1)  # not layout-copy
        stack.swapaxes(0, 1).contiguous()  # layout-copy
        torch.ones(2, 4, 16, 16).contiguous(memory_format=last)  # layout-copy
    for _ in range(3):
        point(image).permute(0, 2, 3, 1).contiguous()  # not layout-copy
        striped(image)  # not layout-copy
        image.contiguous(memory_format=last)  # not layout-copy
        image.clone()  # not layout-copy
        square[:8, :8].t().contiguous()  # not layout-copy
        square.t().t().contiguous()  # not layout-copy
        square.t().sum(0)  # not layout-copy
        square.contiguous()  # not layout-copy
        torch.ones(2, 4, 16, 16).to(memory_format=last)  # not layout-copy
        square.t() @ square  # not layout-copy
    nn.Conv2d(4, 4, 3).to(memory_format=last)  # not layout-copy
    torch.ones(128, 64).t().contiguous()  # not layout-copy


def tiny():
    values, table = torch.ones(8), torch.ones(64, 64)
    parameters = [nn.Parameter(torch.ones(4)) for _ in range(100)]
    optimizer = torch.optim.SGD(parameters, lr=0.1, foreach=False)
    for parameter in parameters:
        parameter.grad = torch.ones(4)
    little(torch.ones(32, 32))
    loop_of_lines(values)
    for _ in range(12):
        optimizer.step()  # for-loop-optimizer
    for _ in range(300):
        values * 2  # not tiny-ops
    for _ in range(1100):
        table.add_(1)  # not tiny-ops
    table.fill_(0).unbind()  # not tiny-ops
    nn.utils.clip_grad_norm_(parameters, 1.0)  # not tiny-ops
    torch.stack([values] * 1100)  # not tiny-ops


def little(values):
    total = torch.zeros(())
    for index in range(600):
        total = total + values[index % 4, 0]  # tiny-ops
    for index in range(100):
        total = total + values[index % 4, 0]
    for _ in range(600):
        values.sum().add(1)  # repeated-op
    return total


def loop_of_lines(state):
    for step in range(150):
        state = state * 0.5
        state = state + step
        state = state - 1
        state = state.neg()
        state = state.abs().sqrt()
        state = torch.maximum(state, state.exp()).cos()  # tiny-ops
    return state


def repeated():
    mask, weight, scale = torch.ones(8, 8), torch.ones(8, 8), torch.ones(8)
    for size in range(12):
        torch.arange(4)  # repeated-op
        torch.eye(3)  # repeated-op
        torch.linspace(0, 1, 5)  # repeated-op
        torch.triu_indices(4, 4)  # repeated-op
        torch.hann_window(16)  # repeated-op
        mask.to(torch.bool)  # repeated-op
        weight.float().double()  # repeated-op
        torch.softmax(weight, -1)  # repeated-op
        weight.t().matmul(mask)  # repeated-op
        torch.triu(mask)  # repeated-op
        torch.cat([mask, weight])  # repeated-op
        torch.arange(size, size + 4)  # not repeated-op
        torch.rand(4)  # not repeated-op
        scale.add_(1)
        scale.exp()  # not repeated-op
        weight.clone()  # not repeated-op
        torch.zeros_like(weight)  # not repeated-op
        weight.add(size)  # not repeated-op
        F.dropout(weight)  # not repeated-op
        weight[size % 4:].sin()  # not repeated-op
        weight.view(-1)  # not repeated-op
        torch.zeros(4)  # not repeated-op
        torch.full((2,), 3.0)  # not repeated-op
    for _ in range(9):
        torch.cos(weight)  # not repeated-op


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


def casts():
    model, converted = nn.Linear(16, 16), nn.Linear(16, 16).bfloat16()
    conv = nn.Conv2d(4, 4, 3).to(memory_format=last)
    rows, image = torch.ones(2, 16), torch.ones(2, 4, 8, 8).to(memory_format=last)

    def cast():
        return torch.autocast("cpu", dtype=torch.bfloat16)

    for _ in range(3):
        with cast():
            model(rows).sum().backward()  # repeated-cast
        with cast(), torch.no_grad():
            conv(image)  # repeated-cast
        with cast():
            F.linear(rows, model.weight).sum().backward()  # repeated-cast
        with cast():
            converted(rows).sum().backward()  # not repeated-cast
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=False):
            model(rows).sum().backward()  # not repeated-cast
        with cast():
            torch.softmax(rows, -1)  # not repeated-cast
        model(rows).sum().backward()  # not repeated-cast
        rows.bfloat16()  # not repeated-cast
    with cast():
        for _ in range(3):
            model(rows).sum().backward()  # not repeated-cast
    with cast():
        conv(image).sum().backward()  # not repeated-cast


@torch.library.custom_op("situations::scaled", mutates_args=())
def scaled(rows: torch.Tensor, factor: float) -> torch.Tensor:
    return rows * factor


@scaled.register_fake
def _(rows, factor):
    return torch.empty_like(rows)


def keep_factor(ctx, inputs, output):
    ctx.factor = inputs[1]


scaled.register_autograd(lambda ctx, grad: (grad * ctx.factor, None), setup_context=keep_factor)


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows):
        ctx.save_for_backward(rows)
        return rows ** 3

    @staticmethod
    def backward(ctx, grad):
        return 3 * ctx.saved_tensors[0] ** 2 * grad


def graphs():
    model = nn.Sequential(*[nn.Linear(8, 8) for _ in range(6)])
    rows, weight = torch.ones(2, 8), torch.ones(2, 8, requires_grad=True)
    recurrent = nn.LSTM(8, 8)
    for _ in range(3):
        model(rows)  # unused-graph
        model(rows).argmax(1)  # unused-graph
        model(rows).detach()  # unused-graph
        model.eval()(rows)  # unused-graph
        [model(one) for one in rows.split(1)]  # unused-graph
        model(rows).sum().item()  # unused-graph
        model(rows).tolist()  # unused-graph
        F.relu(model(rows)).numel()  # unused-graph
    for _ in range(12):
        scaled(weight, 0.5).sum().backward()  # not unused-graph
        Cube.apply(weight).sum().backward()  # not unused-graph
        torch.autograd.grad(weight.exp().sum(), weight)  # not unused-graph
        model(rows).sum().backward()  # not unused-graph
        checkpoint(model, rows, use_reentrant=False).sum().backward()  # not unused-graph
    for _ in range(3):
        with torch.no_grad():
            model(rows)  # not unused-graph
        with torch.inference_mode():
            model(rows)  # not unused-graph
        rows.exp().sin().cos()  # not unused-graph
        weight.exp()  # not unused-graph
        torch.func.grad(lambda one: model(one).sum())(rows)  # not unused-graph
    model(rows)  # not unused-graph
    recurrent(rows)  # not unused-graph


def optimizers():
    def stepped(optimizer, count=3):
        for group in optimizer.param_groups:
            for one in group["params"]:
                one.grad = torch.ones_like(one)
        for _ in range(count):
            optimizer.step()

    def parameters(count=4):
        return [nn.Parameter(torch.ones(64)) for _ in range(count)]

    optim = torch.optim
    adam, adamw, sgd, adagrad = (kind(parameters()) for kind in (
        optim.Adam, optim.AdamW, optim.SGD, optim.Adagrad))
    moved = optim.SGD(parameters(), momentum=0.9, nesterov=True)
    off = optim.Adam(parameters(), fused=False, foreach=False)
    for one in (adam, adamw, sgd, adagrad, moved, off):
        for group in one.param_groups:
            for parameter in group["params"]:
                parameter.grad = torch.ones_like(parameter)
    for _ in range(3):
        adam.step()  # for-loop-optimizer
        adamw.step()  # for-loop-optimizer
        sgd.step()  # for-loop-optimizer
        adagrad.step()  # for-loop-optimizer
        moved.step()  # for-loop-optimizer
        off.step()  # for-loop-optimizer
    stepped(optim.Adam(parameters(), fused=True))  # not for-loop-optimizer
    stepped(optim.AdamW(parameters(), fused=True))  # not for-loop-optimizer
    stepped(optim.SGD(parameters(), fused=True))  # not for-loop-optimizer
    stepped(optim.Adam(parameters(), foreach=True))  # not for-loop-optimizer
    stepped(optim.Rprop(parameters()))  # not for-loop-optimizer
    stepped(optim.RMSprop(parameters()))  # not for-loop-optimizer
    stepped(optim.Adadelta(parameters()))  # not for-loop-optimizer
    stepped(optim.NAdam(parameters()))  # not for-loop-optimizer
    stepped(optim.SGD(parameters(1)))  # not for-loop-optimizer
    stepped(optim.Adam(parameters(1)))  # not for-loop-optimizer


def compiled():
    compile_eagerly = torch.compile(backend="eager")

    @compile_eagerly
    def broken(rows):
        rows = rows + 1
        torch._dynamo.graph_break()  # graph-break
        return rows * 2

    @compile_eagerly
    def printing(rows):
        rows = rows + 1
        print("", end="")  # graph-break
        return rows * 2

    @compile_eagerly
    def reading(rows):
        if rows.sum() > 0:  # graph-break
            return rows * 2
        return rows + 1

    @compile_eagerly
    def whole(rows):
        return torch.where(rows.sum() > 0, rows * 2, rows + 1)

    @torch.compile(backend="eager", dynamic=False)
    def shaped(rows):
        return rows + 1

    @torch.compile(backend="eager", dynamic=True)
    def dynamic(rows):
        return rows + 1

    @torch.compile(backend="eager")
    def counted(rows, number):
        return rows + number

    rows = torch.ones(2)
    for _ in range(3):
        broken(rows)
        printing(rows)
        reading(rows)
        whole(rows)  # not graph-break
        with contextlib.nullcontext():
            whole(rows)  # not graph-break
    for size in range(2, 6):
        shaped(torch.ones(size))  # recompile
        dynamic(torch.ones(size))  # not recompile
        shaped(torch.ones(2))  # not recompile
        whole(rows)  # not recompile
    for text in "abcd":
        counted(rows, 0.5 if text == "a" else 1)  # not recompile


def tiny_loops():
    values, pair = torch.ones(8), torch.ones(2, 2)
    for loop in (sum_of_numbers, cell_by_hand, dot_products, powers, history_of_losses,
                 random_walk, scalars_in_a_list, bit_by_bit):
        loop(values)
    for other in (few_numbers, large_rows, one_call, numbers_of_python):
        other(values)
    for _ in range(9):
        pair @ pair  # not tiny-ops


def sum_of_numbers(values):
    for number in range(1100):
        values = values + number  # tiny-ops


def cell_by_hand(state):
    weight = torch.ones(8, 8)
    for _ in range(400):
        state = torch.tanh(weight @ state + 1)  # tiny-ops


def dot_products(values):
    for _ in range(600):
        values.add_(1).dot(values)  # tiny-ops


def powers(values):
    for step in range(1100):
        values.pow_(1 + step % 2)  # tiny-ops


def history_of_losses(values):
    loss = values.sum()
    for step in range(1100):
        loss = loss * 0.9 + step  # tiny-ops


def random_walk(place):
    for _ in range(600):
        place.add_(torch.randn(8)).clamp_(-1, 1)  # tiny-ops


def scalars_in_a_list(values):
    numbers = [torch.tensor(1.0) for _ in range(4)]
    for step in range(1100):
        numbers[step % 4].mul_(0.5)  # tiny-ops


def bit_by_bit(values):
    bits = values.long()
    for _ in range(600):
        bits = (bits << 1) & 255  # tiny-ops


def few_numbers(values):
    for number in range(900):
        values.add(number)  # not tiny-ops


def large_rows(values):
    rows = torch.ones(300)
    for number in range(1100):
        rows.add_(number)  # not tiny-ops


def one_call(values):
    torch.arange(1100.0).cumsum(0)  # not tiny-ops


def numbers_of_python(values):
    total = 0.0
    for number in range(1100):
        total += math.sqrt(number)  # not tiny-ops


def more_casts():
    rows, line = torch.ones(2, 16), torch.ones(2, 4, 9)
    two = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 4))
    temporal, attention = nn.Conv1d(4, 4, 3), nn.MultiheadAttention(16, 2)
    weight, bias = nn.Parameter(torch.ones(8, 16)), nn.Parameter(torch.ones(8))
    head = nn.Linear(16, 3)

    def cast(**options):
        return torch.autocast("cpu", dtype=torch.bfloat16, **options)

    for _ in range(3):
        with cast():
            two(rows).sum().backward()  # repeated-cast
        with cast():
            F.linear(rows, head.weight).sum().backward()  # repeated-cast
        with cast():
            temporal(line).sum().backward()  # repeated-cast
        with cast():
            F.linear(rows, weight, bias).sum().backward()  # repeated-cast
        with cast():
            attention(rows, rows, rows)[0].sum().backward()  # repeated-cast
        with cast(), torch.no_grad():
            head(rows)  # repeated-cast
        with cast(cache_enabled=False):
            head(rows).sum().backward()  # repeated-cast
        with cast(enabled=False):
            two(rows)  # not repeated-cast
    with cast():
        for _ in range(3):
            two(rows).sum().backward()  # not repeated-cast
    with torch.no_grad():
        converted = head.bfloat16()
    with cast():
        for _ in range(3):
            converted(rows.bfloat16()).sum().backward()  # not repeated-cast


def more_graphs():
    model, rows = nn.Sequential(*[nn.Linear(8, 8) for _ in range(6)]), torch.ones(2, 8)
    losses = []
    for _ in range(3):
        losses.append(model(rows).mean().detach())  # unused-graph
        F.mse_loss(model(rows), rows)  # unused-graph
    with torch.no_grad():
        for _ in range(3):
            F.mse_loss(model(rows), rows)  # not unused-graph
    torch.func.hessian(lambda row: (row.sin() * row).sum())(rows[0])  # not implicit-copy


slow_kernels()
layout_copies()
tiny()
repeated()
unchanged_inputs(torch.ones(8, 8), torch.ones(8, 8))
changed_inputs(torch.ones(8, 8), torch.ones(8, 8))
casts()
graphs()
optimizers()
compiled()
tiny_loops()
more_casts()
more_graphs()
