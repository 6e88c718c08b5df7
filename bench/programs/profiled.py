"""Runs a program under torch.profiler with stacks: profiled.py PROGRAM."""
import runpy
import sys

import torch

with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], with_stack=True):
    runpy.run_path(sys.argv[1], run_name="__main__")
