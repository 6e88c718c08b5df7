"""Describes this process's torch for _optrace."""
import importlib
import importlib.util
import os
import pathlib
import sys

from ._error import Error

_TARGET = pathlib.Path(__file__).parent / "share/optrace/target/optrace_target"
_PACKAGE = "optrace._target"


def _load(name):
    """Imports a module of the package, under a name that no other package has."""
    if _PACKAGE not in sys.modules:
        spec = importlib.util.spec_from_file_location(
            _PACKAGE, _TARGET / "__init__.py", submodule_search_locations=[str(_TARGET)])
        assert spec is not None and spec.loader is not None
        sys.modules[_PACKAGE] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[_PACKAGE])
    return importlib.import_module(_PACKAGE + "." + name)


_description = _load("description")
_op_records = _load("op_records")
_compilations = _load("compiled.compilations").Compilations()
_known = {}


def describe():
    """The part of a trace's meta that all traces share, and the paths of torch and Python."""
    if not _known:
        try:
            import torch
        except ImportError as error:
            raise Error(f"this Python has no torch to trace ({error})",
                        "Install a release wheel: pip install torch") from error
        _known.update(meta=_description.of_torch(torch), folder=os.path.dirname(torch.__file__),
                      interpreter=_description.interpreter_file(),
                      cuda=os.path.exists("/dev/nvidiactl"))
    return _known


def start_watching():
    """Begins to note what torch.compile compiles."""
    _compilations.start()


def stop_watching():
    _compilations.stop()


def tables(ops):
    """The part of a trace's meta that is known at its end."""
    return {**_op_records.dispatch_tables(sys.modules["torch"], ops),
            **_compilations.meta()}


def place():
    """The location of the calling Python code for a trace's header: `train.py, line 12`."""
    frame = sys._getframe(1)
    return f"{os.path.basename(frame.f_code.co_filename)}, line {frame.f_lineno}"
