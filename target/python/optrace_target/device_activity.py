"""Python wrapper of the C interface that records device activity
(gpu/activity/).
"""
import ctypes
import os


class DeviceActivity:
    """Device activity. `start` and `stop` are bare C functions that also call those passed in."""

    def __init__(self, agent, path, start, stop):
        """`agent` is the agent's own library; `start` and `stop` start and stop a recording.

        Raises OSError if the library at `path` can't be used.
        """
        self._library = library = ctypes.PyDLL(path)
        functions = {name: getattr(agent, "optrace_agent_" + name)
                     for name, *_ in _Functions._fields_ if name not in ("start", "stop")}
        functions.update(start=start, stop=stop)
        given = _Functions(*[ctypes.cast(functions[name], ctypes.c_void_p)
                             for name, *_ in _Functions._fields_])
        result = library.optrace_activity_use(ctypes.byref(given))
        if result != 0:
            raise OSError(-result, os.strerror(-result))
        self.start = library.optrace_activity_start
        self.stop = library.optrace_activity_stop

    def begin_with_cuda(self, torch):
        """Begins as soon as CUDA is used, in this process or in one forked before that.

        CUPTI may initialize the driver, and a process forked after that can't use CUDA. PyTorch
        calls queued functions at the end of its own initialization; a C function adds no frame
        there.
        """
        if torch.cuda.is_initialized():
            self._library.optrace_activity_begin()
        else:
            torch.cuda._lazy_call(self._library.optrace_activity_begin_if_recording)


class _Functions(ctypes.Structure):
    """struct optrace_activity_functions."""

    _fields_ = [(name, ctypes.c_void_p) for name in (
        "note", "new_record", "keep_record", "recording", "pause_thread", "resume_thread",
        "redirect", "restore", "start", "stop")]
