"""Runs sample calls as optrace's target does, so that gdb can stop in them.

    python gdb_target TARGET_FOLDER SAMPLES MARKERS CASE...

A CASE is an op, with `+backward` or without. gdb_target is a folder with a __main__.py, like
optrace's target, so that the interpreter's own frames are the same. SIGUSR1 signals that everything
is loaded. Then optrace_truth_start and optrace_truth_stop enclose the last run of each case.
"""
import ctypes
import gc
import signal
import sys

WARM_UPS = 12  # CPython 3.11 specializes a function's bytecode at its eighth call.


def main():
    target_folder, sample_folder, marker_file, *cases = sys.argv[1:]
    sys.path.insert(0, target_folder)
    import torch

    from optrace_target import session
    from optrace_target.calls import call_options, resolve

    markers = ctypes.PyDLL(marker_file)
    set_profile = ctypes.pythonapi.PyEval_SetProfile
    set_profile.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    set_profile.restype = None
    profile = ctypes.cast(markers.optrace_truth_profile, ctypes.c_void_p)

    class Agent:
        """The agent's interface that a recording uses. `start` and `stop` are bare C functions."""

        def __init__(self, start, stop):
            self.start = start
            self.stop = stop

        @staticmethod
        def python(on):
            set_profile(profile if on else None, None)
            return True

        @staticmethod
        def check(doing, result):
            assert result == 0, doing

    silent = Agent(markers.optrace_truth_profile, markers.optrace_truth_profile)
    marked = Agent(markers.optrace_truth_start, markers.optrace_truth_stop)
    resolver = resolve.Resolver(torch, sample_folder, "cpu")
    calls = []
    for case in cases:
        op, _, backward = case.partition("+")
        torch.manual_seed(0)
        asked = call_options.CallOptions(torch, "cpu", {"backward": bool(backward)})
        calls.append(session._PreparedCall(
            *[op, *resolver.resolve(op, asked), asked.requires_grad]))
    gc.disable()
    signal.raise_signal(signal.SIGUSR1)
    for call in calls:
        for agent in [silent] * WARM_UPS + [marked]:
            torch.manual_seed(0)
            call.record(torch, agent)


main()
