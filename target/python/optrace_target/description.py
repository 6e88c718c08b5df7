"""Description of a traced process for the command."""
import gc
import os
import sys


def of_torch(torch):
    """Returns the part of a trace's meta (docs/trace-format.md) common to calls and programs."""
    return {
        "torch": {"version": torch.__version__, "git_version": torch.version.git_version,
                  "cuda": torch.version.cuda, "debug": bool(torch.version.debug)},
        "python": "%d.%d.%d" % sys.version_info[:3],
        "op_names": _op_names(torch),
        "torch_folder": os.path.dirname(torch.__file__),
    }


def interpreter_file():
    """Returns the path of libpython if it is loaded, else of the executable."""
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        for line in maps:
            path = line.rstrip("\n").partition("/")[2]
            if os.path.basename(path).startswith("libpython3."):
                return "/" + path
    return os.path.realpath("/proc/self/exe")


def shortfalls(counters, hooked):
    """Returns a sentence for each kind of missing data."""
    warnings = []
    if counters.no_room:
        warnings.append("%d functions could not be probed: no memory is free within 2 GB of "
                        "their library. Frames may be missing." % counters.no_room)
    if counters.bytes_differ:
        warnings.append("%d functions could not be probed: their code in memory differs from the "
                        "library's file. Frames may be missing." % counters.bytes_differ)
    if counters.lost:
        warnings.append("%d events did not fit into the buffers and were lost. Frames are missing."
                        % counters.lost)
    if not hooked:
        warnings.append("Python frames are missing: this Python's profile hook could not be used.")
    return warnings


def finalized_later(torch):
    """Counts the objects whose `__del__`, a function of the program's own code, is yet to run."""
    installed = (os.path.dirname(os.__file__), os.path.dirname(os.path.dirname(torch.__file__)),
                 "<frozen ")
    classes = dict.fromkeys([object])
    pending = [object]
    while pending:
        below = [kind for kind in type.__subclasses__(pending.pop()) if kind not in classes]
        classes.update(dict.fromkeys(below))
        pending += below
    own = set()
    for kind in classes:
        code = getattr(type.__getattribute__(kind, "__dict__").get("__del__"), "__code__", None)
        if code is not None and not code.co_filename.startswith(installed):
            own.add(kind)
    if not own:
        return 0
    finalized = {kind for kind in classes
                 if not own.isdisjoint(type.__getattribute__(kind, "__mro__"))}
    return sum(type(one) in finalized for one in gc.get_objects())


def _op_names(torch):
    """Maps `add_Tensor`, as in at::_ops::add_Tensor, to `aten::add.Tensor`."""
    return {name[len("aten::"):].replace(".", "_"): name
            for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::")}
