"""Resolves any spelling of an op to a callable.

A bare name means the nn module of that op if the sample table names one (`conv2d` is nn.Conv2d),
otherwise the first of torch.NAME, F.NAME, nn.NAME, Tensor.NAME, aten::NAME that exists. A prefix
(nn., F., torch., Tensor., optim., aten::) selects the namespace.
"""
import copy
import functools
import inspect

from ..problem import FAILED, USAGE, Problem, first_line
from . import samples
from .call import Backward, Call
from .call_options import evaluated
from .constructors import changed_sizes
from .near_names import alternatives, near_names
from .opinfo import OpInfoDatabase

_OPTIMIZER = "optim."


class Resolver:
    def __init__(self, torch, folder, device):
        """`folder` contains the table of sample calls."""
        self._torch = torch
        self._folder = folder
        self._entries = entries = samples.load(folder)
        self._device = device
        self._modules = {entry["module"]["name"]: key
                         for key, entry in entries.items() if "module" in entry}
        self._opinfo = OpInfoDatabase(torch, device)
        self._options = None

    def resolve(self, spelling, options):
        """Returns (Call, Backward or None) for a spelling and the user's options for its
        arguments.

        Raises Problem for an unknown name and for arguments that the op rejects.
        """
        self._options = options
        name, constructor = spelling, None
        if spelling.endswith(")") and "(" in spelling:
            name, _, constructor = spelling[:-1].partition("(")
            constructor = evaluated(self._torch, spelling, constructor)
        if constructor is not None and not self._has_constructor(name):
            raise Problem(USAGE, "'%s' has brackets, but only modules and optimizers are "
                                 "constructed before the call" % spelling,
                          "Give the arguments of the call with --input 'torch.randn(2, 3), 1'.")
        try:
            return self._resolve(spelling, name, constructor)
        except NotKnown:
            # OpInfo has additional names: `max.reduction_with_dim`, `T`.
            short = name[len("torch."):] if name.startswith("torch.") else name
            if constructor is not None or not self._opinfo.may_have(short):
                raise
            infos = self._opinfo.find(short, name)
            infos = [info for info in infos if _full_name(info) in (short, name)]
            if not infos:
                raise
            return self._by_opinfo(spelling, infos[0])

    def _resolve(self, spelling, said, constructor):
        name = said[len("torch."):] if said.startswith("torch.") else said
        said_torch = name is not said
        if name.startswith("ops."):
            namespace, _, rest = name[len("ops."):].partition(".")
            return self._operator(spelling, namespace, rest)
        if "::" in name:
            namespace, _, rest = name.partition("::")
            return self._operator(spelling, namespace, rest)
        for prefix in ("nn.functional.", "F."):
            if name.startswith(prefix):
                return self._functional(spelling, name[len(prefix):])
        for prefix in ("nn.modules.", "nn."):
            if name.startswith(prefix):
                return self._module(spelling, name.rpartition(".")[2], constructor)
        if name.startswith("Tensor."):
            return self._method(spelling, name[len("Tensor."):])
        if name.startswith(_OPTIMIZER):
            return self._optimizer(spelling, name[len(_OPTIMIZER):], constructor)
        if constructor is not None:
            return self._module(spelling, name, constructor)
        if said_torch or "." in name:
            return self._function(spelling, name)
        return self._bare(spelling)

    def _bare(self, name):
        if "module" in self._entries.get(name, {}):
            return self._module(name, self._entries[name]["module"]["name"])
        torch = self._torch
        if callable(getattr(torch, name, None)) and self._is_op(name):
            return self._function(name, name)
        if callable(getattr(torch.nn.functional, name, None)) and not name.startswith("_"):
            return self._functional(name, name)
        if self._is_module(name):
            return self._module(name, name)
        if callable(getattr(torch.Tensor, name, None)) and self._is_op(name):
            return self._method(name, name)
        if self._is_op(name):
            return self._operator(name, "aten", name)
        if callable(getattr(torch, name, None)) and self._opinfo.find(name):
            return self._function(name, name)
        raise self._unknown(name)

    def _has_constructor(self, name):
        short = name[len("torch."):] if name.startswith("torch.") else name
        return (short.startswith(_OPTIMIZER) or self._is_module(short)
                or short.startswith("nn.") and not short.startswith("nn.functional."))

    def _is_op(self, name):
        return name in self._entries or bool(
            self._torch._C._jit_get_schemas_for_operator("aten::" + name))

    def _is_module(self, name):
        value = getattr(self._torch.nn, name, None)
        return isinstance(value, type) and issubclass(value, self._torch.nn.Module)

    # One method for each family of spellings.

    def _module(self, spelling, name, constructor=None):
        if not self._is_module(name):
            raise self._unknown(spelling)
        torch = self._torch
        key = self._modules.get(name)
        kind = getattr(torch.nn, name)

        def build(sample, made_with, positional, keywords):
            self._options.adapt(sample, [positional, keywords])
            torch.manual_seed(0)
            module = kind(*made_with[0], **made_with[1]).to(self._device)
            if self._options.module_dtype() is not None:
                module = module.to(self._options.module_dtype())
            text = "nn.%s(%s)(%s)" % (name, samples.arguments_text(*made_with),
                                      self._text(positional, keywords))
            return Call(sample, None, positional, keywords, text,
                        make=functools.partial(_copied_module, module))

        def from_table(tensors, made_with, call):
            made_with, call = samples.normalized(made_with), samples.normalized(call)
            return build(self._sample(tensors), constructor or self._parsed(made_with, ()),
                         *self._parsed(call, tensors))

        def attempts():
            entry = self._entries[key] if key is not None else None
            if self._options.expression is not None:
                positional, keywords, sample = self._options.arguments()
                if constructor is not None:
                    makings = [constructor]
                elif entry is not None:
                    makings = [self._parsed(samples.normalized(
                        entry["module"].get("constructor", [])), ())]
                else:
                    makings = [([], {})] + [
                        made for made, *_ in self._opinfo.module_samples(kind)]
                for made_with in makings:
                    yield "input", lambda m=made_with: build(sample, m, positional, keywords)
                return
            if entry is not None:
                made_with, call = entry["module"].get("constructor", []), entry["module"]["call"]
                if constructor is not None:
                    sizes = changed_sizes(kind, samples.normalized(made_with), constructor)
                    yield "table", lambda: from_table(
                        samples.with_sizes(entry["tensors"], sizes), made_with, call)
                yield "table", lambda: from_table(entry["tensors"], made_with, call)
                if constructor is None:
                    return
            for made_with, positional, keywords, sample in self._opinfo.module_samples(kind):
                yield "opinfo", lambda m=made_with, p=positional, k=keywords, s=sample: build(
                    s, constructor or m, p, k)
            for made_with, call in self._guessed_module_calls(kind):
                tensors = {n: {"shape": [4, 4]} for n in call}
                yield "signature", lambda t=tensors, m=made_with, c=call: from_table(
                    t, m, ["$" + n for n in c])

        return self._first_working(spelling, attempts())

    def _guessed_module_calls(self, kind):
        """Returns (constructor's arguments, names of the tensors) guessed from a signature."""
        try:
            parameters = list(inspect.signature(kind.forward).parameters.values())[1:]
        except (TypeError, ValueError):
            parameters = []
        needed = [parameter.name for parameter in parameters
                  if parameter.default is parameter.empty
                  and parameter.kind is parameter.POSITIONAL_OR_KEYWORD]
        calls = [["x", "y", "z"][:count] for count in (1, 2, 3)]
        if 0 < len(needed) <= len(calls):
            calls.insert(0, calls.pop(len(needed) - 1))
        return [(made_with, call) for call in calls for made_with in ([], [4], [4, 4])]

    def _functional(self, spelling, name):
        function = getattr(self._torch.nn.functional, name, None)
        if not callable(function) or isinstance(function, type) or name.startswith("_"):
            raise self._unknown(spelling)
        return self._by_name(spelling, "functional", name, name, function, "F." + name,
                             ["nn.functional." + name, name], guess_without_schema=True)

    def _function(self, spelling, path):
        function = self._torch
        for part in path.split("."):
            function = getattr(function, part, None)
        if not callable(function) or isinstance(function, type):
            raise self._unknown(spelling)
        key = path.replace(".", "_")
        if key not in self._entries and path.partition(".")[2] in self._entries:
            key = path.partition(".")[2]  # torch.special.softmax uses the entry of softmax.
        return self._by_name(spelling, "torch", key, key, function, "torch." + path,
                             [path, "nn.functional." + path])

    def _method(self, spelling, name):
        function = getattr(self._torch.Tensor, name, None)
        if not callable(function):
            raise self._unknown(spelling)
        op = name
        if name.startswith("__") and name.endswith("__"):  # x.__add__(y) is x + y.
            op = name[2:-2]
        return self._by_name(spelling, "method", op, op, function, None, [name, op], name)

    def _entry_of(self, name):
        """Returns (entry or None, is in place). `add_` shares the entry of `add`."""
        in_place = name.endswith("_") and not name.endswith("__")
        key = name if name in self._entries or not in_place else name[:-1]
        return self._entries.get(key), in_place

    def _by_name(self, spelling, family, key, op, function, shown, known_as, method=None,
                 guess_without_schema=False):
        """Resolves a function or method whose arguments come from its entry, OpInfo or schemas."""
        torch = self._torch
        entry, in_place = self._entry_of(key)

        def build(sample, positional, keywords, called=function, process=None, shown=shown):
            self._options.adapt(sample, [positional, keywords])
            if method is None or self._options.expression is not None or not positional:
                text = "%s(%s)" % (shown or "Tensor." + method, self._text(positional, keywords))
            else:
                text = "%s.%s(%s)" % (samples.text(positional[0]), method,
                                      samples.arguments_text(positional[1:], keywords))
            return Call(sample, called, positional, keywords, text, in_place=in_place,
                        process=process)

        def made_up():
            found = False
            for schema in torch._C._jit_get_schemas_for_operator("aten::" + op):
                made = None
                if not any(argument.is_out for argument in schema.arguments):
                    made = samples.from_schema(schema, with_out=False)
                if made is not None:
                    found = True
                    yield made
            if not found and guess_without_schema:
                for count in (1, 2, 3):
                    names = ["x", "y", "z"][:count]
                    yield {n: {"shape": [4, 4]} for n in names}, ["$" + n for n in names], {}

        def attempts():
            if self._options.expression is not None:
                positional, keywords, sample = self._options.arguments()
                yield "input", lambda: build(sample, positional, keywords)
                return
            if entry is not None and samples.call_of(entry, family) is not None:
                tensors, call = entry["tensors"], samples.call_of(entry, family)
                yield "table", lambda: build(self._sample(tensors), *self._parsed(call, tensors))
                if not self._options.backward:
                    return
            for info in self._opinfo.find(*_with_and_without_underscore(known_as)):
                for positional, keywords, sample, process in self._drawn(info):
                    yield "opinfo", lambda p=positional, k=keywords, s=sample, f=process: build(
                        s, p, k, process=f)
            for tensors, positional, keywords in made_up():
                yield "schema", lambda t=tensors, c=(positional, keywords): build(
                    self._sample(t), *self._parsed(c, t))

        return self._first_working(spelling, attempts())

    def _by_opinfo(self, spelling, info):
        """Resolves a name in op_db that is not a function of that name: a property, a variant."""
        public = self._torch
        for part in info.name.split("."):
            public = getattr(public, part, None)
        shown = ("torch." + info.name if info.op is public else
                 "OpInfo('%s')" % _full_name(info))

        def build(sample, positional, keywords, process):
            self._options.adapt(sample, [positional, keywords])
            text = "%s(%s)" % (shown, self._text(positional, keywords))
            return Call(sample, info.op, positional, keywords, text, process=process)

        def attempts():
            if self._options.expression is not None:
                positional, keywords, sample = self._options.arguments()
                yield "input", lambda: build(sample, positional, keywords, None)
                return
            for positional, keywords, sample, process in self._drawn(info):
                yield "opinfo", lambda p=positional, k=keywords, s=sample, f=process: build(
                    s, p, k, f)

        return self._first_working(spelling, attempts())

    def _operator(self, spelling, namespace, name):
        torch = self._torch
        base, _, overload = name.partition(".")
        schemas = torch._C._jit_get_schemas_for_operator("%s::%s" % (namespace, base))
        if overload:
            required = "" if overload == "default" else overload
            schemas = [schema for schema in schemas if schema.overload_name == required]
        if not schemas:
            raise self._unknown(spelling)
        entry, in_place = self._entry_of(base)
        if namespace != "aten":
            entry = None
        with_out = bool(overload)
        packet = getattr(getattr(torch.ops, namespace), base)

        def build(schema, sample, positional, keywords, process=None):
            function = getattr(packet, schema.overload_name or "default")
            self._options.adapt(sample, [positional, keywords])
            text = "torch.ops.%s.%s.%s(%s)" % (namespace, base, schema.overload_name or "default",
                                               self._text(positional, keywords))
            return Call(sample, function, positional, keywords, text, in_place=in_place,
                        process=process)

        def from_table():
            call = samples.call_of(entry, "aten") if entry is not None else None
            if call is None:
                return
            for schema in schemas:
                outs = [argument.name for argument in schema.arguments if argument.is_out]
                if not samples.fits(schema, *call) or (outs and not with_out):
                    continue
                tensors, keywords = dict(entry["tensors"]), dict(call[1])
                for out in outs:
                    tensors[out] = {"shape": [0], "requires_grad": False}
                    keywords[out] = "$" + out
                yield schema, tensors, (call[0], keywords)

        def attempts():
            if self._options.expression is not None:
                positional, keywords, sample = self._options.arguments()
                for schema in schemas:
                    yield "input", lambda s=schema: build(s, sample, positional, keywords)
                return
            found = False
            for schema, tensors, call in from_table():
                found = True
                yield "table", lambda s=schema, t=tensors, c=call: build(
                    s, self._sample(t), *self._parsed(c, t))
            if found:
                return
            plain = [schema for schema in schemas
                     if not any(argument.is_out for argument in schema.arguments)]
            if namespace == "aten" and plain:
                known_as = _with_and_without_underscore(
                    ["ops.aten.%s" % name, base, base.replace("_", ".", 1),
                     "nn.functional." + base])
                for info in self._opinfo.find(*known_as):
                    for positional, keywords, sample, process in self._drawn(info):
                        for schema in plain:
                            yield "opinfo", lambda s=schema, p=positional, k=keywords, t=sample, \
                                f=process: build(s, t, p, k, f)
            for schema in schemas:
                if schema not in plain and not with_out:
                    continue
                made = samples.from_schema(schema, with_out)
                if made is not None:
                    yield "schema", lambda s=schema, t=made[0], c=made[1:]: build(
                        s, self._sample(t), *self._parsed(c, t))

        return self._first_working(spelling, attempts())

    def _optimizer(self, spelling, name, constructor=None):
        torch = self._torch
        kind = getattr(torch.optim, name, None)
        if not (isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer)
                and kind is not torch.optim.Optimizer):
            raise self._unknown(spelling)
        if self._options.expression is not None:
            raise Problem(USAGE, "--input: an optimizer's step takes no arguments",
                          "Give its settings after its name, '%s%s(lr=0.1)', and the shape of its "
                          "parameter with --shape." % (_OPTIMIZER, name))
        positional, settings = constructor or ([], {"lr": 0.01})
        text = "optim.%s(%s)" % (name, ", ".join(
            ["[p]", *filter(None, [samples.arguments_text(positional, settings)])]))

        def build(way):
            sample = self._sample({"p": {"shape": [4, 4]}})
            self._options.adapt(sample, [samples.Named("p")])

            def make():
                parameter = torch.nn.Parameter(sample.fresh(False, True)[0]["p"])
                return way(kind([parameter], *positional, **settings), parameter)

            call = Call(sample, None, [], {}, text + ".step(%s)" % way.shown, make=make)
            call.inputs = sample.described([samples.Named("p")])
            return call

        ways = [_Step(torch, "dense"), _Step(torch, "sparse"), _Step(torch, "closure")]
        return self._first_working(spelling, (("table", lambda w=way: build(w)) for way in ways))

    # Common to all families.

    def _sample(self, specifications):
        return samples.Sample.from_table(self._torch, self._device, specifications)

    def _parsed(self, call, tensors):
        """Converts a call of the table to (positional, keywords) of a Call."""
        positional, keywords = call
        return ([samples.parsed(self._torch, self._device, value, tensors)
                 for value in positional],
                {name: samples.parsed(self._torch, self._device, value, tensors)
                 for name, value in keywords.items()})

    def _text(self, positional, keywords):
        """Returns a call's arguments as text, in the user's spelling if given."""
        if self._options.expression is not None:
            return self._options.expression
        return samples.arguments_text(positional, keywords)

    def _drawn(self, info):
        """Yields an OpInfo's samples; none if it fails to create them."""
        try:
            yield from self._opinfo.samples(info, self._options.backward)
        except Problem:
            raise
        except Exception:  # For example samples for another device, or that need a missing package.
            return

    def _first_working(self, spelling, attempts):
        """Runs each attempt once, which is also the warm-up, and keeps the first that succeeds."""
        failure = problem = None
        tried = 0
        for sample_from, build in attempts:
            tried += 1
            try:
                self._torch.manual_seed(0)
                call = build()
                run = call.prepare(self._options.requires_grad)
                run.function(*run.arguments, **run.keywords)
                backward = Backward(self._torch, call) if self._options.backward else None
            except Problem as error:
                problem = problem or error
                continue
            # An op may raise any exception; the next attempt may succeed.
            except Exception as error:
                failure = failure or (sample_from, error)
                continue
            call.sample_from = sample_from
            if sample_from == "opinfo":
                call.note = ("The sample table has no call for %s: its arguments are a sample of "
                             "PyTorch's own OpInfo database." % spelling)
            elif sample_from in ("schema", "signature"):
                call.note = ("The sample table has no call for %s: its arguments were generated."
                             % spelling)
                if self._opinfo.missing is not None:
                    call.note += (" PyTorch's OpInfo database can't be imported (%s)."
                                  % self._opinfo.missing)
            return call, backward
        if problem is not None:
            raise problem
        if failure is None:
            raise self._no_sample(spelling)
        sample_from, refusal = failure
        remedy = None
        if sample_from == "input":
            remedy = "Change --input: %s" % self._options.expression
        elif self._options.adapts:
            remedy = ("Give matching values of --shape and --dtype for all tensors (NAME=2x3 for "
                      "the tensor NAME), or all arguments with --input.")
        elif spelling.endswith(")"):
            remedy = "Change the values in the brackets, or give a matching --input."
        if remedy is not None:
            raise Problem(USAGE, "'%s' rejects these arguments (%s)"
                          % (spelling, first_line(refusal)), remedy)
        if sample_from != "table":
            raise self._no_sample(spelling, ", and generated arguments were rejected (%s)"
                                  % first_line(refusal))
        raise Problem(FAILED, "the sample call of '%s' failed on %s (%s)"
                      % (spelling, self._device, first_line(refusal)),
                      "Check that this torch works. If it does, the op needs another sample.")

    def _no_sample(self, spelling, why=""):
        return NotKnown(USAGE, "there is no sample call for '%s'%s" % (spelling, why),
                        "Give its arguments with --input '...', as in the brackets of a call, or "
                        "add one to a .json file in %s, which has examples." % self._folder)

    def _unknown(self, spelling):
        near = near_names(self._torch, spelling, self._entries, self._is_op, self._is_module)
        remedy = ("Did you mean %s?" % alternatives(near) if near else
                  "Use a name as in PyTorch: conv2d, nn.Conv2d, F.conv2d, torch.conv2d, "
                  "Tensor.add_, aten::conv2d.")
        return NotKnown(USAGE, "'%s' is not an op, function or module of torch %s"
                        % (spelling, self._torch.__version__), remedy)


class NotKnown(Problem):
    """An unknown name, or one for which no arguments are known."""


class _Step:
    """An optimizer's second step, when its state exists, with the required gradients or closure."""

    def __init__(self, torch, way):
        self._torch = torch
        self._way = way
        self.shown = "closure" if way == "closure" else ""

    def __call__(self, optimizer, parameter):
        """Returns (the step, the tensors that it changes)."""
        gradient = self._torch.ones_like(parameter)
        parameter.grad = gradient.to_sparse() if self._way == "sparse" else gradient

        def closure():
            optimizer.zero_grad()
            loss = (parameter * parameter).sum()
            loss.backward()
            return loss

        step = optimizer.step
        if self._way == "closure":
            step = functools.partial(optimizer.step, closure)
        step()
        return step, [parameter]


def _copied_module(module):
    """Returns (a copy that no call has changed, its parameters and buffers)."""
    try:
        module = copy.deepcopy(module)
    except Exception:  # A module that can't be copied keeps the changes made by calls.
        module.zero_grad()
    return module, [*module.parameters(), *module.buffers()]


def _full_name(info):
    """Returns the unique name of this OpInfo: `max.reduction_with_dim`."""
    return ".".join(filter(None, [info.name, info.variant_test_name]))


def _with_and_without_underscore(names):
    """Returns the names under which OpInfo may know an op: add_ is listed as add."""
    return list(dict.fromkeys([*names, *(name[:-1] for name in names
                                         if name.endswith("_") and not name.endswith("__"))]))
