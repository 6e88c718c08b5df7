"""Describes the Triton kernels of a process: Inductor's, and those of the program itself.

Triton and Inductor keep the kernels that they compiled, so these are read when a recording ends.
Only of the configurations that Inductor's autotuning tries do the others than the fastest not
remain. TritonKernels replaces the method that chooses it, which runs once for a kernel, by one that
calls it and notes them, and has Inductor tell it the choices among templates. docs/trace-format.md
describes the result.
"""
import ast
import functools
import gc
import inspect
import linecache
import os
import sys

_INDUCTOR = "torch._inductor.runtime.triton_heuristics"
_METHOD = "autotune_to_one_config"
_SELECTION = "torch._inductor.select_algorithm"
_TEMPLATE = "TritonTemplateCaller"  # Its class of a choice that is a Triton kernel.
_OF_PROGRAM = "USER_AUTOTUNE"  # Inductor's kind of kernels that the program defines.
# Triton's classes, by their modules.
_CLASSES = {"JITFunction": "triton.runtime.jit", "Autotuner": "triton.runtime.autotuner",
            "CompiledKernel": "triton.compiler.compiler"}
_MOST = 1000  # Kernels.
_MOST_OF_ONE = 100  # Configurations of a kernel, and constants of a configuration.
_LONGEST = 200  # Characters of a constant.
_LARGEST = 1 << 62  # A trace's numbers have 64 bits.
_SPILL = 4  # Bytes: Triton divides a kernel's local memory by this, and calls it spills.


class TritonKernels:
    """The kernels, and what autotuning did since watch()."""

    def __init__(self):
        self._original = None  # The replaced method.
        self._tried = {}  # Configurations, by the file and name of an Inductor kernel.
        self._templates = []  # The configurations of each choice among templates.
        self._selector = None  # It calls _record_templates().
        self._not_described = 0

    def watch(self):
        """Replaces the method if it is not replaced yet and Inductor has loaded its module, and
        listens to choices among Inductor's templates."""
        if self._selector is None and _imported(_SELECTION, "add_feedback_saver") is not None:
            sys.modules[_SELECTION].add_feedback_saver(self._record_templates)
            self._selector = _imported(_SELECTION, "_ALGORITHM_SELECTOR_CACHE")
        autotuner = _imported(_INDUCTOR, "CachingAutotuner")
        original = vars(autotuner or object).get(_METHOD)
        if original is not None and self._original is None:
            self._original = original
            setattr(autotuner, _METHOD, self._noting(original))

    def remove(self):
        """Restores the method. Leaves one that others have replaced since, as it calls this one."""
        listeners = getattr(self._selector, "feedback_saver_fns", [])
        if self._record_templates in listeners:
            listeners.remove(self._record_templates)
        self._selector = None
        autotuner = _imported(_INDUCTOR, "CachingAutotuner")
        if self._original is not None and getattr(
                vars(autotuner).get(_METHOD), "__wrapped__", None) is self._original:
            setattr(autotuner, _METHOD, self._original)
        self._original = None

    def _noting(self, original):
        @functools.wraps(original)
        def autotune_to_one_config(autotuner, *arguments, **options):
            if len(self._tried) < _MOST:
                self._tried.update(self._all(_tried_by, [autotuner]))
            return original(autotuner, *arguments, **options)

        return autotune_to_one_config

    def _record_templates(self, times, *_):
        """Called with the choices among templates and libraries for a graph's node, and the times
        that Inductor measured."""
        tried = self._all(_of_template, [choice for choice in times
                                         if type(choice).__name__ == _TEMPLATE])
        if len(tried) > 1 and len(self._templates) < _MOST:
            self._templates.append(tried[:_MOST_OF_ONE])

    def meta(self, generated):
        """Returns the part of a trace's meta that describes the kernels. `generated` has the files
        that Inductor generated, as modules by path."""
        inductors = _autotuners(generated)
        copies = {id(one.fn) for one, _ in inductors}
        instances = _instances()
        definitions = [one for one in instances["JITFunction"] if id(one) not in copies]
        kernels = []
        for launched in self._all(_launched, [inductors]):
            kernels += self._all(self._of_inductor, launched, definitions)
        for functions in self._all(_functions, [instances], copies):
            kernels += self._all(_of_function, functions)
        missing = {"triton_kernels": self._not_described}
        return {"triton_kernels": kernels[:_MOST],
                **({"shortfalls": missing} if self._not_described else {})}

    def _all(self, describe, values, *more):
        """Returns the descriptions of values, without those of another version's that fail."""
        described = []
        for value in values:
            try:
                one = describe(value, *more)
            except Exception:
                self._not_described += 1
                continue
            if one:
                described.append(one)
        return described

    def _of_inductor(self, launched, definitions):
        autotuner, generated = launched
        chosen = _of_launchers(autotuner)
        if not chosen:
            return None  # It never ran.
        place = _generated_place(autotuner)
        tried = self._tried.get(place, []) if place[0] else []
        configurations = chosen
        if len(tried) > 1:
            configurations = _with_choice(tried, chosen)
        elif generated:  # Not one that only a benchmark launched.
            configurations = _among_templates(self._templates, chosen)
        function = None
        if getattr(autotuner.heuristic_type, "name", "") == _OF_PROGRAM:
            function = _definition_of(autotuner.fn, definitions)
        definition = _definition(function) if function else _generated_definition(autotuner)
        launched_by = {"generated_file": generated} if generated else {}
        return {"name": autotuner.fn.__name__, **launched_by, **definition,
                "configurations": configurations}


def _autotuners(generated):
    """Returns Inductor's kernels, each with the path of a generated file that has it."""
    return [(value, file) for file, module in generated.items()
            for value in list(vars(module).values())
            if type(value).__module__ == _INDUCTOR and hasattr(value, "launchers")
            and hasattr(value, "fn")]


def _launched(autotuners):
    """Returns the kernels with the paths of the files that launch them. The file that defines a
    kernel launches nothing; if no other one has it, Inductor launched it to measure its time, and
    the path is empty."""
    launched = [(one, file) for one, file in autotuners if _generated_place(one)[0] != file]
    places = {_generated_place(one) for one, _ in launched}
    return launched + [(one, "") for one, _ in autotuners if _generated_place(one) not in places]


def _functions(instances, copies):
    """Returns the functions that Triton compiled for others than Inductor, whose functions have the
    ids `copies`: for each the kernel's name, the function, the kernels that were compiled of it,
    and the configurations that autotuning chose."""
    winners = {}  # By the id of a kernel's Python function.
    for autotuner in instances["Autotuner"]:
        if len(autotuner.configs) > 1:
            winners.setdefault(id(autotuner.base_fn), []).extend(autotuner.cache.values())
    found = {}
    for kernel in instances["CompiledKernel"]:
        function = getattr(kernel.src, "fn", None)  # Kernels of a text in Triton's IR have none.
        # A kernel is loaded when it is first launched.
        if function is None or id(function) in copies or kernel.module is None:
            continue
        key = id(function), kernel.metadata.name
        if key in found or len(found) < _MOST:
            found.setdefault(key, (function, []))[1].append(kernel)
    return [(name, function, kernels, winners.get(id(function.fn), ()))
            for (_, name), (function, kernels) in found.items()]


def _of_function(described):
    name, function, kernels, winners = described
    declared = _constants_in(function)
    configurations = [_of_kernel(kernel, function, declared) for kernel in kernels[:_MOST_OF_ONE]]
    configurations.sort(key=lambda one: sorted(map(str, one["constants"].items())))
    winners = [_of_config(winner) for winner in winners]
    if winners:
        for one in configurations:
            one["chosen"] = any(_is_of(one, winner) for winner in winners)
    return {"name": name, **_definition(function), "configurations": configurations}


def _of_kernel(kernel, function, declared):
    constants = {_parameter(function, key): value for key, value in kernel.src.constants.items()}
    metadata = kernel.metadata
    return {"constants": {**declared, **_constants(constants)},
            "num_warps": metadata.num_warps, "num_stages": metadata.num_stages,
            **_figures(metadata.shared, kernel.n_regs, kernel.n_spills)}


def _tried_by(autotuner):
    return _generated_place(autotuner), _of_launchers(autotuner)


def _of_launchers(autotuner):
    arguments = autotuner.triton_meta.get("constants") or {}
    constants = {**_constants_in(autotuner.fn),
                 **_constants({_parameter(autotuner.fn, key): value
                               for key, value in arguments.items()})}
    return [_of_launcher(launcher, constants) for launcher in autotuner.launchers[:_MOST_OF_ONE]]


def _of_launcher(launcher, constants):
    config = _of_config(launcher.config)
    config["constants"] = {**constants, **config["constants"]}
    return {**config, **_figures(launcher.shared, launcher.n_regs, launcher.n_spills)}


def _of_config(config):
    return {"constants": _constants(config.kwargs), "num_warps": config.num_warps,
            "num_stages": config.num_stages}


def _figures(shared, registers, spills):
    figures = {"shared_memory": shared, "registers": registers,
               "local_memory": spills * _SPILL if isinstance(spills, int) else None}
    return {key: value for key, value in figures.items() if isinstance(value, int)}


def _with_choice(tried, chosen):
    """Returns all configurations. Tuning by coordinate descent may choose one that was not tried
    before."""
    more = [one for one in chosen if one not in tried]
    return [{**one, "chosen": one in chosen} for one in tried + more]


def _of_template(choice):
    """Its description is text such as `BLOCK_M=64, num_stages=2, num_warps=4`."""
    description = ast.parse("template(%s)" % choice.description)
    constants = {one.arg: ast.literal_eval(one.value) for one in ast.walk(description)
                 if isinstance(one, ast.keyword)}
    figures = {name: constants.pop(name) for name in ("num_warps", "num_stages")}
    return {"constants": _constants(constants), **figures}


def _among_templates(templates, chosen):
    """Returns the chosen configurations with the others of the choice among templates that they
    come from, if it is the only one that they may come from."""
    choices = [tried for tried in templates if any(_is_of(one, each)
                                                   for one in chosen for each in tried)]
    if not choices or any(tried != choices[0] for tried in choices):
        return chosen
    others = [each for each in choices[0] if not any(_is_of(one, each) for one in chosen)]
    return [{**one, "chosen": True} for one in chosen] + [
        {**each, "chosen": False} for each in others]


def _is_of(configuration, config):
    """Returns true if a kernel was compiled for a configuration, which has part of its constants.
    """
    return all(configuration[key] == config[key] for key in ("num_warps", "num_stages")) and \
        config["constants"].items() <= configuration["constants"].items()


def _constants_in(function):
    """Returns the constants that a kernel declares in its body, as Inductor's templates do:
    `BLOCK: tl.constexpr = 64`."""
    constants = {}
    definition, = ast.parse(function.src).body
    for statement in definition.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and \
                statement.value is not None and \
                ast.unparse(statement.annotation).rpartition(".")[2] == "constexpr":
            constants[statement.target.id] = (
                statement.value.value if isinstance(statement.value, ast.Constant)
                else ast.unparse(statement.value))
    return _constants(constants)


def _constants(constants):
    return {str(name)[:_LONGEST]: _constant(value)
            for name, value in list(constants.items())[:_MOST_OF_ONE]}


def _constant(value):
    if value is None or isinstance(value, (bool, float)) or (
            isinstance(value, int) and abs(value) < _LARGEST):
        return value
    return str(getattr(value, "__name__", value))[:_LONGEST]


def _parameter(function, key):
    """Returns the name of a parameter. A version of Triton has names as keys of constants, numbers,
    or paths that begin with a number."""
    number = key[0] if isinstance(key, tuple) and len(key) == 1 else key
    return function.arg_names[number] if isinstance(number, int) else str(number)


def _definition_of(function, definitions):
    """Returns the program's own function whose text Inductor has copied; None if unknown."""
    same = [one for one in definitions if one.__name__ == function.__name__]
    equal = [one for one in same if one.src.strip() == function.src.strip()] or same
    places = {_place(one): one for one in equal}
    return next(iter(places.values())) if len(places) == 1 else None


def _definition(function):
    """Returns where a kernel's function is defined: the line of `def`, below decorators."""
    file, line = _place(function)
    try:
        lines, _ = inspect.getsourcelines(function.fn)
    except (OSError, TypeError):  # There is no such file any more.
        lines = []
    for number, text in enumerate(lines):
        if text.lstrip().startswith("def "):
            line += number
            break
    return {"file": file, "line": line}


def _place(function):
    code = function.fn.__code__
    return code.co_filename, code.co_firstlineno


def _generated_place(autotuner):
    """Returns the file that Inductor generated for a kernel, and its name. A kernel that another
    process compiled has no Python function."""
    function = autotuner.fn
    code = getattr(function.fn, "__code__", None)
    file = autotuner.filename or (code.co_filename if code is not None else _file_of(function))
    return file, function.__name__


def _file_of(function):
    """Returns the file in Inductor's cache that has the name of a function's module; empty if there
    is none."""
    cache = _imported("torch._inductor.runtime.cache_dir_utils", "cache_dir")
    name = str(getattr(function, "module", "")).rpartition(".")[2]
    file = os.path.join(cache(), name[1:3], name + ".py") if cache and name else ""
    return file if os.path.isfile(file) else ""


def _generated_definition(autotuner):
    file, name = _generated_place(autotuner)
    for line, text in enumerate(linecache.getlines(file), 1):
        if text.startswith("def %s(" % name):
            return {"file": file, "line": line}
    return {"file": file, "line": 0}


def _imported(module, name):
    """Returns a class or function if the program has imported its module, else None."""
    return getattr(sys.modules.get(module), name, None)


def _instances():
    """Returns the objects of Triton's classes and their subclasses, by the name of the class.
    Objects refer to their class, so one pass over all objects finds them."""
    names = {}
    for name, module in _CLASSES.items():
        classes = [_imported(module, name)]
        while classes:
            one = classes.pop()
            if one is not None:
                names[one] = name
                classes += one.__subclasses__()
    found = {name: [] for name in _CLASSES}
    for value in gc.get_referrers(*names) if names else ():
        if type(value) in names:
            found[names[type(value)]].append(value)
    return found
