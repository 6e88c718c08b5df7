"""One call of an op, made anew for every run, and its backward pass."""
from . import samples
from .problem import FAILED, USAGE, Problem, first_line


class Call:
    def __init__(self, sample, function, positional, keywords, text, in_place=False, make=None,
                 process=None):
        """`function` is called with the arguments; `text` is that call as a person would type it.

        What a call changes (a module, an optimizer) is made anew for each: make() gives what to
        call, and its parameters and buffers; `function` is None then. `process` picks from a result what its
        derivative is defined for; it is used where the result itself can't be run backward.
        """
        self.sample = sample
        self.text = text
        self.note = None
        self.sample_from = None  # "table", "opinfo", "schema", "signature" or "input"
        self.in_place = in_place
        self.process = process
        self._function = function
        self._make = make
        self._positional = positional
        self._keywords = keywords
        self.inputs = sample.described([positional, keywords])

    def prepare(self, requires_grad):
        """A Run with fresh tensors and no gradients from before."""
        tensors, leaves = self.sample.fresh(requires_grad, as_leaves=not self.in_place)
        arguments = [samples.filled(value, tensors) for value in self._positional]
        keywords = {name: samples.filled(value, tensors)
                    for name, value in self._keywords.items()}
        function, parts = self._function, []
        if self._make is not None:
            function, parts = self._make()
        return Run(function, arguments, keywords, leaves, parts)


class Run:
    """What one run of a call needs, and what it changes."""

    def __init__(self, function, arguments, keywords, leaves, parts):
        self.function = function
        self.arguments = arguments
        self.keywords = keywords
        self._leaves = leaves  # Tensors whose gradients are of interest.
        self._parts = parts  # Parameters and buffers.

    def outcome(self, result):
        """All that the run gave or changed: result, arguments, gradients, parameters."""
        return [result, self.arguments, self.keywords,
                [leaf.grad for leaf in self._leaves],
                [(part, part.grad) for part in self._parts if part.is_leaf]]


class Backward:
    """What of an op's result is summed and run backward; found out once, outside recordings."""

    def __init__(self, torch, call):
        self._torch = torch
        self.ones_like = torch.ones_like
        run = call.prepare(True)
        try:
            result = run.function(*run.arguments, **run.keywords)
        except RuntimeError as error:
            if call.in_place or "leaf Variable" not in str(error):
                raise
            call.in_place = True  # It does not say so in its name.
            run = call.prepare(True)
            result = run.function(*run.arguments, **run.keywords)
        candidates = [(None, *candidate) for candidate in self._candidates(result)]
        # Some derivatives refuse a sum's gradient, one number repeated by strides of 0.
        candidates += [(None, keys, real, "gradient")
                       for _, keys, real, reduction in candidates if reduction == "sum"]
        if call.process is not None:
            # Asked second: it is a step that nobody who calls the op would see.
            processed = call.process(result)
            if processed is not result:
                candidates += [(call.process, *candidate)
                               for candidate in self._candidates(processed)]
        if not candidates:
            raise Problem(USAGE, "%s has no result that can be run backward" % call.text,
                          "Leave out --backward for this op.")
        failure = None
        for self.process, self.selection, self.real, self.reduction in candidates:
            run = call.prepare(True)
            torch.manual_seed(0)
            try:
                self.run(run.function(*run.arguments, **run.keywords))
                break
            except Exception as error:  # Whatever a derivative may raise.
                failure = failure or error
        else:
            self.process, self.selection, self.real, self.reduction = candidates[0]
            raise Problem(FAILED, "%s%s failed (%s)" % (call.text, self.text, first_line(failure)),
                          "Leave out --backward for this op.") from failure

    def run(self, result):
        """As the recording does it (session.py), which can't afford a frame of ours."""
        if self.process is not None:
            result = self.process(result)
        for key in self.selection:
            result = result[key]
        if self.real:
            result = result.real
        gradient = None
        if self.reduction == "sum":
            result = result.sum()
        elif self.reduction == "gradient":
            gradient = self.ones_like(result)
        result.backward(gradient)

    @property
    def text(self):
        """What is called on the result, as a person would type it."""
        return ("".join("[%r]" % key for key in self.selection) + ".real" * self.real
                + {"sum": ".sum().backward()", "gradient": ".backward(ones)",
                   None: ".backward()"}[self.reduction])

    def _candidates(self, result):
        """(keys, whether complex, how it becomes one number) of each part of a result."""
        torch = self._torch
        found = []
        stack = [((), result)]
        while stack:
            keys, value = stack.pop()
            if isinstance(value, (tuple, list)):
                stack += [(keys + (key,), part) for key, part in enumerate(value)][::-1]
            elif isinstance(value, dict):
                stack += [(keys + (key,), part) for key, part in value.items()][::-1]
            elif isinstance(value, torch.Tensor) and value.requires_grad:
                found.append((keys, value.dtype.is_complex, "sum" if value.dim() > 0 else None))
        return found
