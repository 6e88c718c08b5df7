"""The sequence of traced calls, from finding torch to describing the recordings.

The command sends one request that applies to all calls, and then orders, each with one answer
except the first, the last, and that to record, which has two:

    {"order": "load", ...}                                               none
    {"order": "prepare", "op": ..., "backward": ..., "requires_grad": ...,
     "shapes": [[name, [2, 3]]], "dtypes": [[name, "float16"]], "input": ...,
     "compare": ..., "compile": ...}        "ready", its number, the modules that it loaded
    {"order": "record", "call": n, "plans": [...]}                       "recording", "recorded"
    {"order": "describe", "call": n}                                     "meta"
    {"order": "finish"}                                                  none: the process ends

The order to record comes with the memory that the recording is written to. The answer "recording"
tells that it is in use, so the command can read it from then on.

"load" is sent only before the first call on a GPU: a plan of cuDNN that the first, unrecorded run
creates is known if the agents are loaded by then. Elsewhere, the agents are loaded by "record".
Calls are numbered from 0 in the order in which they became ready. An order that fails is answered
by a "problem", and further orders may follow. With "compile", torch.compile compiles the call
before it is ready. With "compare", a call is run twice before it is
ready; calls prepared before the first recording are thereby compared with runs without any probe.
"""
import _socket
import collections.abc
import gc
import importlib.util
import os
import sys

from .calls.results import digest
from .connection import Connection
from .description import interpreter_file, of_torch, shortfalls
from .problem import FAILED, Problem, first_line
from .protocol import Key, Message, Order

_ATTENTION = "aten::scaled_dot_product_attention"


def run(descriptor):
    """Serves the command. Ends the process without the interpreter's slow shutdown."""
    connection = Connection(_socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, descriptor))
    try:
        try:
            _trace(connection)
        except Problem as problem:
            _report(connection, problem)
    except ConnectionError:  # The command has exited: the answer is not needed.
        os._exit(0)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _report(connection, problem):
    connection.send(Message.PROBLEM, {Key.STATUS: problem.status, Key.WHAT: problem.what,
                                      Key.REMEDY: problem.remedy})


def _trace(connection):
    connection.send(Message.PYTHON, {
        Key.IMPLEMENTATION: sys.implementation.name, Key.VERSION: list(sys.version_info[:3]),
        Key.TORCH: _torch_folder(), Key.MODULES: [interpreter_file()]})
    # Sent immediately: the command plans while torch is imported.
    request, _ = connection.receive_with_descriptors()
    torch = _import_torch()
    warnings = []
    if _version(torch.__version__) < (2, 6):
        warnings.append("torch %s is older than 2.6, the oldest that optrace is tested with."
                        % torch.__version__)
    if request[Key.DEVICE] == "cuda":
        _require_cuda(torch)
    tracer = _Tracer(torch, request, warnings, connection)
    orders: dict[str, collections.abc.Callable] = {
        Order.PREPARE: tracer.prepare, Order.RECORD: tracer.record, Order.DESCRIBE: tracer.describe}
    while True:
        message, descriptors = connection.receive_with_descriptors()
        if message[Key.ORDER] == Order.FINISH:
            return
        if message[Key.ORDER] == Order.LOAD:
            tracer.load_agents(message)
            continue
        try:
            answer, values = orders[message[Key.ORDER]](message, descriptors)
        except Problem as problem:
            _report(connection, problem)
            continue
        connection.send(answer, values)


class _Tracer:
    """Implements the orders."""

    def __init__(self, torch, request, warnings, connection):
        from .calls.resolve import Resolver

        self._torch = torch
        self._request = request
        self._warnings = warnings
        self._connection = connection
        self._resolver = Resolver(torch, request[Key.SAMPLES], request[Key.DEVICE])
        self._calls = []
        self._agent = None

    def prepare(self, order, _descriptors):
        from .calls.call_options import CallOptions

        torch = self._torch
        torch.manual_seed(0)
        options = CallOptions(torch, self._request[Key.DEVICE], order)
        call, backward = self._resolver.resolve(order[Key.OP], options)
        prepared = _PreparedCall(order[Key.OP], call, backward, options.requires_grad)
        modules = prepared.compile(torch) if order.get(Key.COMPILE) else []
        if order.get(Key.COMPARE):
            prepared.comparison = Comparison(prepared.digest_of_a_run(torch),
                                             prepared.digest_of_a_run(torch))
        self._calls.append(prepared)
        return Message.READY, {Key.CALL: len(self._calls) - 1, Key.MODULES: modules}

    def record(self, order, descriptors):
        """Records a call into the memory of the only descriptor."""
        [region] = descriptors
        try:
            self.load_agents(order)
            self._agent.share(region)
        finally:
            os.close(region)
        agent, call = self._agent, self._calls[order[Key.CALL]]
        agent.record_every_python_call()
        gc.disable()  # A collection during a recording would be recorded.
        for plan in order[Key.PLANS]:
            agent.place(plan)
        self._connection.send(Message.RECORDING)
        self._torch.manual_seed(0)
        call.record(self._torch, agent)
        return Message.RECORDED, {}

    def describe(self, order, _descriptors):
        from .op_records import dispatch_tables

        prepared = self._calls[order[Key.CALL]]
        call, backward = prepared.call, prepared.backward
        warnings = self._warnings + ([call.note] if call.note else [])
        warnings += shortfalls(self._agent.counters(), prepared.hooked)
        meta = {
            **of_torch(self._torch),
            **dispatch_tables(self._torch, order[Key.OPS]),
            "device": self._request[Key.DEVICE],
            "op": prepared.op,
            "call": call.text + (backward.text if backward else ""),
            "inputs": call.inputs,
            "sample_from": call.sample_from,
            "backward": backward is not None,
            "warnings": warnings,
            "shortfalls": {} if prepared.hooked else {"python_frames_off": 1},
            **prepared.compiled,
        }
        if prepared.comparison is not None:
            meta["comparison"] = prepared.comparison.outcome()
        if _ATTENTION in order[Key.OPS] and not prepared.compiled:
            meta["attention"] = prepared.attention_backends(self._torch)
        prepared.call = None  # Frees its tensors, which are no longer needed.
        return Message.META, {Key.META: meta}

    def load_agents(self, order):
        """Loads the agents unless they are loaded."""
        if self._agent is not None:
            return
        from .agent import Agent

        self._agent = Agent(self._request[Key.AGENT], self._request[Key.USE_JUMPS])
        if order[Key.OP_AGENT]:
            self._warnings += self._agent.record_ops(order[Key.OP_AGENT], order[Key.TENSORS])
        if order[Key.ACTIVITY_AGENT]:
            self._warnings += self._agent.record_device_activity(order[Key.ACTIVITY_AGENT])
        if order[Key.CUDA_CALLS_AGENT]:
            self._warnings += self._agent.record_cuda_calls(order[Key.CUDA_CALLS_AGENT])


class _PreparedCall:
    def __init__(self, op, call, backward, requires_grad):
        self.op = op
        self.call = call
        self.backward = backward
        self.comparison = None  # A Comparison if requested.
        self.hooked = True
        self.compiled = {}  # What torch.compile made of it.
        self._requires_grad = requires_grad or backward is not None

    def compile(self, torch):
        """Compiles the call. Returns the libraries with the kernels that it loaded."""
        from .compiled.compilations import Compilations

        text, compilations = self.call.text, Compilations()
        compilations.start()
        try:
            self.call.compile(torch)
            for _ in range(2):  # The second run shows that no guard fails.
                self._run(torch)
        except Exception as error:  # The compiler may raise any exception.
            raise Problem(FAILED, "torch.compile can't compile %s (%s)" % (text, first_line(error)),
                          "Trace the op without --compile.") from error
        finally:
            compilations.stop()
        self.compiled = compilations.meta()
        return [kernel["library"] for generated in self.compiled["generated_code"]
                for kernel in generated["kernels"] if "library" in kernel]

    def digest_of_a_run(self, torch):
        """Returns the digest of an untraced run of the call."""
        run, result = self._run(torch)
        return digest(torch, run.outcome(result))

    def attention_backends(self, torch):
        """Returns why the call uses none of the other backends of attention: an empty list if this
        torch doesn't tell."""
        from .calls.attention_backends import AttentionBackends

        run = self.call.prepare(self._requires_grad)
        torch.manual_seed(0)
        try:
            return AttentionBackends(torch).of_run(run)
        except Exception:  # Another version's switches, or a call that works only once.
            return []

    def _run(self, torch):
        run = self.call.prepare(self._requires_grad)
        torch.manual_seed(0)
        result = run.function(*run.arguments, **run.keywords)
        if self.backward is not None:
            self.backward.run(result)
        return run, result

    def record(self, torch, agent):
        """Records one call. Only the call itself may run between start and stop."""
        run = self.call.prepare(self._requires_grad)
        function, arguments, keywords = run.function, run.arguments, run.keywords
        torch.manual_seed(0)
        start, stop = agent.start, agent.stop
        self.hooked = agent.python(True)
        try:
            if self.backward is None:
                started = start()
                result = function(*arguments, **keywords)
                stop()
            else:
                selection, process = self.backward.selection, self.backward.process
                real, reduction = self.backward.real, self.backward.reduction
                ones_like, gradient = self.backward.ones_like, None
                started = start()
                whole = result = function(*arguments, **keywords)
                if process is not None:
                    result = process(result)
                for key in selection:
                    result = result[key]
                if real:
                    result = result.real
                if reduction == "sum":
                    result = result.sum()
                elif reduction == "gradient":
                    gradient = ones_like(result)
                result.backward(gradient)
                stop()
                result = whole
        except Exception as error:  # It succeeded as a sample but fails now.
            stop()
            raise Problem(FAILED, "%s failed while recording the call (%s)"
                          % (self.call.text, first_line(error)),
                          "Check that the same call works twice without optrace.") from error
        finally:
            if self.hooked:
                agent.python(False)
        agent.check("recording", started)
        if self.comparison is not None:
            self.comparison.add(digest(torch, run.outcome(result)))


class Comparison:
    """Compares the results of traced and untraced runs of a call."""

    def __init__(self, first, second):
        self._untraced = first
        self._repeatable = first == second
        self._equal = True

    def add(self, traced):
        self._equal = self._equal and traced == self._untraced

    def outcome(self):
        """`repeatable`: untraced runs gave equal results; otherwise `equal` has no meaning."""
        return {"repeatable": self._repeatable, "equal": self._equal}


def _torch_folder():
    try:
        found = importlib.util.find_spec("torch")
    except (ImportError, ValueError):
        return None
    # A folder of that name without a module is a namespace package: it has no origin.
    return os.path.dirname(found.origin) if found is not None and found.origin else None


def _import_torch():
    try:
        import torch
        _ = torch._C._dispatch_get_all_op_names
    except Exception as error:  # A broken installation may raise any exception.
        raise Problem(FAILED, "torch can't be imported in %s (%s)"
                      % (sys.executable, first_line(error)),
                      "Repair this torch, or choose another Python with --python.") from error
    return torch


def _version(text):
    parts = text.split(".")[:2]
    return tuple(int(part) for part in parts if part.isdigit())


def _require_cuda(torch):
    if torch.version.cuda is None:
        raise Problem(FAILED, "torch %s is built without CUDA" % torch.__version__,
                      "Trace on the CPU (omit --device cuda), or choose a Python that has a "
                      "CUDA wheel with --python.")
    try:
        # Raises an error with the reason if impossible: no driver, or one that is too old.
        torch.cuda.init()
    except Exception as error:
        what = "this machine has no GPU that torch %s can use: %s" % (torch.__version__,
                                                                       first_line(error))
        remedy = ("Trace on the CPU (omit --device cuda), or without a GPU (--dry-run), or "
                  "run this on a machine with an NVIDIA GPU and driver.")
        if "too old" in str(error):
            remedy = ("CUDA %s needs a driver of the same major version or later: update the "
                      "driver, or trace without it (--dry-run)." % torch.version.cuda)
        raise Problem(FAILED, what, remedy) from error
