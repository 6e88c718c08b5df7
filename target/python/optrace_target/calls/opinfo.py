"""Sample calls from PyTorch's own test databases, which every wheel contains.

torch.testing._internal contains op_db (OpInfo), module_db (ModuleInfo) and optim_db;
torch/testing/_internal/opinfo/core.py describes how a sample is created. Importing them takes
seconds, so they are imported only if the sample table has no entry. They were written for
PyTorch's tests, whose test-case class derives from one of the package expecttest. If that is not
installed, an empty class replaces it during the import; samples don't need it.
"""
import contextlib
import glob
import itertools
import os
import random
import sys
import tempfile
import types

from ..problem import first_line
from .samples import Named, Sample

_MOST_SAMPLES = 24  # Per op; some have thousands.


class OpInfoDatabase:
    """op_db and module_db, imported when first used. `missing` is the reason if that fails."""

    def __init__(self, torch, device):
        self._torch = torch
        self._device = device
        self._ops = None  # By each name of an op.
        self._modules = {}
        self.missing = None

    def find(self, *names):
        """Returns the OpInfos known by one of the names, in the order of the names, without
        duplicates.
        """
        self._load()
        found = []
        for name in names:
            found += [info for info in self._ops.get(name, ()) if info not in found]
        return found

    def may_have(self, full_name):
        """Tells, from PyTorch's source, whether an OpInfo can have this name of an op and a
        variant. Op names are string literals there; variants can be computed.
        """
        folder = os.path.join(os.path.dirname(self._torch.__file__), "testing", "_internal")
        words = full_name.split(".")
        literals = [quote + ".".join(words[:count]) + quote
                    for count in range(1, len(words) + 1) for quote in "'\"" if all(words)]
        for path in [os.path.join(folder, "common_methods_invocations.py"),
                     *glob.glob(os.path.join(glob.escape(folder), "opinfo", "**", "*.py"),
                                recursive=True)]:
            with contextlib.suppress(OSError), open(path, encoding="utf-8") as file:
                text = file.read()
                if any(literal in text for literal in literals):
                    return True
        return False

    def names(self):
        """Returns all names known to find()."""
        self._load()
        return list(self._ops)

    def samples(self, info, differentiable):
        """Yields (positional, keywords, Sample, process for backward) of an OpInfo."""
        torch = self._torch
        differentiable = differentiable and info.supports_autograd
        dtype = self._dtype(info, differentiable)
        # Some samples are drawn from generators other than PyTorch's.
        random.seed(0)
        torch.manual_seed(0)
        drawn = list(itertools.islice(
            info.sample_inputs(self._device, dtype, requires_grad=info.supports_autograd
                               and (dtype.is_floating_point or dtype.is_complex)),
            _MOST_SAMPLES))
        drawn.sort(key=_plainness)  # Stable: equally plain samples keep PyTorch's order.
        for sample in drawn:
            tensors = Collected(torch)
            positional = tensors.named([sample.input, *sample.args])
            keywords = tensors.named(dict(sample.kwargs))
            yield positional, keywords, tensors.sample(self._device), sample.output_process_fn_grad

    def _dtype(self, info, differentiable):
        torch = self._torch
        supported = info.supported_dtypes(self._device)
        if differentiable:
            supported = info.supported_backward_dtypes(self._device) or supported
        for dtype in (torch.float32, torch.float64, torch.complex64, torch.int64, torch.bool):
            if dtype in supported:
                return dtype
        return next(iter(supported), torch.float32)

    def module_samples(self, kind):
        """Yields (constructor's (positional, keywords), positional, keywords, Sample)."""
        self._load()
        torch = self._torch
        info = self._modules.get(kind)
        if info is None:
            return
        random.seed(0)
        torch.manual_seed(0)
        drawn = info.module_inputs_func(info, device=self._device, dtype=torch.float32,
                                        requires_grad=True, training=True)
        for sample in drawn[:_MOST_SAMPLES]:
            constructor, forward = sample.constructor_input, sample.forward_input
            if forward is None:
                continue
            tensors = Collected(torch)
            yield ((constructor.args, constructor.kwargs), tensors.named(list(forward.args)),
                   tensors.named(dict(forward.kwargs)), tensors.sample(self._device))

    def _load(self):
        if self._ops is not None:
            return
        self._ops = {}
        try:
            with _for_import(), _temporary_files_removed():
                from torch.testing._internal.common_methods_invocations import op_db
                from torch.testing._internal.common_modules import module_db
        except Exception as error:  # numpy may be missing, or PyTorch's tests may have moved.
            self.missing = first_line(error)
            return
        finally:
            self._torch.manual_seed(0)  # The import seeds the generators.
        for info in op_db:
            if info.name.startswith("_refs."):
                continue
            full = info.name + ("." + info.variant_test_name if info.variant_test_name else "")
            names = [full, info.name, info.aten_name, *(alias.name for alias in info.aliases)]
            for name in dict.fromkeys(names):
                known = self._ops.setdefault(name, [])
                # A name's own OpInfo precedes variants and OpInfos that only share the name.
                known.insert(0 if name == full else len(known), info)
        self._modules = {info.module_cls: info for info in module_db}


class Collected:
    """Extracts the tensors from a call's arguments and names them."""

    def __init__(self, torch):
        self._torch = torch
        self._tensors = {}
        self._flagged = set()

    def named(self, value, name=None):
        """Returns `value` with each tensor replaced by a Named; `name` is the argument's, if
        known.
        """
        if isinstance(value, self._torch.Tensor):
            for known, tensor in self._tensors.items():
                if tensor is value:
                    return Named(known)
            if name is None or name in self._tensors:
                name = next(free for free in _names() if free not in self._tensors)
            self._tensors[name] = value
            if value.requires_grad:
                self._flagged.add(name)
            return Named(name)
        if isinstance(value, dict):
            return {key: self.named(item, key if isinstance(key, str) else None)
                    for key, item in value.items()}
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*[self.named(item) for item in value])
        if isinstance(value, (list, tuple)):
            return type(value)(self.named(item) for item in value)
        return value

    def sample(self, device, all_differentiable=False):
        """Returns the tensors as a Sample.

        Those that required a gradient will do so, or all that can.
        """
        flagged = self._flagged
        if all_differentiable:
            flagged = {name for name, tensor in self._tensors.items()
                       if tensor.dtype.is_floating_point or tensor.dtype.is_complex}
        return Sample(self._torch, device, {name: tensor.detach() if tensor.requires_grad
                                            else tensor
                                            for name, tensor in self._tensors.items()}, flagged)


def _names():
    yield from ("x", "y", "z", "a", "b", "c")
    for number in itertools.count(1):
        yield "t%d" % number


def _plainness(sample):
    """Sort key, smaller for plainer samples: nothing empty, and a first tensor with dimensions."""
    tensors = []
    _find_tensors([sample.input, sample.args, sample.kwargs], tensors)
    if any(tensor.numel() == 0 for tensor in tensors):
        return 2
    return 1 if tensors and tensors[0].dim() == 0 else 0


def _find_tensors(value, found):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for item in value:
            _find_tensors(item, found)
    elif hasattr(value, "numel") and hasattr(value, "dim"):
        found.append(value)


@contextlib.contextmanager
def _temporary_files_removed():
    """Removes temporary folders, which PyTorch's test modules remove at exit; os._exit skips
    that.
    """
    before = tempfile.tempdir
    with tempfile.TemporaryDirectory() as folder:
        tempfile.tempdir = folder
        try:
            yield
        finally:
            tempfile.tempdir = before


@contextlib.contextmanager
def _for_import():
    """Makes PyTorch's test modules importable, and undoes all changes afterwards.

    They read the command line and report missing packages on standard output and error.
    """
    arguments, sys.argv = sys.argv, sys.argv[:1]
    stand_in = None
    try:
        import expecttest  # noqa: F401
    except ImportError:
        import unittest

        stand_in = types.ModuleType("expecttest")
        vars(stand_in).update(TestCase=unittest.TestCase)
        sys.modules["expecttest"] = stand_in
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [(number, os.dup(number)) for number in (1, 2)]
    nothing = os.open(os.devnull, os.O_WRONLY)
    try:
        for number, _ in kept:
            os.dup2(nothing, number)
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, saved in kept:
            os.dup2(saved, number)
            os.close(saved)
        os.close(nothing)
        sys.argv = arguments
        if stand_in is not None and sys.modules.get("expecttest") is stand_in:
            del sys.modules["expecttest"]
