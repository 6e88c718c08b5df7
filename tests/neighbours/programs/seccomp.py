"""A seccomp filter like that of a sandbox: kills the process for ptrace, process_vm_*, bpf,
perf_event_open and userfaultfd, and allows all other system calls."""
import pathlib
import sys

from rounds import bits, rounds, step

sys.path.append(str(pathlib.Path(__file__).parents[2] / "end_to_end"))
from system_call_filter import (
    BPF,
    KILL,
    PERF_EVENT_OPEN,
    PROCESS_VM_READV,
    PROCESS_VM_WRITEV,
    PTRACE,
    USERFAULTFD,
    deny,
)

deny([PTRACE, PROCESS_VM_READV, PROCESS_VM_WRITEV, BPF, PERF_EVENT_OPEN, USERFAULTFD], KILL)
for number in rounds():
    print(number, bits(*step(number)))
