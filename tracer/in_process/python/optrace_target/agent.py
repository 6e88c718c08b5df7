"""The agent's C interface (tracer/in_process/agent/interface/agent.h) as Python calls."""
import ctypes
import errno
import os

from .device_activity import DeviceActivity
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


class _Place(ctypes.Structure):
    """Dl_info of <dlfcn.h>."""

    _fields_ = [("file", ctypes.c_char_p), ("base", ctypes.c_void_p),
                ("symbol", ctypes.c_char_p), ("address", ctypes.c_void_p)]


def _loaded_as(link):
    """Under which name the loader knows the memory that `link` leads to, if it is mapped."""
    place = _Place()
    with open("/proc/self/maps", "rb") as maps:
        for line in maps:
            parts = line.rstrip(b"\n").split(None, 5)
            if len(parts) == 6 and parts[5] == link:
                address = ctypes.c_void_p(int(parts[0].split(b"-")[0], 16))
                if ctypes.PyDLL(None).dladdr(address, ctypes.byref(place)) and place.file:
                    return os.fsdecode(place.file)
    return None


def load(path, loader):
    """A library, which `path` may name by a descriptor of sealed memory.

    That memory is another one for each trace, so the loader can't tell that it has its content
    already. It tells names apart, and descriptors' numbers are used again.
    """
    link = os.fsencode(os.readlink(path)) if path.startswith("/proc/self/fd/") else b""
    if not link.startswith(b"/memfd:optrace-"):
        return loader(path)
    known = _loaded_as(link)
    if known is not None:
        return loader(known)
    unused = []
    try:
        while _is_name_of_loaded(path):
            unused.append(os.dup(int(path.rpartition("/")[2])))
            path = "/proc/self/fd/%d" % unused[-1]
        return loader(path)
    finally:
        for descriptor in unused:
            os.close(descriptor)


def _is_name_of_loaded(path):
    try:
        ctypes.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
    except OSError:
        return False
    return True


class Counters(ctypes.Structure):
    """struct optrace_agent_counters."""

    _fields_ = [(name, ctypes.c_uint64) for name in (
        "jumps", "traps", "bytes_differ", "no_room", "outside_text", "overlapping",
        "left_behind", "lost")]


class _DeviceFunctions(ctypes.Structure):
    """struct optrace_device_functions (tracer/emulated_device/device/device.h)."""

    _fields_ = [(name, ctypes.c_void_p)
                for name in ("note", "new_record", "keep_record", "recording")]


class Agent:
    """`start` and `stop` are the bare C functions: a wrapper's frames would be recorded."""

    def __init__(self, path, use_jumps, keeps_gil=True):
        """`keeps_gil`: giving it up would be part of what is recorded, where that is this thread."""
        try:
            self._library = load(path, ctypes.PyDLL if keeps_gil else ctypes.CDLL)
        except OSError as error:
            raise Problem(FAILED, "the agent can't be loaded: %s" % error,
                          "Build or install optrace again.") from error
        self.use_jumps = use_jumps
        self._hear_of_the_device()
        self.start = self._library.optrace_agent_start
        self.stop = self._library.optrace_agent_stop

    def place(self, plan, at_once=True, file=None):
        """`at_once`: nobody can be in what is probed; else jumps come once that has turned out.

        `file` is where the plan can be read, if not under its name.
        """
        use_jumps = 0 if not self.use_jumps else 1 if at_once else 2
        placed = self._library.optrace_agent_place_from(
            os.fsencode(plan if file is None else file), os.fsencode(plan), use_jumps)
        self.check("placing probes", placed)

    def enter(self, descriptor):
        """Nobody else may trace this process until leave(). Forked children close `descriptor`."""
        result = self._library.optrace_agent_enter(descriptor)
        if result == -errno.EBUSY:
            raise Problem(FAILED, "the process is being traced already",
                          "Wait until that trace has ended, or end it.")
        self.check("tracing the process", result)

    def leave(self):
        """Whatever can be taken out again is. Ends recording, too."""
        self._library.optrace_agent_leave()

    def start_on_main_thread(self, patience):
        """Whether Python calls are recorded, too. `patience`, in seconds, is for the interpreter."""
        result = self._library.optrace_agent_start_on_main_thread(
            ctypes.cast(self.start, ctypes.c_void_p), ctypes.c_uint64(int(patience * 1000)))
        if result == -errno.ETIMEDOUT:
            raise Problem(FAILED, "the main thread of the process ran no Python code for %g seconds"
                          % patience, "Attach when it does, or give it more time with --timeout.")
        self.check("recording", result)
        return result == 1

    def _hear_of_the_device(self):
        """Has an emulated CUDA device, where there is one, tell what is asked of it."""
        use = getattr(ctypes.PyDLL(None), "optrace_device_use", None)
        if use is not None:
            self.check("telling the emulated device who records",
                       use(ctypes.byref(self._device_functions())))

    def _device_functions(self):
        return _DeviceFunctions(*[
            ctypes.cast(getattr(self._library, "optrace_agent_" + name), ctypes.c_void_p)
            for name, _ in _DeviceFunctions._fields_])

    def share(self, descriptor):
        """What is recorded from the next start on goes to the memory that this leads to."""
        size = ctypes.c_uint64(os.fstat(descriptor).st_size)
        self.check("sharing memory with the command",
                   self._library.optrace_agent_share(descriptor, size))

    def record_ops(self, path):
        """From the next start on, records ops too. What the trace lacks if not, in sentences."""
        try:
            self.start, self.stop = load_op_records(self._library, path)
        except OSError as error:
            return ["Op records are missing: the library that makes them can't be loaded (%s)."
                    % first_line(error)]
        return []

    def record_device_activity(self, path, torch=None):
        """Records what devices do, too. What the trace lacks if not, in sentences.

        From the next start on; with `torch`, once it uses CUDA, if it does.
        """
        try:
            activity = DeviceActivity(self._library, path, self.start, self.stop)
            self.stop = activity.stop
            if torch is None:
                self.start = activity.start
            else:
                activity.begin_with_cuda(torch)
        except (OSError, AttributeError) as error:
            return ["What the devices did is missing: the library that records it can't be used "
                    "(%s)." % first_line(error)]
        return []

    def record_cuda_calls(self, path):
        """Records what CUDA's libraries are asked for, too. What the trace lacks if not.

        From now on until the agent's probes are removed, while it records.
        """
        try:
            start = ctypes.PyDLL(path).optrace_cuda_calls_start
            redirect = ctypes.cast(self._library.optrace_agent_redirect, ctypes.c_void_p)
            result = start(ctypes.byref(self._device_functions()), redirect)
            if result < 0:
                raise OSError(-result, os.strerror(-result))
        except (OSError, AttributeError) as error:
            return ["What CUDA's libraries were asked for is missing: the library that records it "
                    "can't be used (%s)." % first_line(error)]
        return []

    def python(self, on):
        """False when this process's Python calls can't be recorded; the rest still can."""
        return self._library.optrace_agent_python(1 if on else 0) == 0

    def look_for_missing_python(self):
        """Before recording stops: whether each thread has its Python events is in the recording."""
        self._library.optrace_agent_python_missing()

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
