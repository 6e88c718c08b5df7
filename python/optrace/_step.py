"""Marks the steps of a program for `optrace run --from-step`."""
import sys


def step():
    """Marks the end of a step of the program, as torch.profiler.profile.step() does.

    Does nothing except under `optrace run --from-step`.
    """
    # The tracer sets it (target/python/optrace_target/steps.py). getattr() would make an
    # exception where it is missing.
    mark = vars(sys).get("_optrace_step")
    if mark is not None:
        mark()
