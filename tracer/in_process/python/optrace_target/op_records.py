"""The op-record agent's C interface (tracer/in_process/op_records/op_records.h) as Python calls."""
import ctypes
import os


def load_op_records(agent, path):
    """What starts and stops a recording with op records in it: bare C functions, like the agent's.

    `agent` is the agent's own library. Raises OSError where the library that is given can't be
    used.
    """
    library = ctypes.PyDLL(path)
    functions = _Functions(*[ctypes.cast(getattr(agent, "optrace_agent_" + name), ctypes.c_void_p)
                             for name, _ in _Functions._fields_])
    result = library.optrace_ops_use(ctypes.byref(functions))
    if result != 0:
        raise OSError(-result, os.strerror(-result))
    return library.optrace_ops_start, library.optrace_ops_stop


def dispatch_tables(torch, ops):
    """What a trace's meta says of the ops that occurred (docs/trace-format.md).

    `dispatch_tables` has the kernel for each dispatch key; `boxed_kernels` where those kernels were
    registered that take their arguments on a stack, whatever the op.
    """
    tables, boxed = {}, {}
    for op in ops:
        try:
            tables[op] = torch._C._dispatch_dump_table(op)
            registrations = torch._C._dispatch_dump(op)
        except RuntimeError:  # It is no op, or one no longer.
            continue
        places = [line.partition(": ")[2].partition(" :: ")[0]
                  for line in registrations.splitlines() if line.endswith("[ boxed ]")]
        if places:
            boxed[op] = places
    return {"dispatch_tables": tables, "boxed_kernels": boxed}


class _Functions(ctypes.Structure):
    """struct optrace_op_functions."""

    _fields_ = [(name, ctypes.c_void_p) for name in (
        "note", "new_record", "keep_record", "pause_thread", "resume_thread", "start", "stop",
        "redirect", "restore")]
