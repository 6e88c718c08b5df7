"""Python wrapper of the op-record agent's C interface
(target/op_recorder/op_records.h).
"""
import ctypes
import os
import sys


def load_op_records(functions, path, tensors=0):
    """Returns the bare C functions that start and stop a recording with op records.

    `functions` are those of the agent. Recordings contain up to `tensors` bytes of the log of
    tensors. Raises OSError if the library at `path` can't be used.
    """
    library = ctypes.PyDLL(path)
    result = library.optrace_ops_use(functions)
    if result != 0:
        raise OSError(-result, os.strerror(-result))
    _keep_tensors(library, tensors)
    return library.optrace_ops_start, library.optrace_ops_stop


def _keep_tensors(library, most):
    torch = sys.modules["torch"]
    folders = [os.path.dirname(os.path.abspath(os.__file__)),
               os.path.dirname(os.path.abspath(torch.__file__))]
    sample = None
    if most:
        with torch._C.DisableTorchFunction():
            sample = torch.empty(0, device="meta")
    result = library.optrace_ops_keep_tensors(
        ctypes.py_object(torch.Tensor), ctypes.py_object(sample),
        "".join(folder + "/\n" for folder in folders).encode(), ctypes.c_uint64(most))
    if result != 0:
        raise OSError(-result, os.strerror(-result))


def dispatch_tables(torch, ops):
    """Returns the part of a trace's meta for the ops that occurred (docs/trace-format.md).

    `dispatch_tables` contains the kernel for each dispatch key. `boxed_kernels` contains the
    places that registered boxed kernels, which take their arguments on a stack and work for any
    op.
    """
    tables, boxed = {}, {}
    for op in ops:
        try:
            tables[op] = torch._C._dispatch_dump_table(op)
            registrations = torch._C._dispatch_dump(op)
        except RuntimeError:  # Not an op, or no longer registered.
            continue
        places = [line.partition(": ")[2].partition(" :: ")[0]
                  for line in registrations.splitlines() if line.endswith("[ boxed ]")]
        if places:
            boxed[op] = places
    return {"dispatch_tables": tables, "boxed_kernels": boxed}
