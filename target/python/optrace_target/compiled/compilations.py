"""Records what torch.compile compiles: its graphs, graph breaks, recompilations, and their times.

PyTorch describes each compilation in structured records to the logger `torch.__trace`
(torch/_logging/_internal.py), the same that TORCH_TRACE writes to files. It makes them only if the
logger has handlers. Making all of them takes time and may warn, which fails where warnings are
errors. So the logger gets no handler but a list of handlers that hears when trace_structured() asks
whether there are any: it then takes the few records that are needed and answers as before. The
records don't tell what was fused into a kernel; kernel_origins.py adds that. docs/trace-format.md
describes the result.
"""
import logging
import os
import re
import sys
import types

from .cpp_wrappers import KERNEL_RECORD, RECORDS, kernels_of, models
from .graph_modules import graph_module_code
from .kernel_origins import FRAME, KernelOrigins, program_line
from .triton_kernels import TritonKernels

_LOGGER = "torch.__trace"
_MOST = 1000  # Compilations, generated files, and kernels of one file.
_MOST_CALLS = 20000  # Of all generated files.
_MOST_OF_ONE = 20  # Breaks, and reasons, of one compilation.
_LONGEST = 1000  # Characters of a text.
_OF_TRITON = "torch._inductor.runtime.triton_heuristics"  # The module of its kernels' class.
_ONE_KERNEL = "kernel"  # The function of a library with one C++ kernel.
_LONGEST_SOURCE = 1 << 20  # Characters of a generated C++ file that are searched for its kernel.
_KERNEL = re.compile(r'^extern "C"[^\n(]*\bkernel\(', re.MULTILINE)
_ASSIGNMENT = re.compile(r"^(\w+) = ", re.MULTILINE)
_BREAK = re.compile(r"^Graph break in user code at (.+):(\d+)$", re.MULTILINE)
_REASON = re.compile(r"^(?:Graph Break )?Reason: (.*?)(?:^User code traceback:|\Z)",
                     re.MULTILINE | re.DOTALL)
# The keys of compilation_metrics with the times of a compilation's parts, in microseconds.
_TIMES = {"time": "duration_us", "backend_time": "aot_autograd_cumulative_compile_time_us",
          "inductor_time": "inductor_cumulative_compile_time_us",
          "code_generation_time": "inductor_code_gen_cumulative_compile_time_us",
         "compiler_time": "triton_compile_time_us"}
_CACHE = "fx_graph_cache_"
# The record of a graph for which Inductor then makes kernels. On a hit of its cache, 2.6 has no
# such record. Later versions make it an artifact.
_BEFORE_KERNELS = "inductor_post_grad_graph"
_NAMED = {"artifact", "graph_dump"}  # Their names are in their descriptions.
_KINDS = {"str", *_NAMED, "dynamo_start", "inductor_output_code", "compilation_metrics",
          "bwd_compilation_metrics", _BEFORE_KERNELS}


class _Handlers(list):
    """A logger's handlers. `hear` is called with the frame that asks whether there are any."""

    def __init__(self, handlers, hear):
        super().__init__(handlers)
        self._hear = hear

    def __bool__(self):
        try:
            self._hear(sys._getframe(1))
        except Exception:  # Another version's record.
            pass
        return len(self) > 0


class _Modules(list):
    """The modules that Inductor has loaded. Those that it forgets are kept in `forgotten`: with its
    caches switched off, it forgets them after each compilation."""

    def __init__(self, modules):
        super().__init__(modules)
        self.forgotten = []

    def clear(self):
        self.forgotten += self[:_MOST - len(self.forgotten)]
        super().clear()


class Compilations:
    """The compilations from start() to stop()."""

    def __init__(self):
        self._records = []
        self._current = {}  # The latest record of each compile ID.
        self._reasons = {}  # Of compilations that have not begun, by compile ID.
        self._file_names = {}  # By number; torch/_logging/structured.py.
        self._origins = KernelOrigins()
        self._triton = TritonKernels()
        self._models = {}  # AOTInductor's C++ files of each graph, by the first of them.
        self._latest_model = []
        self._forgotten = []  # Modules.

    def start(self):
        logger = logging.getLogger(_LOGGER)
        logger.handlers = _Handlers(logger.handlers, self._hear)

    def stop(self):
        logger = logging.getLogger(_LOGGER)
        logger.handlers = list(logger.handlers)
        self._forgotten = _leave_modules()
        self._origins.remove()
        self._triton.remove()

    def meta(self):
        """Returns the part of a trace's meta that describes the compilations, and forgets them."""
        modules = _generated_modules(self._forgotten)
        self._forgotten = []
        return {"compilations": self._take(),
                "generated_code": self._generated_code(modules) + graph_module_code(),
                **self._triton.meta(modules)}

    def _generated_code(self, modules):
        generated = _generated_files(modules, self._origins)
        libraries = {kernel["library"] for each in generated for kernel in each["kernels"]
                     if "library" in kernel}
        for model in models(self._models, libraries):
            for kernel in model["kernels"]:
                kernel.update(self._origins.of(model["file"], kernel["name"]))
            generated.append(model)
        return generated

    def _take(self):
        structured = sys.modules.get("torch._logging.structured")
        for name, number in dict(getattr(structured, "INTERN_TABLE", {})).items():
            self._file_names.setdefault(number, name)
        # A compilation that has reasons and never began was refused.
        for identifier in self._reasons:
            frame = identifier.partition("/")[0]
            before = [one for one in self._records if one["id"].partition("/")[0] == frame]
            if before:
                before[-1]["recompile_limit"] = True
        records, self._records, self._current, self._reasons = self._records, [], {}, {}
        for record in records:
            if isinstance(record.get("file"), int):
                record["file"] = _short(self._file_names.get(record["file"], ""))
        return records

    def _hear(self, frame):
        if frame.f_code.co_name != "trace_structured":
            return
        call = frame.f_locals
        kind = call["name"]
        if kind not in _KINDS:
            return
        described = call["metadata_fn"]()
        if kind == "str":
            name, number = described
            self._file_names[number] = name
            return
        name = described.get("name", "") if kind in _NAMED else kind
        if name == _BEFORE_KERNELS:
            _keep_modules()
            self._origins.begin_graph()
            self._triton.watch()
        if name == "inductor_output_code":
            self._origins.end_graph(described["filename"], _compiled_graph(frame))
            self._triton.watch()
        elif name in RECORDS:
            self._origins.end_graph(described["filename"])
            self._latest_model = self._models.setdefault(described["filename"], [])
        if name in RECORDS or name == KERNEL_RECORD:
            self._latest_model.append(described["filename"])
        trace = sys.modules["torch._guards"].CompileContext.current_trace_id()
        compiled = trace.compile_id if trace else call.get("compile_id")
        if compiled is not None and compiled.frame_id is not None:
            identifier = "%s/%s" % (compiled.frame_id, compiled.frame_compile_id)
            self._add(identifier, name, described, call["payload_fn"],
                      trace.attempt if trace else 0, frame)

    def _add(self, identifier, name, described, payload, attempt, frame):
        if name == "dynamo_start":
            self._begin(identifier, described["stack"][-1], attempt)
        elif name == "recompile_reasons":
            self._reasons[identifier] = _reasons(payload())
        record = self._current.get(identifier)
        if record is None:
            return
        if name == "dynamo_graph_break_reason":
            _append(record["breaks"], _graph_break(payload()))
        elif name == "inductor_output_code":
            _append(_graph_of(record, frame)["generated"], described["filename"])
        elif name.startswith(_CACHE):
            record["cache"] = name[len(_CACHE):]
        elif name == "compilation_metrics":
            _add_metrics(record, described)
        elif name == "bwd_compilation_metrics":
            _add_metrics(record, {**described, "is_forward": False})

    def _begin(self, identifier, code, attempt):
        """A compilation begins, or its next attempt, which continues to the break before."""
        if attempt and identifier in self._current:
            return
        reasons = self._reasons.pop(identifier, [])
        if len(self._records) == _MOST:
            self._current.pop(identifier, None)
            return
        record = {"id": identifier, "function": _short(code["name"]), "file": code["filename"],
                  "line": code["line"], "breaks": [], "recompile_reasons": reasons,
                  "called_from": _place_of_call(), "generated": []}
        self._records.append(record)
        self._current[identifier] = record


def _graph_of(record, frame):
    """Returns the part of a compilation's record that is about the graph whose code Inductor makes:
    all of it, or `backward`."""
    if not _is_backward(frame):
        return record
    return record.setdefault("backward", {"generated": [], "called_from": _place_of_call()})


def _place_of_call():
    """Returns the line of a program that makes Dynamo compile, or AOTAutograd a backward graph: of
    the innermost frame above Dynamo's callback that is not in torch. The callback is the outermost
    `__call__` of convert_frame.py."""
    folder = os.path.dirname(sys.modules["torch"].__file__) + os.sep
    callbacks = os.path.join(folder, "_dynamo", "convert_frame.py")
    place, frame = None, sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if file == callbacks and frame.f_code.co_name == "__call__":
            place = None
        elif place is None and not file.startswith(folder) and frame.f_globals is not globals():
            place = {"file": _short(file), "line": frame.f_lineno}
        frame = frame.f_back
    return place


def _is_backward(frame):
    """Returns true if Inductor makes the code of a backward graph or takes it from a cache. The
    objects that do so tell; else AOTAutograd's name of the graph does."""
    while frame is not None:
        maker = frame.f_locals.get("self")
        if type(maker).__module__.startswith(("torch._inductor.", "torch._functorch.")):
            for name in ("is_backward", "_is_backward"):  # Of a graph, and of a cache's entry.
                backward = getattr(maker, name, None)
                if backward is not None:
                    return bool(backward() if callable(backward) else backward)
        frame = frame.f_back
    names = sys.modules.get("torch._functorch._aot_autograd.logging_utils")
    return any(name.endswith("_backward") for name in getattr(names, "graph_being_compiled", ()))


def _compiled_graph(frame):
    """Returns the graph that Inductor compiles, of the innermost of its functions that has it; None
    if none has."""
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("torch._inductor."):
            graph = getattr(frame.f_locals.get("gm"), "graph", None)
            if graph is not None:
                return graph
        frame = frame.f_back
    return None


def _module_cache():
    return getattr(sys.modules.get("torch._inductor.codecache"), "PyCodeCache", None)


def _keep_modules():
    cache = _module_cache()
    if type(getattr(cache, "modules", None)) is list:
        cache.modules = _Modules(cache.modules)


def _leave_modules():
    """Returns the modules that Inductor has forgotten since _keep_modules()."""
    cache = _module_cache()
    modules = getattr(cache, "modules", None)
    if not isinstance(modules, _Modules):
        return []
    cache.modules = list(modules)
    return modules.forgotten


def _generated_modules(forgotten):
    """Returns the Python files that Inductor generated and loaded, as modules by path."""
    modules = forgotten + list(getattr(_module_cache(), "modules", ()))
    return {module.__file__: module for module in modules[:_MOST]
            if isinstance(getattr(module, "__file__", None), str)}


def _generated_files(modules, origins):
    """Returns what Inductor's generated files call: the names of the kernels, by their libraries,
    with what was fused into each if Inductor made them during the trace, and for each call the line
    of the program that it comes from."""
    line_maps = getattr(_module_cache(), "linemaps", {})
    generated, left = [], _MOST_CALLS
    for file, module in modules.items():
        calls = _calls(line_maps.get(file))[:left]
        left -= len(calls)
        kernels = _kernels(module)
        definitions = _definitions(file, [kernel["name"] for kernel in kernels
                                          if "source" not in kernel])
        for kernel in kernels:
            kernel.update(origins.of(file, kernel["name"]))
            kernel.setdefault("source", definitions.get(kernel["name"], {}))
        generated.append({"file": file, "kernels": kernels, "calls": calls,
                          **origins.not_fused(file), **origins.nodes(file)})
    return generated


def _kernels(module):
    torch_folder = os.path.dirname(sys.modules["torch"].__file__) + os.sep
    kernels = []
    for name, value in list(vars(module).items()):
        library = isinstance(value, types.BuiltinFunctionType) and value.__self__
        file = getattr(library, "__file__", None) if isinstance(library, types.ModuleType) else None
        if isinstance(file, str) and not file.startswith(torch_folder):
            if value.__name__ == _ONE_KERNEL:
                kernels.append({"name": _short(name), "library": file, "source": _source_of(file)})
            else:  # A whole graph in C++.
                kernels += kernels_of(file)
        elif type(value).__module__ == _OF_TRITON:
            kernels.append({"name": _short(name)})
        if len(kernels) >= _MOST:
            break
    return kernels[:_MOST]


def _source_of(library):
    """Returns where the C++ kernel of a library is defined: Inductor keeps the file beside it."""
    file = os.path.splitext(library)[0] + ".cpp"
    try:
        with open(file, encoding="utf-8", errors="replace") as source:
            text = source.read(_LONGEST_SOURCE)
    except OSError:
        return {}
    definition = _KERNEL.search(text)
    return {"file": file, "line": 1 + text.count("\n", 0, definition.start() if definition else 0)}


def _definitions(file, names):
    """Returns where a generated Python file defines the kernels with these names."""
    if not names:
        return {}
    try:
        with open(file, encoding="utf-8", errors="replace") as source:
            text = source.read(_LONGEST_SOURCE)
    except OSError:
        return {}
    return {found.group(1): {"file": file, "line": 1 + text.count("\n", 0, found.start())}
            for found in _ASSIGNMENT.finditer(text) if found.group(1) in names}


def _calls(line_map):
    """`line_map` has the lines of a generated file, and for each the traceback of the program's
    line, or None; without a map it is empty."""
    return [{"line": line, "origin": program_line(trace)}
            for line, trace in zip(*line_map or ((), ()))]


def _add_metrics(record, metrics):
    times = {key: metrics[name] * 1000 for key, name in _TIMES.items()
             if isinstance(metrics.get(name), int)}
    if metrics.get("is_forward") is False:
        record.setdefault("backward", {}).update(times)
        return
    record.update(times)
    if isinstance(metrics.get("graph_op_count"), int):
        record["graph_ops"] = metrics["graph_op_count"]
    if metrics.get("fail_type"):
        record["failure"] = _short("%s: %s" % (metrics["fail_type"], metrics.get("fail_reason")))


def _graph_break(text):
    """Returns a break: the user's line, and PyTorch's reason for it in one line."""
    place = _BREAK.search(text)
    places = [place.groups()] if place else FRAME.findall(text.partition("\nTraceback")[0])
    file, line = places[-1] if places else ("", "0")
    reason = _REASON.search(text)
    lines = [each.strip() for each in (reason.group(1) if reason else text).splitlines()
             if each.strip()]
    # The first line may only introduce the reason.
    if len(lines) > 1 and lines[0].endswith(":"):
        del lines[0]
    what = lines[0] if lines else ""
    if len(lines) > 1 and lines[1].startswith("Explanation: "):
        what += ": " + lines[1].partition(": ")[2]
    return {"file": _short(file), "line": int(line), "reason": _short(_plain(what))}


def _plain(reason):
    start = "Unsupported: "
    return reason[len(start):] if reason.startswith(start) else reason


def _reasons(reasons):
    """Returns the reasons of a recompilation: a list, or in later versions than 2.6 a text."""
    reasons = reasons if isinstance(reasons, list) else [reasons]
    return [_short(reason) for reason in reasons[:_MOST_OF_ONE]]


def _append(values, value):
    if len(values) < _MOST_OF_ONE and value not in values:
        values.append(value)


def _short(text):
    text = str(text)
    return text if len(text) <= _LONGEST else text[:_LONGEST - 1] + "\u2026"
