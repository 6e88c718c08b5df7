"""One call of an op, created anew for every run, and its backward pass."""
from ..problem import FAILED, USAGE, Problem, first_line
from . import samples


class Call:
    def __init__(self, sample, function, positional, keywords, text, in_place=False, make=None,
                 process=None):
        """Describes a call of `function`; `text` is its source form for display.

        An object that a call changes (a module, an optimizer) is created anew for each run:
        make() then returns the function to call and its parameters and buffers, and `function` is
        None. `process` extracts the part of a result for which a derivative is defined; it is
        used if the result itself can't be run backward.
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

    def compile(self, torch):
        """Makes all runs call what torch.compile makes of the function. They share its object, as
        torch.compile compiles anew for another one."""
        function, parts = (self._function, []) if self._make is None else self._make()
        compiled = torch.compile(function)
        self._make = lambda: (compiled, parts)
        self.text = "torch.compile of " + self.text

    def prepare(self, requires_grad):
        """Returns a Run with new tensors and no previous gradients."""
        tensors, leaves = self.sample.fresh(requires_grad, as_leaves=not self.in_place)
        arguments = [samples.filled(value, tensors) for value in self._positional]
        keywords = {name: samples.filled(value, tensors)
                    for name, value in self._keywords.items()}
        function, parts = self._function, []
        if self._make is not None:
            function, parts = self._make()
        return Run(function, arguments, keywords, leaves, parts)


class Run:
    """The inputs of one run of a call, and the objects that it changes."""

    def __init__(self, function, arguments, keywords, leaves, parts):
        self.function = function
        self.arguments = arguments
        self.keywords = keywords
        self._leaves = leaves  # Tensors whose gradients are compared.
        self._parts = parts  # Parameters and buffers.

    def outcome(self, result):
        """Returns everything that the run returned or changed: result, arguments, gradients,
        parameters.
        """
        return [result, self.arguments, self.keywords,
                [leaf.grad for leaf in self._leaves],
                [(part, part.grad) for part in self._parts if part.is_leaf]]


class Backward:
    """The part of an op's result that is summed and run backward. Determined once, outside
    recordings.
    """

    def __init__(self, torch, call):
        self._torch = torch
        self.ones_like = torch.ones_like
        run = call.prepare(True)
        try:
            result = run.function(*run.arguments, **run.keywords)
        except RuntimeError as error:
            if call.in_place or "leaf Variable" not in str(error):
                raise
            call.in_place = True  # Its name does not show this.
            run = call.prepare(True)
            result = run.function(*run.arguments, **run.keywords)
        candidates = [(None, *candidate) for candidate in self._candidates(result)]
        # Some derivatives reject the gradient of a sum, one number repeated with strides of 0.
        candidates += [(None, keys, real, "gradient")
                       for _, keys, real, reduction in candidates if reduction == "sum"]
        if call.process is not None:
            # Tried second, because this step is not visible in the call.
            processed = call.process(result)
            if processed is not result:
                candidates += [(call.process, *candidate)
                               for candidate in self._candidates(processed)]
        if not candidates:
            raise Problem(USAGE, "%s has no result with a backward pass" % call.text,
                          "Omit --backward for this op.")
        failure = None
        for self.process, self.selection, self.real, self.reduction in candidates:
            run = call.prepare(True)
            torch.manual_seed(0)
            try:
                self.run(run.function(*run.arguments, **run.keywords))
                break
            except Exception as error:  # A derivative may raise any exception.
                failure = failure or error
        else:
            self.process, self.selection, self.real, self.reduction = candidates[0]
            raise Problem(FAILED, "%s%s failed (%s)" % (call.text, self.text, first_line(failure)),
                          "Omit --backward for this op.") from failure

    def run(self, result):
        """Does the same as the recording (session.py), which must not add a frame of its own."""
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
        """The call on the result in its source form."""
        return ("".join("[%r]" % key for key in self.selection) + ".real" * self.real
                + {"sum": ".sum().backward()", "gradient": ".backward(ones)",
                   None: ".backward()"}[self.reduction])

    def _candidates(self, result):
        """Returns (keys, is complex, reduction to one number) of each part of a result."""
        torch = self._torch
        found = []
        stack: list[tuple] = [((), result)]
        while stack:
            keys, value = stack.pop()
            if isinstance(value, (tuple, list)):
                stack += [(keys + (key,), part) for key, part in enumerate(value)][::-1]
            elif isinstance(value, dict):
                stack += [(keys + (key,), part) for key, part in value.items()][::-1]
            elif isinstance(value, torch.Tensor) and value.requires_grad:
                found.append((keys, value.dtype.is_complex, "sum" if value.dim() > 0 else None))
        return found
