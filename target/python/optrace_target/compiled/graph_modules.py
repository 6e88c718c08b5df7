"""Tells which lines of a program the code of torch.fx's modules works for.

A GraphModule, such as the module of an exported program, has a `forward` that torch.fx generates
from its graph. Its file is called `<eval_with_key>.N`.
"""
import gc
import sys

from .kernel_origins import program_line

_FILE = "<eval_with_key>"
_MOST_CALLS = 20000


def graph_module_code():
    """Returns the generated code of all GraphModules in the form of `generated_code`
    (docs/trace-format.md)."""
    fx = sys.modules.get("torch.fx.graph_module")
    if fx is None:
        return []
    # Each module has a class of its own. A list of all objects, instead of those that refer to a
    # class, would keep tensors alive that other threads are about to free, and PyTorch warns then.
    classes = set(_subclasses(fx.GraphModule))
    found, left = {}, _MOST_CALLS
    for module in gc.get_referrers(*classes) if classes else ():
        # An object's own __class__ may be code of the program.
        if type(module) not in classes:
            continue
        try:
            file, calls = _describe(module)
        except Exception:  # Another version's module, or one that is not set up.
            continue
        if file.startswith(_FILE) and calls and len(calls) <= left:
            left -= len(calls)
            found[file] = {"file": file, "kernels": [], "calls": calls}
    return list(found.values())


def _subclasses(of):
    for subclass in type.__subclasses__(of):
        yield subclass
        yield from _subclasses(subclass)


def _describe(module):
    code = type(module).forward.__code__
    nodes = list(module.graph.nodes)
    # Lines count from that of `def`.
    calls = [{"line": code.co_firstlineno + line,
              "origin": program_line(nodes[number].meta.get("stack_trace"))}
             for line, number in sorted(module._lineno_map.items()) if number is not None]
    return code.co_filename, calls if any(call["origin"] for call in calls) else []
