"""From any spelling of an op to something that can be called.

The rule for a bare name: the nn module of that op if the sample table names one (`conv2d` is
nn.Conv2d), else the first of torch.NAME, F.NAME, nn.NAME, Tensor.NAME, aten::NAME that exists.
With a prefix (nn., F., torch., Tensor., optim., aten::) it is what the prefix says.
"""
from .problem import FAILED, USAGE, Problem, first_line
from . import samples

_SUGGESTIONS = 4


class Call:
    """A sample call of one op, made anew for every recording."""

    def __init__(self, sample, function, positional, keywords, text, parameters=(), in_place=False,
                 note=None):
        self.sample = sample
        self.text = text
        self.note = note
        self._function = function
        self._positional = positional
        self._keywords = keywords
        self._parameters = list(parameters)
        self._in_place = in_place
        self.inputs = sample.described([positional, keywords])

    def prepare(self, backward):
        """(function, arguments, keywords) with fresh tensors and no gradients from before."""
        for parameter in self._parameters:
            parameter.grad = None
        tensors = self.sample.fresh(backward, as_leaves=not self._in_place)
        arguments = [self.sample.value(value, tensors) for value in self._positional]
        keywords = {name: self.sample.value(value, tensors)
                    for name, value in self._keywords.items()}
        return self._function, arguments, keywords


class Resolver:
    def __init__(self, torch, folder, device):
        """`folder` holds the table of sample calls."""
        self._torch = torch
        self._folder = folder
        self._entries = entries = samples.load(folder)
        self._device = device
        self._modules = {entry["module"]["name"]: key
                         for key, entry in entries.items() if "module" in entry}

    def resolve(self, spelling):
        """The Call for a spelling. Raises Problem for a name that is none."""
        name = spelling[len("torch."):] if spelling.startswith("torch.") else spelling
        said_torch = name is not spelling
        if name.startswith("ops.") and said_torch:
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
                return self._module(spelling, name.rpartition(".")[2])
        if name.startswith("Tensor."):
            return self._method(spelling, name[len("Tensor."):])
        if name.startswith("optim."):
            return self._optimizer(spelling, name[len("optim."):])
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
        raise self._unknown(name)

    def _is_op(self, name):
        return name in self._entries or bool(
            self._torch._C._jit_get_schemas_for_operator("aten::" + name))

    def _is_module(self, name):
        value = getattr(self._torch.nn, name, None)
        return isinstance(value, type) and issubclass(value, self._torch.nn.Module)

    # One method a family of spellings.

    def _module(self, spelling, name):
        if not self._is_module(name):
            raise self._unknown(spelling)
        torch = self._torch
        key = self._modules.get(name)
        kind = getattr(torch.nn, name)
        if key is not None:
            entry = self._entries[key]
            attempts = [(entry["tensors"], entry["module"].get("constructor", []),
                         entry["module"]["call"])]
        else:
            square = {"shape": [4, 4]}
            attempts = [({"x": square}, [], ["$x"]), ({"x": square}, [4], ["$x"]),
                        ({"x": square}, [4, 4], ["$x"]),
                        ({"x": square, "y": square}, [], ["$x", "$y"]),
                        ({"x": square, "y": square, "z": square}, [], ["$x", "$y", "$z"])]

        def build(tensors, constructor, call):
            sample = samples.Sample(torch, self._device, tensors)
            constructor, settings = samples.normalized(constructor)
            positional, keywords = samples.normalized(call)
            module = kind(*[sample.value(value, {}) for value in constructor],
                          **{n: sample.value(v, {}) for n, v in settings.items()})
            module = module.to(self._device)
            text = "nn.%s(%s)(%s)" % (name, samples.arguments_text(constructor, settings),
                                      samples.arguments_text(positional, keywords))
            return Call(sample, module, positional, keywords, text, module.parameters())

        return self._first_working(spelling, build, attempts, made_up=key is None)

    def _functional(self, spelling, name):
        function = getattr(self._torch.nn.functional, name, None)
        if not callable(function) or isinstance(function, type) or name.startswith("_"):
            raise self._unknown(spelling)
        return self._by_name(spelling, "functional", name, name, function, "F." + name,
                             guess_without_schema=True)

    def _function(self, spelling, path):
        function = self._torch
        for part in path.split("."):
            function = getattr(function, part, None)
        if not callable(function) or isinstance(function, type):
            raise self._unknown(spelling)
        key = path.replace(".", "_")
        if key not in self._entries and path.partition(".")[2] in self._entries:
            key = path.partition(".")[2]  # torch.special.softmax is the op softmax's.
        return self._by_name(spelling, "torch", key, key, function, "torch." + path)

    def _method(self, spelling, name):
        function = getattr(self._torch.Tensor, name, None)
        if not callable(function):
            raise self._unknown(spelling)
        op = name
        if name.startswith("__") and name.endswith("__"):  # x.__add__(y) is x + y.
            op = name[2:-2]
        return self._by_name(spelling, "method", op, op, function, None, name)

    def _entry_of(self, name):
        """(entry or None, whether the op works in place): `add_` shares the entry of `add`."""
        in_place = name.endswith("_") and not name.endswith("__")
        key = name if name in self._entries or not in_place else name[:-1]
        return self._entries.get(key), in_place

    def _by_name(self, spelling, family, key, op, function, shown, method=None,
                 guess_without_schema=False):
        """A function or method whose entry, or else whose op's schemas, give the arguments."""
        torch = self._torch
        entry, in_place = self._entry_of(key)
        attempts = []
        made_up = False
        if entry is not None and samples.call_of(entry, family) is not None:
            attempts.append((entry["tensors"], *samples.call_of(entry, family)))
        else:
            made_up = True
            for schema in torch._C._jit_get_schemas_for_operator("aten::" + op):
                if any(argument.is_out for argument in schema.arguments):
                    continue
                made = samples.from_schema(schema, with_out=False)
                if made is not None:
                    attempts.append(made)
            if not attempts and guess_without_schema:
                names = ["x", "y", "z"]
                attempts = [({n: {"shape": [4, 4]} for n in names[:count]},
                             ["$" + n for n in names[:count]], {}) for count in (1, 2, 3)]
            if not attempts:
                raise self._no_sample(spelling)

        def build(tensors, positional, keywords):
            sample = samples.Sample(torch, self._device, tensors)
            if method is None:
                text = "%s(%s)" % (shown, samples.arguments_text(positional, keywords))
            else:
                text = "%s.%s(%s)" % (samples.text(positional[0]), method,
                                      samples.arguments_text(positional[1:], keywords))
            return Call(sample, function, positional, keywords, text, in_place=in_place)

        return self._first_working(spelling, build, attempts, made_up)

    def _operator(self, spelling, namespace, name):
        torch = self._torch
        base, _, overload = name.partition(".")
        schemas = torch._C._jit_get_schemas_for_operator("%s::%s" % (namespace, base))
        if overload:
            wanted = "" if overload == "default" else overload
            schemas = [schema for schema in schemas if schema.overload_name == wanted]
        if not schemas:
            raise self._unknown(spelling)
        entry, in_place = self._entry_of(base)
        if namespace != "aten":
            entry = None
        from_table, from_schemas = [], []
        for schema in schemas:
            packet = getattr(getattr(torch.ops, namespace), base)
            function = getattr(packet, schema.overload_name or "default")
            suffix = "." + (schema.overload_name or "default")
            shown = "torch.ops.%s.%s%s" % (namespace, base, suffix)
            call = samples.call_of(entry, "aten") if entry is not None else None
            with_out = bool(overload)
            if call is not None and samples.fits(schema, *call):
                tensors, (positional, keywords) = dict(entry["tensors"]), call
                keywords = dict(keywords)
                outs = [argument.name for argument in schema.arguments if argument.is_out]
                if outs and not with_out:
                    continue
                for out in outs:
                    tensors[out] = {"shape": [0], "requires_grad": False}
                    keywords[out] = "$" + out
                from_table.append((function, shown, tensors, positional, keywords))
                continue
            if any(argument.is_out for argument in schema.arguments) and not with_out:
                continue
            made = samples.from_schema(schema, with_out)
            if made is not None:
                from_schemas.append((function, shown, *made))
        attempts = from_table or from_schemas
        if not attempts:
            raise self._no_sample(spelling)

        def build(function, shown, tensors, positional, keywords):
            sample = samples.Sample(torch, self._device, tensors)
            text = "%s(%s)" % (shown, samples.arguments_text(positional, keywords))
            return Call(sample, function, positional, keywords, text, in_place=in_place)

        return self._first_working(spelling, build, attempts, made_up=not from_table)

    def _optimizer(self, spelling, name):
        torch = self._torch
        kind = getattr(torch.optim, name, None)
        if not (isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer)
                and kind is not torch.optim.Optimizer):
            raise self._unknown(spelling)

        def build():
            sample = samples.Sample(torch, self._device, {"p": {"shape": [4, 4]}})
            parameter = torch.nn.Parameter(sample.fresh(False, True)["p"])
            parameter.grad = torch.ones_like(parameter)
            optimizer = kind([parameter], lr=0.01)
            call = Call(sample, optimizer.step, [], {}, "optim.%s([p], lr=0.01).step()" % name)
            call.inputs = sample.described(["$p"])
            return call

        return self._first_working(spelling, build, [()], made_up=False)

    def _first_working(self, spelling, build, attempts, made_up):
        """Runs each attempt once (that is the warm-up too) and keeps the first that succeeds."""
        failure = None
        for attempt in attempts:
            try:
                call = build(*attempt)
                function, arguments, keywords = call.prepare(False)
                function(*arguments, **keywords)
            except Problem:
                raise
            except Exception as error:  # Whatever an op may raise, the next attempt may not.
                failure = error
                continue
            if made_up:
                call.note = ("The sample table has no call for %s: its arguments were made up."
                             % spelling)
            return call
        if made_up:
            raise self._no_sample(spelling, ", and made-up arguments were refused (%s)"
                                  % first_line(failure))
        raise Problem(FAILED, "the sample call of '%s' failed on %s (%s)"
                      % (spelling, self._device, first_line(failure)),
                      "Check that this torch works; if it does, this op needs another sample.")

    def _no_sample(self, spelling, why=""):
        return Problem(USAGE, "no sample call is known for '%s'%s" % (spelling, why),
                       "Add one to a .json file in %s; the calls there show how."
                       % self._folder)

    def _unknown(self, spelling):
        near = self._nearest(spelling)
        remedy = ("Did you mean %s?" % _alternatives(near) if near else
                  "Use a name as in PyTorch: conv2d, nn.Conv2d, F.conv2d, torch.conv2d, "
                  "Tensor.add_, aten::conv2d.")
        return Problem(USAGE, "'%s' is no op, function or module of torch %s"
                       % (spelling, self._torch.__version__), remedy)

    def _nearest(self, spelling):
        import difflib

        torch = self._torch

        def public(space):
            return [n for n in dir(space) if not n.startswith("_")
                    and callable(getattr(space, n, None))]

        families = {
            "nn.": [n for n in dir(torch.nn) if self._is_module(n)],
            "F.": [n for n in public(torch.nn.functional) if n[0].islower()],
            "torch.": [n for n in public(torch) if self._is_op(n)],
            "Tensor.": public(torch.Tensor),
            "optim.": [n for n in public(torch.optim) if n[0].isupper()],
            "aten::": [n[len("aten::"):] for n in torch._C._dispatch_get_all_op_names()
                       if n.startswith("aten::") and not n.startswith("aten::_")],
        }
        for space in ("linalg", "fft", "special"):
            families["torch."] += [space + "." + n for n in public(getattr(torch, space))]
        short = spelling[len("torch."):] if spelling.startswith("torch.") else spelling
        short = short.replace("nn.functional.", "F.")
        shown = {}  # What is compared, lower case, to what is suggested.
        for prefix, names in families.items():
            if short.startswith(prefix):
                shown = {n.lower(): prefix + n for n in reversed(names)}
                short = short[len(prefix):]
                break
        else:
            if spelling.startswith("torch."):
                shown = {n.lower(): "torch." + n for n in families["torch."]}
            else:
                for prefix in ("aten::", "optim.", "Tensor.", "F.", "torch.", "nn."):
                    for n in families[prefix]:
                        shown[n.lower()] = prefix + n
                for n in families["torch."] + families["F."]:
                    shown[n.lower()] = n
                for key, entry in self._entries.items():
                    if "module" in entry:
                        shown[key] = key
                short = short.rpartition("::")[2]
        found = difflib.get_close_matches(short.lower(), shown, _SUGGESTIONS, 0.6)
        return [shown[match] for match in found]


def _alternatives(names):
    """`a, b or c`"""
    return " or ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
