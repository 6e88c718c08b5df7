"""Workloads of PyTorch's own OpInfo database: `op:add`, or `op:add+backward`.

An op is called with its first sample, on the CPU and in float32 if it supports that. The samples
and the backward pass are those of optrace's own target (target/python).
"""
import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "target/python"))

from optrace_target.calls.call import Backward, Call
from optrace_target.calls.opinfo import OpInfoDatabase

PREFIX = "op:"
_BACKWARD = "+backward"


class OpWorkloads:
    def __init__(self):
        self._database = OpInfoDatabase(torch, "cpu")

    def prepare(self, name):
        """Returns a function that makes a run of the op, which is a callable without arguments."""
        op, backward = name[len(PREFIX):], name.endswith(_BACKWARD)
        if backward:
            op = op[:-len(_BACKWARD)]
        infos = self._database.find(op)
        if not infos:
            raise LookupError(self._database.missing or "OpInfo has no " + op)
        positional, keywords, sample, process = next(
            self._database.samples(infos[0], backward))
        call = Call(sample, infos[0].op, positional, keywords, op, process=process)
        differentiate = Backward(torch, call).run if backward else None

        def fresh():
            run = call.prepare(backward)
            function, arguments, keywords = run.function, run.arguments, run.keywords
            if differentiate is None:
                return lambda: function(*arguments, **keywords)
            return lambda: differentiate(function(*arguments, **keywords))

        return fresh
