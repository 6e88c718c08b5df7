"""Records what torch.compile fuses into each kernel that Inductor generates, and what it does not.

Inductor passes the nodes of a kernel to `define_kernel` of its code generators, and a reason
against a fusion to WhyNoFuse, which only logs it. It keeps no record of either. KernelOrigins
replaces these methods by ones that call them and note what they get. Inductor's caches don't
depend on the methods: their keys contain the text of PyTorch's files.
"""
import functools
import importlib
import os
import re
import sys
import threading

from .schedule import Schedule

# The methods that are replaced: of the code generators that define kernels, for a CPU and a GPU,
# and of the scheduler. Inductor imports these modules before it makes the first kernel.
_METHODS = [("torch._inductor.codegen.cpp", "CppScheduling", "define_kernel"),
            ("torch._inductor.codegen.triton", "TritonScheduling", "define_kernel"),
            ("torch._inductor.codegen.simd", "SIMDScheduling", "define_kernel"),
            ("torch._inductor.scheduler", "Scheduler", "codegen"),
            ("torch._inductor.scheduler", "WhyNoFuse", "__call__")]
_MOST_FILES = 1000
_MOST_KERNELS = 1000  # Of one file.
_MOST_NODES = 200  # Of one kernel.
_MOST_NODES_OF_ALL = 20000
_LONGEST = 1000  # Characters of a name.
FRAME = re.compile(r'^ *File "(.+)", line (\d+), in ', re.MULTILINE)  # Of a traceback.


class _Graph:
    """What is noted of a graph while Inductor generates its kernels."""

    def __init__(self):
        self.kernels = {}  # The origins, by kernel.
        self.schedule = Schedule()


class KernelOrigins:
    """The nodes of the kernels that Inductor generates while the methods are replaced."""

    def __init__(self):
        self._originals = []  # Classes, names of methods, and these methods.
        self._latest = threading.local()  # Has the graph of a thread.
        self._of_files = {}  # Graphs by file.
        self._nodes = {}  # Of the graphs that Inductor's cache had code for, by file.
        self._left = _MOST_NODES_OF_ALL

    def begin_graph(self):
        """The thread is about to make Inductor generate the kernels of a graph. Replaces the
        methods if they are not replaced yet."""
        self._latest.graph = _Graph()  # There is one if the generation of another graph failed.
        if self._originals:
            return
        notes = {"define_kernel": self._record_kernel, "codegen": self._record_schedule,
                 "__call__": self._record_reason}
        for module, name, method in _METHODS:
            owner = getattr(importlib.import_module(module), name, None)
            original = vars(owner or object).get(method)
            if callable(original):
                self._originals.append((owner, method, original))
                setattr(owner, method, _noting(original, notes[method]))

    def remove(self):
        """Restores the methods. Leaves a method that others have replaced since, as they call this
        one."""
        for owner, method, original in self._originals:
            if getattr(vars(owner).get(method), "__wrapped__", None) is original:
                setattr(owner, method, original)
        self._originals = []

    def end_graph(self, file, compiled=None):
        """Inductor has generated the file with the kernels of the thread's graph, or has taken it
        from its cache; it then defined none. `compiled` is the graph that it was asked for."""
        graph, self._latest.graph = self._graph(), _Graph()
        graph.schedule.end()
        if graph.kernels and len(self._of_files) < _MOST_FILES:
            self._of_files[file] = graph
        elif not graph.kernels and compiled is not None:
            nodes = [_origin(node) for node in compiled.nodes if node.op != "placeholder"]
            nodes = nodes[:self._left]
            self._left -= len(nodes)
            self._nodes[file] = nodes

    def nodes(self, file):
        """Returns `{"nodes": [...]}` for a file from Inductor's cache: the nodes of the graph, for
        another program may have put the file there. Empty for other files."""
        return {"nodes": self._nodes[file]} if file in self._nodes else {}

    def of(self, file, kernel):
        """Returns `{"origins": [...]}` for a kernel: the nodes of the graph that were fused into
        it, in the order of the graph; empty if they are not known."""
        graph = self._of_files.get(file)
        origins = graph.kernels.get(kernel) if graph else None
        return {"origins": origins} if origins else {}

    def not_fused(self, file):
        """Returns `{"not_fused": [...]}` for a generated file: the kernels that use a result of
        another one but were not fused with it; empty if that is not known."""
        graph = self._of_files.get(file)
        return {"not_fused": graph.schedule.not_fused} if graph else {}

    def _graph(self):
        return self._latest.__dict__.setdefault("graph", _Graph())

    def _record_kernel(self, name, scheduling, source, nodes, *arguments, **options):
        if not isinstance(name, str):
            return
        graph = self._graph()
        graph.schedule.record_kernel(name, nodes)
        kernels = graph.kernels
        if name in kernels or len(kernels) < _MOST_KERNELS:
            known = kernels.setdefault(name, [])
            more = [origin for origin in map(_origin, _graph_nodes(nodes)) if origin not in known]
            more = more[:min(_MOST_NODES - len(known), self._left)]
            self._left -= len(more)
            known += more

    def _record_schedule(self, result, scheduler):
        self._graph().schedule.record_nodes(scheduler.nodes)

    def _record_reason(self, result, pair, reason, *arguments):
        self._graph().schedule.record_reason(pair, reason, arguments)


def _noting(original, note):
    """Returns the method, which then calls `note` with its result and its arguments."""
    @functools.wraps(original)
    def method(*arguments, **options):
        result = original(*arguments, **options)
        try:
            note(result, *arguments, **options)
        except Exception:  # Another version's arguments.
            pass
        return result

    return method


def _graph_nodes(nodes):
    """Returns the nodes of the graph that the scheduler's nodes compute, in the graph's order.
    Entries of a schedule that only control loops have none."""
    found = {}
    for node in nodes:
        for part in node.get_nodes() if hasattr(node, "get_nodes") else ():
            for origin in getattr(part.node, "origins", ()):
                if origin.op != "placeholder":
                    found[origin] = None
    return sorted(found)


def program_line(trace):
    """Returns the file and line of the last frame of a traceback that is not in torch, as a dict;
    empty if there is none."""
    folder = os.path.dirname(sys.modules["torch"].__file__) + os.sep
    places = [place for place in FRAME.findall(trace) if not place[0].startswith(folder)] \
        if isinstance(trace, str) else []
    return {"file": places[-1][0][:_LONGEST], "line": int(places[-1][1])} if places else {}


def _origin(node):
    """Returns where a node of the graph comes from: the op, the line of the program, and the
    innermost nn.Module; without those that PyTorch does not know."""
    origin: dict = {"node": str(node.name)[:_LONGEST]}
    op = node.meta.get("original_aten")
    if op is not None:
        origin["op"] = op.name()[:_LONGEST]
    origin.update(program_line(node.meta.get("stack_trace")))
    modules = list((node.meta.get("nn_module_stack") or {}).values())
    if modules:
        origin["module"] = str(modules[-1][0])[:_LONGEST]
    return origin
