"""A seccomp filter like that of a sandbox."""
import ctypes
import struct

REFUSE = 0x00050000  # SECCOMP_RET_ERRNO; add the error number.
KILL = 0x80000000  # SECCOMP_RET_KILL_PROCESS
# System call numbers on x86-64.
PTRACE, PROCESS_VM_READV, PROCESS_VM_WRITEV, PIDFD_GETFD = 101, 310, 311, 438
PERF_EVENT_OPEN, BPF, USERFAULTFD, MINCORE = 298, 321, 323, 27


def deny(numbers, action):
    """Applies `action` to these system calls of this thread and of everything that it starts."""
    class Filter(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_char_p)]

    load, equal, give = 0x20, 0x15, 0x06  # BPF_LD | BPF_W | BPF_ABS; BPF_JMP | BPF_JEQ; BPF_RET
    allow = 0x7fff0000
    code = struct.pack("HBBI", load, 0, 0, 0)  # Loads the number of the system call.
    for left, number in enumerate(reversed(numbers)):
        code = code[:8] + struct.pack("HBBI", equal, left + 1, 0, number) + code[8:]
    code += struct.pack("HBBI", give, 0, 0, allow) + struct.pack("HBBI", give, 0, 0, action)
    library = ctypes.CDLL(None, use_errno=True)
    no_new_privileges, set_seccomp, by_filter = 38, 22, 2
    filter_ = Filter(len(code) // 8, code)
    for arguments in ((no_new_privileges, 1, 0, 0, 0),
                      (set_seccomp, by_filter, ctypes.byref(filter_), 0, 0)):
        if library.prctl(*arguments) != 0:
            raise OSError(ctypes.get_errno(), "prctl")
