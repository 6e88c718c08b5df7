"""Records what torch.compile fuses into each kernel that Inductor generates.

Inductor passes the nodes of a kernel to `define_kernel` of its code generators and keeps no record
of them. KernelOrigins replaces these methods by ones that call them and note the nodes. Inductor's
caches don't depend on the methods: their keys contain the text of PyTorch's files.
"""
import functools
import importlib
import re
import threading

# The code generators that define kernels, by their modules. Inductor imports these modules before
# it makes the first kernel, for a CPU and a GPU.
_GENERATORS = {"torch._inductor.codegen.cpp": "CppScheduling",
               "torch._inductor.codegen.triton": "TritonScheduling",
               "torch._inductor.codegen.simd": "SIMDScheduling"}
_METHOD = "define_kernel"
_MOST_FILES = 1000
_MOST_KERNELS = 1000  # Of one file.
_MOST_NODES = 200  # Of one kernel.
_MOST_NODES_OF_ALL = 20000
_LONGEST = 1000  # Characters of a name.
FRAME = re.compile(r'^ *File "(.+)", line (\d+), in ', re.MULTILINE)  # Of a traceback.


class KernelOrigins:
    """The nodes of the kernels that Inductor generates while the methods are replaced."""

    def __init__(self):
        self._originals = []  # Classes and their methods.
        self._latest = threading.local()  # Has the kernels of the graph of a thread.
        self._of_files = {}  # By file and kernel.
        self._left = _MOST_NODES_OF_ALL

    def begin_graph(self):
        """The thread is about to make Inductor generate the kernels of a graph. Replaces the
        methods if they are not replaced yet."""
        self._latest.kernels = {}  # There are some of another graph if its generation failed.
        if self._originals:
            return
        for module, name in _GENERATORS.items():
            generator = getattr(importlib.import_module(module), name, None)
            original = vars(generator or object).get(_METHOD)
            if original is not None:
                self._originals.append((generator, original))
                setattr(generator, _METHOD, self._noting(original))

    def remove(self):
        """Restores the methods. Leaves a method that others have replaced since, as they call this
        one."""
        for generator, original in self._originals:
            if getattr(vars(generator).get(_METHOD), "__wrapped__", None) is original:
                setattr(generator, _METHOD, original)
        self._originals = []

    def end_graph(self, file):
        """Inductor has generated the file with the kernels of the thread's graph, or has taken it
        from its cache; it then defined none."""
        kernels, self._latest.kernels = getattr(self._latest, "kernels", {}), {}
        if kernels and len(self._of_files) < _MOST_FILES:
            self._of_files[file] = kernels

    def of(self, file, kernel):
        """Returns `{"origins": [...]}` for a kernel: the nodes of the graph that were fused into
        it, in the order of the graph; empty if they are not known."""
        origins = self._of_files.get(file, {}).get(kernel)
        return {"origins": origins} if origins else {}

    def _noting(self, original):
        @functools.wraps(original)
        def define_kernel(scheduling, source, nodes, *arguments, **options):
            name = original(scheduling, source, nodes, *arguments, **options)
            try:
                self._note(name, nodes)
            except Exception:  # Another version's nodes.
                pass
            return name

        return define_kernel

    def _note(self, name, nodes):
        kernels = self._latest.__dict__.setdefault("kernels", {})
        if isinstance(name, str) and (name in kernels or len(kernels) < _MOST_KERNELS):
            known = kernels.setdefault(name, [])
            more = [origin for origin in map(_origin, _graph_nodes(nodes)) if origin not in known]
            more = more[:min(_MOST_NODES - len(known), self._left)]
            self._left -= len(more)
            known += more


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
    """Returns the file and line of the last frame of a traceback, as a dict; empty without one, or
    if it is Dynamo's own, which calls a module or a builtin for the program."""
    places = FRAME.findall(trace) if isinstance(trace, str) else []
    if not places or places[-1][0].endswith("/torch/_dynamo/external_utils.py"):
        return {}
    return {"file": places[-1][0][:_LONGEST], "line": int(places[-1][1])}


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
