"""Python wrapper of the C interface that records device activity
(gpu/activity/).
"""
import ctypes
import os


class DeviceActivity:
    """Device activity. `start` and `stop` are bare C functions that also call those passed in."""

    def __init__(self, functions, path, start, stop):
        """`functions` are those of the agent; `start` and `stop` start and stop a recording.

        Raises OSError if the library at `path` can't be used.
        """
        self._library = library = ctypes.PyDLL(path)
        result = library.optrace_activity_use(
            functions, ctypes.cast(start, ctypes.c_void_p), ctypes.cast(stop, ctypes.c_void_p))
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
