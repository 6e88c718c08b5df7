"""Situations for the rules of `optrace findings` about torch.compile; see slow_on_cpu.py."""
import math
import time

import torch
from torch.nn import functional as F


@torch.compiler.disable
def outside(rows):
    return rows * 2


def more_breaks():
    eagerly = torch.compile(backend="eager")

    @eagerly
    def disabled(rows):
        return outside(rows + 1) + 1  # graph-break

    @eagerly
    def by_item(rows):
        number = rows.sum().item()  # graph-break
        return rows * number

    @eagerly
    def by_nonzero(rows):
        found = torch.nonzero(rows)  # graph-break
        return found + 1

    @eagerly
    def by_time(rows):
        time.sleep(0)  # graph-break
        return rows + 1

    @eagerly  # graph-break
    def by_while(rows):
        rows = rows + 1
        while rows.sum() < 0:
            rows = rows + 1
        return rows

    @eagerly
    def by_file(rows):
        rows = rows + 1
        open("/dev/null").close()  # graph-break
        return rows * 2

    @eagerly
    def by_format(rows):
        rows = rows + 1
        repr(rows)  # graph-break
        return rows * 2

    @eagerly
    def looped(rows):
        for _ in range(3):
            rows = rows + 1
        return rows  # not graph-break

    @eagerly
    def shapes(rows):
        if rows.shape[0] > 1:  # not graph-break
            return rows + 1
        return rows

    @eagerly
    def without_grad(rows):
        with torch.no_grad():  # not graph-break
            return rows + 1

    @eagerly
    def called(rows):
        return F.relu(shapes(rows))  # not graph-break

    @eagerly
    def gathered(rows):
        return [one * 2 for one in (rows, rows)][0]  # not graph-break

    @eagerly
    def selected(rows):
        return torch.where(rows > 0, rows, -rows)  # not graph-break

    @eagerly
    def changed(rows):
        rows.mul_(1)  # not graph-break
        return rows + 1

    @eagerly
    def of_numbers(rows):
        return rows * math.sqrt(2)  # not graph-break

    rows = torch.ones(3)
    for one in (disabled, by_item, by_nonzero, by_time, by_while, by_file, by_format, looped,
                shapes, without_grad, called, gathered, selected, changed, of_numbers):
        for _ in range(2):
            one(rows)


def more_recompilations():
    eagerly = torch.compile(backend="eager")
    fixed = torch.compile(backend="eager", dynamic=False)

    @eagerly
    def named(rows, name):
        return rows + len(name)

    @eagerly
    def typed(rows):
        return rows + 1

    @eagerly
    def ranked(rows):
        return rows + 1

    @eagerly
    def listed(parts):
        return sum(parts)

    @eagerly
    def keyed(parts):
        return sum(parts.values())

    @fixed
    def raised(rows, low):
        return rows.clamp(low)

    @fixed
    def numbered(rows, number):
        return rows + number

    @fixed
    def sized(rows):
        return rows * 2

    @eagerly
    def padded(rows, widths):
        return F.pad(rows, (0, sum(widths)))

    @eagerly
    def twice(rows):
        return rows + 1

    @eagerly
    def with_tensor(rows, number):
        return rows + number

    @eagerly
    def growing(rows):
        return rows * 3

    @eagerly
    def switched(rows, flag):
        return rows + 1 if flag else rows

    rows = torch.ones(4)
    for step in range(4):
        named(rows, "abcd"[step])  # recompile
        typed(rows.to((torch.float32, torch.float64, torch.int32, torch.int64)[step]))  # recompile
        ranked(torch.ones((2,) * (step + 1)))  # recompile
        listed([rows] * (step + 1))  # recompile
        keyed(dict.fromkeys("abcd"[:step + 1], rows))  # recompile
        numbered(rows, step + 2)  # recompile
        sized(torch.ones(step + 2, 3))  # recompile
        raised(rows, step + 2)  # recompile
        padded(rows, (1,) * (step + 1))  # recompile
        twice(torch.ones(3 + step % 2))  # not recompile
        with_tensor(rows, torch.tensor(step))  # not recompile
        growing(torch.ones(step + 2))  # not recompile
        switched(rows, step % 2 == 0)  # not recompile
        twice(torch.zeros(3))  # not recompile
        ranked(torch.zeros(2))  # not recompile


more_breaks()
more_recompilations()
