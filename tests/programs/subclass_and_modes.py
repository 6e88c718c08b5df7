"""A tensor subclass, a torch function mode and a dispatch mode."""
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

calls = []


class Functions(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        calls.append(function.__name__)
        return function(*args, **(kwargs or {}))


class Ops(TorchDispatchMode):
    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        calls.append(str(op))
        return op(*args, **(kwargs or {}))


class Named(torch.Tensor):
    pass


x = torch.ones(2).as_subclass(Named)
with Functions():
    y = torch.sin(torch.ones(2))
with Ops():
    z = torch.cos(torch.ones(2)).sum()
print(type(x + 1).__name__, calls, f"{y.sum().item():.3f} {z.item():.3f}")
