"""Makes one call for each way to influence the dispatcher's choice.

Writes the truth to the file named by the argument: for each case, the keys that torch itself has
for the arguments and the thread at that moment, and the kernels that it has registered for them.
"""
import json
import sys

import torch


def names(key_set):
    """Returns the keys of a DispatchKeySet, sorted by name, not by priority."""
    text = str(key_set)
    return sorted(text[text.index("(") + 1:text.rindex(")")].split(", ")) if "(" in text else []


def keys_in_order(key_set):
    """Returns the keys that the dispatcher tries one after the other."""
    found = []
    while True:
        key = key_set.highestPriorityTypeId()
        name = str(key).rpartition(".")[2]
        if name == "Undefined":
            return found
        found.append(name)
        key_set = key_set.remove(key)


def truth(op, *tensors):
    """Returns the choice that the dispatcher is about to make for this op and these arguments."""
    included = torch._C._dispatch_tls_local_include_set()
    excluded = torch._C._dispatch_tls_local_exclude_set()
    key_set = included
    for tensor in tensors:
        key_set = key_set | torch._C._dispatch_keys(tensor)
    key_set = key_set - excluded
    table = dict(line.split(": ", 1)
                 for line in torch._C._dispatch_dump_table(op).splitlines() if ": " in line)
    left, skipped = key_set, []
    while True:
        key = left.highestPriorityTypeId()
        name = str(key).rpartition(".")[2]
        if name == "Undefined" or not table.get(name, "").startswith("fallthrough"):
            break
        skipped.append(name)
        left = left.remove(key)
    # The key to which a fallback hands the op on.
    left = left.remove(key)
    following = [name for name in keys_in_order(left)
                 if not table.get(name, "").startswith("fallthrough")]
    return {"op": op, "dispatch_key": name, "fallthrough": skipped, "kernel": table.get(name),
            "following": following[0] if following else None,
            "key_set": names(key_set), "arguments": [names(torch._C._dispatch_keys(tensor))
                                                     for tensor in tensors],
            "included": names(included)}


class Wrapped(torch.Tensor):
    """A subclass that receives its ops through __torch_dispatch__."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, function, types, arguments=(), keywords=None):
        plain = [a.inner if isinstance(a, Wrapped) else a for a in arguments]
        return Wrapped(function(*plain, **(keywords or {})))


def case_plain(x, y):
    told = truth("aten::add.Tensor", x, y)
    torch.add(x, y)
    return told


def case_requires_grad(x, y):
    weight = x.clone().requires_grad_()
    told = truth("aten::mul.Tensor", weight, y)
    torch.mul(weight, y)
    return told


def case_autocast(x, y):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        told = truth("aten::mm", x, y)
        torch.mm(x, y)
    return told


def case_inference_mode(x, y):
    with torch.inference_mode():
        made = x * 2
        told = truth("aten::sub.Tensor", made, made)
        torch.sub(made, made)
    return told


def case_vmap(x, y):
    told = []

    def inside(row):
        told.append(truth("aten::mul.Tensor", row, row))
        return torch.mul(row, row)

    torch.vmap(inside)(x)
    return told[0]


def case_lazy_conjugate(x, y):
    number = torch.complex(x, y).conj()
    told = truth("aten::add.Tensor", number, number)
    torch.add(number, number)
    return told


def case_sparse(x, y):
    sparse = torch.eye(4).to_sparse()
    told = truth("aten::add.Tensor", sparse, sparse)
    torch.add(sparse, sparse)
    return told


def case_subclass(x, y):
    wrapped = Wrapped(x)
    told = truth("aten::add.Tensor", wrapped, wrapped)
    torch.add(wrapped, wrapped)
    return told


def case_functionalized(x, y):
    told = []

    def inside(tensor):
        told.append(truth("aten::add_.Tensor", tensor, tensor))
        tensor.add_(tensor)
        return tensor

    torch.func.functionalize(inside)(x.clone())
    return told[0]


def case_mode(x, y):
    from torch.utils._python_dispatch import TorchDispatchMode

    class Passing(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
            return function(*arguments, **(keywords or {}))

    with Passing():
        told = truth("aten::add.Tensor", x, y)
        torch.add(x, y)
    return told


def case_boxed(x, y):
    """An op registered from Python."""
    told = truth("optracetest::twice", x)
    torch.ops.optracetest.twice(x)
    return told


def main(path):
    library = torch.library.Library("optracetest", "DEF")
    library.define("twice(Tensor self) -> Tensor")
    library.impl("twice", lambda tensor: tensor * 2, "CPU")
    torch.manual_seed(0)
    x, y = torch.randn(4, 4), torch.randn(4, 4)
    cases = {name: function(x, y) for name, function in sorted(globals().items())
             if name.startswith("case_")}
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"cases": cases, "sum": float((x + y).sum())}, file)


if __name__ == "__main__":
    main(sys.argv[1])
