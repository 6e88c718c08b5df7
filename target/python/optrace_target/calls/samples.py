"""Sample calls from the table in fixtures/samples, and from an op's schema.

An entry of the table, keyed by the op's name without namespace and overload:

    "conv2d": {
      "tensors": {"x": {"shape": [4, 3, 56, 56]}, "weight": {"shape": [8, 3, 3, 3]}},
      "module": {"name": "Conv2d", "constructor": [3, 8, 3], "call": ["$x"]},
      "call": ["$x", "$weight"],
      "torch": [...], "functional": [...], "method": [...], "aten": [...]
    }

`call` is used for every spelling that has no list of its own. A call is a list of positional
arguments, or {"arguments": [...], "keywords": {...}}. A value is a JSON number, boolean, null,
string or list; "$x" is the tensor x; {"dtype": "int64"} a dtype; {"device": true} the traced
device. A tensor has a shape, a dtype (default float32) and values: "normal" (the default),
"uniform" (in [0, 1)), "ones", "zeros", "symmetric_positive_definite", {"integers_below": n},
{"counting_to": n} (0, 1, ... n-1, 0, ...) or {"all": value}. {"requires_grad": false} excludes a
float tensor from --backward.
"""
import copy
import json
import os

from ..problem import FAILED, Problem

_BROKEN = "Reinstall optrace: its table of sample calls is damaged."
_LONGEST_VALUE = 80  # In characters, for an argument in the text of a call.
_SIDE = 4  # Tensors made from a schema alone are square matrices with this side.


def load(folder):
    """Returns all entries of the table's files, by name."""
    entries = {}
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".json"):
            continue
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            try:
                part = json.load(file)
            except ValueError as error:
                raise Problem(FAILED, "%s is not JSON: %s" % (name, error), _BROKEN) from error
        for key, entry in part.items():
            if key in entries:
                raise Problem(FAILED, "%s has a second entry for %s" % (name, key), _BROKEN)
            entries[key] = entry
    return entries


def call_of(entry, family):
    """Returns the (positional, keywords) of an entry for a family of spellings, or None."""
    call = entry.get(family, entry.get("call"))
    if call is None:
        return None
    return normalized(call)


def normalized(call):
    if isinstance(call, dict):
        return call.get("arguments", []), call.get("keywords", {})
    return call, {}


def with_sizes(tensors, sizes):
    """Returns specifications of tensors with other sizes, and other limits of integers, by the old
    ones."""
    changed = {}
    for name, specification in tensors.items():
        values = specification.get("values")
        if isinstance(values, dict) and "integers_below" in values:
            limit = values["integers_below"]
            values = {**values, "integers_below": sizes.get(limit, limit)}
        changed[name] = {**specification,
                         "shape": [sizes.get(size, size) for size in specification["shape"]]}
        if values is not None:
            changed[name]["values"] = values
    return changed


class Named(str):
    """Placeholder for a tensor of a sample in a call's arguments."""


class Sample:
    """Named tensors. Every call gets copies of them."""

    def __init__(self, torch, device, masters, differentiable, specifications=None):
        """`differentiable` contains the names of the tensors that shall require a gradient.

        `specifications` are the table entries that the tensors were made from, if any.
        """
        self._torch = torch
        self._specifications = specifications or {}
        self._device = device
        self._masters = masters
        self._differentiable = set(differentiable)

    @classmethod
    def from_table(cls, torch, device, specifications):
        masters = {name: _made(torch, device, specification)
                   for name, specification in specifications.items()}
        return cls(torch, device, masters, {
            name for name, specification in specifications.items()
            if specification.get("requires_grad", True)
            and masters[name].dtype.is_floating_point}, specifications)

    @property
    def names(self):
        return list(self._masters)

    def reshape(self, name, shape):
        """Gives a tensor another shape, and new values with the type and range of the old ones."""
        torch = self._torch
        old = self._masters[name]
        if name in self._specifications:
            self._masters[name] = _made(torch, self._device,
                                        {**self._specifications[name], "shape": list(shape)})
            return
        place = {"device": old.device}
        if old.dtype == torch.bool:
            new = torch.randint(2, shape, **place).bool()
        elif old.dtype.is_complex or old.numel() == 0:
            new = torch.randn(shape, dtype=old.dtype if old.dtype.is_complex else torch.float32,
                              **place).to(old.dtype)
        else:
            low, high = old.min().item(), old.max().item()
            if old.dtype.is_floating_point:
                new = (torch.rand(shape, **place) * (high - low) + low).to(old.dtype)
            else:
                new = torch.randint(int(low), int(high) + 1, shape, dtype=old.dtype, **place)
        self._masters[name] = new

    def convert(self, dtype, name=None):
        """Converts a tensor, or all floating-point ones, to another dtype."""
        for each in [name] if name is not None else self.names:
            old = self._masters[each]
            if name is None and not old.dtype.is_floating_point:
                continue
            self._masters[each] = old.to(dtype)
            if not (dtype.is_floating_point or dtype.is_complex):
                self._differentiable.discard(each)
            elif not (old.dtype.is_floating_point or old.dtype.is_complex):
                self._differentiable.add(each)

    def fresh(self, requires_grad, as_leaves):
        """Returns (new copies by name, the leaves among them that will have gradients).

        With `as_leaves` false, the copies allow in-place ops. Tensors that shared memory still
        do.
        """
        copies, leaves, memo = {}, [], {}
        for name, master in self._masters.items():
            # A deep copy preserves strides and shared memory; it does not work for sparse tensors.
            copy_ = (copy.deepcopy(master, memo) if master.layout == self._torch.strided
                     else master.clone())
            if requires_grad and name in self._differentiable:
                copy_.requires_grad_()
                leaves.append(copy_)
                if not as_leaves:
                    copy_ = copy_.clone()
            copies[name] = copy_
        return copies, leaves

    def described(self, values):
        """Returns the tensors that `values` refer to, for the report's header."""
        names = []
        _collect(values, names)
        return [{"name": name, "shape": list(self._masters[name].shape),
                 "dtype": str(self._masters[name].dtype).replace("torch.", ""),
                 "device": str(self._masters[name].device)} for name in names]


def _made(torch, device, specification):
    """Creates the tensor described by an entry of the table."""
    shape = specification["shape"]
    dtype = getattr(torch, specification.get("dtype", "float32"))
    values = specification.get("values", "normal")
    place = {"dtype": dtype, "device": device}
    if isinstance(values, dict) and "integers_below" in values:
        return torch.randint(values["integers_below"], shape, **place)
    if isinstance(values, dict) and "counting_to" in values:
        return (torch.arange(_product(shape), device=device)
                % values["counting_to"]).reshape(shape).to(dtype)
    if isinstance(values, dict) and "all" in values:
        return torch.full(shape, values["all"], **place)
    if values == "normal":
        return torch.randn(shape, **place)
    if values == "uniform":
        return torch.rand(shape, **place)
    if values == "ones":
        return torch.ones(shape, **place)
    if values == "zeros":
        return torch.zeros(shape, **place)
    if values == "symmetric_positive_definite":
        half = torch.randn(shape, **place)
        return half @ half.mT + shape[-1] * torch.eye(shape[-1], **place)
    raise Problem(FAILED, "the sample table has an unknown kind of values: %s" % (values,), _BROKEN)


def parsed(torch, device, value, tensors):
    """Converts a value of the table to an argument that may refer to the names in `tensors`."""
    if isinstance(value, str) and value.startswith("$"):
        if value[1:] not in tensors:
            raise Problem(FAILED, "the sample table lacks the tensor %s" % value, _BROKEN)
        return Named(value[1:])
    if isinstance(value, list):
        return [parsed(torch, device, item, tensors) for item in value]
    if isinstance(value, dict):
        if "dtype" in value:
            return getattr(torch, value["dtype"])
        if "device" in value:
            return torch.device(device)
        raise Problem(FAILED, "the sample table has an unknown value: %s" % value, _BROKEN)
    return value


def filled(value, tensors):
    """Returns an argument with names replaced by their tensors."""
    if isinstance(value, Named):
        return tensors[value]
    if isinstance(value, dict):
        return {key: filled(item, tensors) for key, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*[filled(item, tensors) for item in value])
    if isinstance(value, (list, tuple)):
        return type(value)(filled(item, tensors) for item in value)
    return value


def _collect(value, names):
    if isinstance(value, Named):
        if value not in names:
            names.append(str(value))
    elif isinstance(value, (list, tuple)):
        for item in value:
            _collect(item, names)
    elif isinstance(value, dict):
        for item in value.values():
            _collect(item, names)


def _product(shape):
    result = 1
    for size in shape:
        result *= size
    return result


def text(value):
    """Returns an argument in source form."""
    if isinstance(value, Named):
        return str(value)
    if isinstance(value, list):
        return "[%s]" % ", ".join(text(item) for item in value)
    if isinstance(value, tuple):
        return "(%s%s)" % (", ".join(text(item) for item in value), "," * (len(value) == 1))
    if isinstance(value, dict):
        return "{%s}" % ", ".join("%r: %s" % (key, text(item)) for key, item in value.items())
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return "tensor"
    if type(value).__name__ == "device":
        return "device"
    if callable(value) and hasattr(value, "__name__"):
        return value.__name__
    shown = repr(value)
    return shown if len(shown) <= _LONGEST_VALUE else type(value).__name__


def arguments_text(positional, keywords):
    parts = [text(value) for value in positional]
    parts += ["%s=%s" % (name, text(value)) for name, value in keywords.items()]
    return ", ".join(parts)


def fits(schema, positional, keywords):
    """Returns true if the argument types of a call of the table match an overload."""
    arguments = schema.arguments
    by_position = [argument for argument in arguments if not argument.kwarg_only]
    if len(positional) > len(by_position):
        return False
    given = {argument.name: value for argument, value in zip(by_position, positional)}
    given.update(keywords)
    for argument in arguments:
        if argument.name in given:
            if not _suits(given.pop(argument.name), str(argument.type)):
                return False
        elif not argument.has_default_value() and not argument.is_out:
            return False
    return not given


def _suits(value, kind):
    if kind.startswith("Optional["):
        return value is None or _suits(value, kind[len("Optional["):-1])
    if kind == "Tensor":
        return isinstance(value, str) and value.startswith("$")
    if kind.startswith("List["):
        inner = kind[len("List["):-1]
        if isinstance(value, list):
            return all(_suits(item, inner) for item in value)
        return inner == "int" and isinstance(value, int)
    if kind == "bool":
        return isinstance(value, bool)
    if kind in ("int", "SymInt"):
        # In a schema, a dtype is an int.
        return (isinstance(value, int) and not isinstance(value, bool)) or (
            isinstance(value, dict) and "dtype" in value)
    if kind in ("float", "number", "Scalar"):
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind == "Device":
        return isinstance(value, dict) and "device" in value
    if kind == "str":
        return isinstance(value, str) and not value.startswith("$")
    return False


# Arguments of a schema without a default: first by name, then by type. Sizes match _SIDE.
_BY_NAME = {"dim": 0, "dim0": 0, "dim1": 1, "dims": [0], "size": [_SIDE, _SIDE], "n": _SIDE,
            "shape": [_SIDE, _SIDE], "kernel_size": [1], "num_classes": _SIDE, "end": _SIDE,
            "output_size": [_SIDE, _SIDE], "normalized_shape": [_SIDE], "reduce": "sum"}
_BY_TYPE = {"int": 1, "SymInt": 1, "float": 0.5, "number": 2, "Scalar": 2, "bool": False,
            "List[int]": [1], "List[SymInt]": [1], "List[float]": [0.5], "List[bool]": [False],
            "Device": {"device": True}}
_INDEX_NAMES = ("index", "indices", "target")


def from_schema(schema, with_out):
    """Returns (tensors, positional, keywords) made for an overload, or None if that is
    impossible.
    """
    tensors: dict = {}
    positional, keywords = [], {}
    value: object
    by_position = True  # Until an argument with a default is omitted.
    for argument in schema.arguments:
        if argument.is_out and not with_out:
            continue
        if argument.has_default_value() and not argument.is_out:
            by_position = False
            continue
        kind = str(argument.type)
        name = "x" if argument.name == "self" else argument.name
        if kind == "Tensor":
            if argument.is_out:
                tensors[name] = {"shape": [0]}
            elif argument.name in _INDEX_NAMES:
                tensors[name] = {"shape": [_SIDE, _SIDE], "dtype": "int64",
                                 "values": {"integers_below": _SIDE}}
            else:
                tensors[name] = {"shape": [_SIDE, _SIDE]}
            value = "$" + name
        elif kind == "List[Tensor]":
            parts = [name + "0", name + "1"]
            tensors.update({part: {"shape": [_SIDE, _SIDE]} for part in parts})
            value = ["$" + part for part in parts]
        elif kind.startswith("Optional["):
            value = None
        elif argument.name in _BY_NAME and _suits(_BY_NAME[argument.name], kind):
            value = _BY_NAME[argument.name]
        elif kind in _BY_TYPE:
            value = _BY_TYPE[kind]
        else:
            return None
        if by_position and not argument.kwarg_only:
            positional.append(value)
        else:
            keywords[argument.name] = value
    return tensors, positional, keywords
