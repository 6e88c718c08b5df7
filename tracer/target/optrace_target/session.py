"""The course of one traced call, from finding torch to handing over the recording."""
import gc
import importlib.util
import os
import sys

from .channel import Channel
from .description import interpreter_file, of_torch, shortfalls
from .problem import FAILED, USAGE, Problem, first_line


def run(descriptor):
    """Never returns: the process ends here, without the interpreter's slow way out."""
    channel = Channel(descriptor)
    try:
        _trace(channel)
    except Problem as problem:
        channel.send("problem", status=problem.status, what=problem.what, remedy=problem.remedy)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _trace(channel):
    channel.send("python", implementation=sys.implementation.name,
                 version=list(sys.version_info[:3]), executable=sys.executable,
                 torch=_torch_folder(), modules=[interpreter_file()])
    request = channel.receive()  # Sent at once: the command plans while torch is imported.
    torch = _import_torch()
    warnings = []
    if _version(torch.__version__) < (2, 6):
        warnings.append("torch %s is older than 2.6, the oldest that optrace is tested with."
                        % torch.__version__)
    if request["device"] == "cuda":
        _require_cuda(torch)
    from .agent import Agent
    from .resolve import Resolver

    torch.manual_seed(0)
    resolver = Resolver(torch, request["samples"], request["device"])
    call = resolver.resolve(request["op"])
    if call.note:
        warnings.append(call.note)
    backward = Backward(torch, call) if request["backward"] else None
    channel.send("ready")
    agent = Agent(request["agent"], request["use_jumps"])
    gc.disable()  # A collection in the middle of a recording would be part of it.
    hooked = True
    while True:
        order = channel.receive()
        if order["order"] == "finish":
            break
        for plan in order["plans"]:
            agent.place(plan)
        torch.manual_seed(0)
        hooked = _record(agent, call, backward)
        agent.write(order["recording"])
        channel.send("recorded")
    warnings += shortfalls(agent.counters(), hooked)
    channel.send("meta", meta={
        **of_torch(torch),
        "device": request["device"],
        "op": request["op"],
        "call": call.text + (backward.text if backward else ""),
        "inputs": call.inputs,
        "backward": backward is not None,
        "warnings": warnings,
    })


def _record(agent, call, backward):
    """One recorded call. Nothing but the call itself may run between start and stop."""
    function, arguments, keywords = call.prepare(backward is not None)
    start, stop = agent.start, agent.stop
    hooked = agent.python(True)
    try:
        if backward is None:
            started = start()
            result = function(*arguments, **keywords)
            stop()
        else:
            selection, reduced = backward.selection, backward.reduced
            started = start()
            result = function(*arguments, **keywords)
            for key in selection:
                result = result[key]
            if reduced:
                result = result.sum()
            result.backward()
            stop()
    except Exception as error:  # It worked as a sample, and now it did not.
        stop()
        raise Problem(FAILED, "%s failed while recording the call (%s)"
                      % (call.text, first_line(error)),
                      "See whether the same call works twice without optrace.") from error
    if hooked:
        agent.python(False)
    agent.check("recording", started)
    return hooked


class Backward:
    """What of an op's result is summed and run backward; found out once, outside recordings."""

    def __init__(self, torch, call):
        function, arguments, keywords = call.prepare(True)
        result = function(*arguments, **keywords)
        self.selection = []
        self.text = ""
        while isinstance(result, (tuple, list)) and result:
            # A module that returns (output, state): the first part that can be run backward.
            key = next((key for key, part in enumerate(result)
                        if not isinstance(part, torch.Tensor) or _differentiable(part)), 0)
            self.selection.append(key)
            self.text += "[%d]" % key
            result = result[key]
        if not isinstance(result, torch.Tensor) or not _differentiable(result):
            raise Problem(USAGE, "%s has no result that can be run backward" % call.text,
                          "Leave out --backward for this op.")
        self.reduced = result.dim() > 0
        if self.reduced:
            self.text += ".sum()"
            result = result.sum()
        self.text += ".backward()"
        try:
            result.backward()
        except Exception as error:  # Whatever a derivative may raise.
            raise Problem(FAILED, "%s%s failed (%s)" % (call.text, self.text, first_line(error)),
                          "Leave out --backward for this op.") from error


def _differentiable(tensor):
    return tensor.requires_grad and tensor.dtype.is_floating_point


def _torch_folder():
    try:
        found = importlib.util.find_spec("torch")
    except (ImportError, ValueError):
        return None
    # A folder that merely has the name is a namespace package: it has no origin.
    return os.path.dirname(found.origin) if found is not None and found.origin else None


def _import_torch():
    try:
        import torch
        torch._C._dispatch_get_all_op_names
    except Exception as error:  # A broken installation may raise anything.
        raise Problem(FAILED, "import torch failed in %s (%s)"
                      % (sys.executable, first_line(error)),
                      "Repair this torch, or choose another Python with --python.") from error
    return torch


def _version(text):
    parts = text.split(".")[:2]
    return tuple(int(part) for part in parts if part.isdigit())


def _require_cuda(torch):
    if torch.version.cuda is None:
        raise Problem(FAILED, "torch %s is built without CUDA" % torch.__version__,
                      "Trace on the CPU (leave out --device cuda), or choose a Python that has a "
                      "CUDA wheel with --python.")
    if not torch.cuda.is_available():
        raise Problem(FAILED, "this machine has no GPU that torch %s can use" % torch.__version__,
                      "Trace on the CPU (leave out --device cuda), or run this on a machine "
                      "with an NVIDIA GPU and driver.")
