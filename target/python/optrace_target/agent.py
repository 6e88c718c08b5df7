"""Python wrapper of the agent's C interface (target/interface/agent.h)."""
import ctypes
import errno
import os

from .device_activity import DeviceActivity
from .op_records import load_op_records
from .problem import FAILED, Problem, first_line

_AGAIN = "Run the command again. If it fails again, report it with this line."
_REASONS = {
    errno.EBADMSG: ("its probe plan is damaged", _AGAIN),
    errno.EPROTONOSUPPORT: ("its probe plan was made by another version of optrace",
                            "Reinstall optrace: its command and its agent must have the same "
                            "version."),
    errno.ENXIO: ("a library with planned probes is not loaded",
                  "Check that this Python imports the torch in its own site-packages."),
    errno.EACCES: ("this system forbids programs to change their own code",
                   "Allow it for this Python (with SELinux: the boolean selinuxuser_execmod)."),
    errno.EPERM: ("a thread of this process blocks SIGTRAP, which int3 probes need",
                  "Trace with --probes jump, or unblock the signal in that thread."),
    errno.ENOMEM: ("there is not enough memory", "Close some programs and try again."),
}


class _Place(ctypes.Structure):
    """Dl_info of <dlfcn.h>."""

    _fields_ = [("file", ctypes.c_char_p), ("base", ctypes.c_void_p),
                ("symbol", ctypes.c_char_p), ("address", ctypes.c_void_p)]


def _loaded_as(link):
    """Returns the name under which the loader knows the file that `link` refers to, if mapped."""
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
    """Loads a library; `path` may refer to sealed memory by a descriptor.

    Each trace uses different memory with the same content, which the loader can't recognize. It
    distinguishes libraries by name, and descriptor numbers are reused.
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


class Agent:
    """The agent. `start` and `stop` are the bare C functions, because a wrapper's frames would be
    recorded.
    """

    def __init__(self, path, use_jumps, keeps_gil=True):
        """With `keeps_gil`, calls keep the GIL; releasing it would be recorded if this thread is
        traced.
        """
        try:
            self._library = load(path, ctypes.PyDLL if keeps_gil else ctypes.CDLL)
        except OSError as error:
            raise Problem(FAILED, "the agent can't be loaded: %s" % error,
                          "Rebuild or reinstall optrace.") from error
        self.use_jumps = use_jumps
        functions = self._library.optrace_agent_recorder_functions
        functions.restype = ctypes.c_void_p
        # What recorders call (target/interface/recorder.h).
        self._functions = ctypes.c_void_p(functions())
        self._hear_of_the_device()
        self.start = self._library.optrace_agent_start
        self.stop = self._library.optrace_agent_stop

    def place(self, plan, at_once=True, file=None):
        """Places a plan's probes.

        `at_once` asserts that no thread can be inside the probed functions; otherwise jumps are
        placed once this is certain. `file` is the path to read the plan from, if not its own.
        """
        use_jumps = 0 if not self.use_jumps else 1 if at_once else 2
        placed = self._library.optrace_agent_place_from(
            os.fsencode(plan if file is None else file), os.fsencode(plan), use_jumps)
        self.check("placing probes", placed)

    def limit_returns(self, per_site):
        """Limits the values recorded for each place that calls a function; 0: no limit."""
        self.check("preparing probes",
                   self._library.optrace_agent_return_limit(ctypes.c_uint32(per_site)))

    def enter(self, descriptor):
        """Claims this process for one trace until leave(). Forked children close `descriptor`."""
        result = self._library.optrace_agent_enter(descriptor)
        if result == -errno.EBUSY:
            raise Problem(FAILED, "the process is already being traced",
                          "Wait for the end of that trace, or end it.")
        self.check("tracing the process", result)

    def leave(self):
        """Undoes all that can be undone. Also ends recording."""
        self._library.optrace_agent_leave()

    def start_on_main_thread(self, timeout):
        """Returns true if Python calls are recorded, too.

        `timeout` is the time in seconds to wait for the interpreter.
        """
        result = self._library.optrace_agent_start_on_main_thread(
            ctypes.cast(self.start, ctypes.c_void_p), ctypes.c_uint64(int(timeout * 1000)))
        if result == -errno.ETIMEDOUT:
            raise Problem(FAILED, "the main thread of the process ran no Python code for %g seconds"
                          % timeout, "Attach when it runs, or wait longer with --timeout.")
        self.check("recording", result)
        return result == 1

    def _hear_of_the_device(self):
        """Makes an emulated CUDA device, if there is one, report the calls that it gets."""
        use = getattr(ctypes.PyDLL(None), "optrace_device_use", None)
        if use is not None:
            self.check("connecting the emulated device to the recorder",
                       use(self._functions))

    def share(self, descriptor):
        """Makes recordings use the memory of this descriptor from the next start on."""
        size = ctypes.c_uint64(os.fstat(descriptor).st_size)
        self.check("sharing memory with the command",
                   self._library.optrace_agent_share(descriptor, size))

    def record_ops(self, path, tensors=0):
        """Records ops, too, from the next start on; also up to `tensors`
        bytes of the log of tensors.

        Returns sentences on missing data, empty on success.
        """
        try:
            self.start, self.stop = load_op_records(self._functions, path, tensors)
        except OSError as error:
            return ["Op records are missing: the library that records them can't be loaded (%s)."
                    % first_line(error)]
        return []

    def record_device_activity(self, path, torch=None):
        """Records device activity, too.

        Starts at the next start of a recording; with `torch`, once the process uses CUDA. Returns
        sentences on missing data, empty on success.
        """
        try:
            activity = DeviceActivity(self._functions, path, self.start, self.stop)
            self.stop = activity.stop
            if torch is None:
                self.start = activity.start
            else:
                activity.begin_with_cuda(torch)
        except (OSError, AttributeError) as error:
            return ["Device activity is missing: the library that records it can't be used (%s)."
                    % first_line(error)]
        return []

    def record_cuda_calls(self, path):
        """Records calls of CUDA's libraries, too.

        From now on, until the agent's probes are removed, while it records. Returns sentences on
        missing data, empty on success.
        """
        try:
            result = ctypes.PyDLL(path).optrace_cuda_calls_start(self._functions)
            if result < 0:
                raise OSError(-result, os.strerror(-result))
        except (OSError, AttributeError) as error:
            return ["The arguments of calls of CUDA's libraries are missing: the library that "
                    "records them can't be used (%s)." % first_line(error)]
        return []

    def python(self, on):
        """Turns Python events on or off. Returns false if this process's Python calls can't be
        recorded; the other events still can.
        """
        return self._library.optrace_agent_python(1 if on else 0) == 0

    def look_for_missing_python(self):
        """Checks each thread's Python events and stores the result in the recording. Call before
        recording stops.
        """
        self._library.optrace_agent_python_missing()

    def record_every_python_call(self):
        """Also records the calls of Python functions inside which nothing is recorded."""
        self.check("preparing the recording", self._library.optrace_agent_every_python_call(1))

    def record_live_functions(self):
        """Records the live Python functions that were called before recording began."""
        self._library.optrace_agent_python_frames()

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
