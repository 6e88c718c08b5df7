"""The agent's C interface (tracer/agent/agent.h) as Python calls."""
import ctypes
import errno
import fcntl
import os

from .op_records import load_op_records
from .problem import FAILED, Problem, first_line

_AGAIN = "Run the command again; if it stays so, report it with this line."
_REASONS = {
    errno.EBADMSG: ("its probe plan is damaged", _AGAIN),
    errno.EPROTONOSUPPORT: ("its probe plan is of another version of optrace",
                            "Install optrace again: its command and its agent must go together."),
    errno.ENXIO: ("a library that probes were planned for is not loaded",
                  "Check that this Python imports the torch that lies in its own site-packages."),
    errno.EACCES: ("this system does not let a program change its own code",
                   "Allow it for this Python (with SELinux: the boolean selinuxuser_execmod)."),
    errno.EPERM: ("a thread of this process blocks SIGTRAP, which int3 probes need",
                  "Trace with jumps, or have that thread let the signal through."),
    errno.ENOMEM: ("there is not enough memory", "Close some programs and try again."),
}


class Counters(ctypes.Structure):
    """struct optrace_agent_counters."""

    _fields_ = [(name, ctypes.c_uint64) for name in (
        "jumps", "traps", "bytes_differ", "no_room", "outside_text", "overlapping",
        "left_behind", "lost")]


class _DeviceFunctions(ctypes.Structure):
    """struct optrace_device_functions (tracer/emulated_device/device.h)."""

    _fields_ = [(name, ctypes.c_void_p)
                for name in ("note", "new_record", "keep_record", "recording")]


class Agent:
    """`start` and `stop` are the bare C functions: a wrapper's frames would be recorded."""

    def __init__(self, path, use_jumps):
        try:
            # PyDLL keeps the GIL, so that giving it up is no part of what is recorded.
            self._library = ctypes.PyDLL(path)
        except OSError as error:
            raise Problem(FAILED, "the agent can't be loaded: %s" % error,
                          "Build or install optrace again.") from error
        self._use_jumps = 1 if use_jumps else 0
        self._hear_of_the_device()
        self.start = self._library.optrace_agent_start
        self.stop = self._library.optrace_agent_stop

    def place(self, plan, at_once=True):
        """`at_once`: nobody can be in what is probed; else jumps come once that has turned out."""
        use_jumps = 0 if not self._use_jumps else 1 if at_once else 2
        placed = self._library.optrace_agent_place(os.fsencode(plan), use_jumps)
        self.check("placing probes", placed)

    def _hear_of_the_device(self):
        """Has an emulated CUDA device, where there is one, tell what is asked of it."""
        use = getattr(ctypes.PyDLL(None), "optrace_device_use", None)
        if use is not None:
            functions = _DeviceFunctions(*[
                ctypes.cast(getattr(self._library, "optrace_agent_" + name), ctypes.c_void_p)
                for name, _ in _DeviceFunctions._fields_])
            self.check("telling the emulated device who records", use(ctypes.byref(functions)))

    def share(self, size):
        """A new descriptor of memory that what is recorded from the next start on goes to."""
        descriptor = os.memfd_create("optrace", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            self.check("sharing memory with the command",
                       self._library.optrace_agent_share(descriptor, ctypes.c_uint64(size)))
            # Whoever reads it would die if it became smaller.
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS,
                        fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def record_ops(self, path):
        """From the next start on, records ops too. What the trace lacks if not, in sentences."""
        try:
            self.start, self.stop = load_op_records(self._library, path)
        except OSError as error:
            return ["Op records are missing: the library that makes them can't be loaded (%s)."
                    % first_line(error)]
        return []

    def python(self, on):
        """False when this process's Python calls can't be recorded; the rest still can."""
        return self._library.optrace_agent_python(1 if on else 0) == 0

    def record_live_functions(self):
        """The Python functions that were called before recording began, and still run."""
        self._library.optrace_agent_python_frames()

    def write(self, path):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            self.check("writing the recording", self._library.optrace_agent_write(descriptor))
        finally:
            os.close(descriptor)

    def counters(self):
        counters = Counters()
        self.check("reading the counters",
                   self._library.optrace_agent_read_counters(ctypes.byref(counters)))
        return counters

    @staticmethod
    def check(doing, result):
        if result < 0:
            reason, remedy = _REASONS.get(-result, (os.strerror(-result), _AGAIN))
            raise Problem(FAILED, "%s failed: %s" % (doing, reason), remedy)
