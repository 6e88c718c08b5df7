"""The user's options for a call's arguments: --shape, --dtype, --input, --requires-grad."""
import ast

from ..problem import USAGE, Problem, first_line
from ..protocol import Key
from .opinfo import Collected

_CALLED = "_arguments"


class CallOptions:
    def __init__(self, torch, device, request):
        self._torch = torch
        self._device = device
        self.shapes = [(name, tuple(shape)) for name, shape in request.get(Key.SHAPES, ())]
        self.dtypes = [(name, self._dtype(text)) for name, text in request.get(Key.DTYPES, ())]
        self.expression = request.get(Key.INPUT)
        self.requires_grad = bool(request.get(Key.REQUIRES_GRAD))
        self.backward = bool(request.get(Key.BACKWARD))

    @property
    def adapts(self):
        """True if a sample's tensors are changed."""
        return bool(self.shapes or self.dtypes)

    def _dtype(self, text):
        dtype = getattr(self._torch, text, None)
        if not isinstance(dtype, self._torch.dtype):
            raise Problem(USAGE, "--dtype: torch %s has no dtype '%s'"
                          % (self._torch.__version__, text),
                          "Give a dtype of PyTorch: float16, bfloat16, float64, complex64, int64.")
        return dtype

    def adapt(self, sample, values):
        """Gives a sample's tensors the requested shapes and dtypes. `values` refer to the
        tensors.
        """
        names = [tensor["name"] for tensor in sample.described(values)] or sample.names
        for option, given in (("--shape", self.shapes), ("--dtype", self.dtypes)):
            for name, _ in given:
                if name is None and names or name in names:
                    continue
                what = ("%s: the call has no tensor" % option if name is None else
                        "%s: the call has no tensor named '%s'" % (option, name))
                raise Problem(USAGE, what, "Its tensors are: %s." % ", ".join(names) if names else
                              "Omit the option for this op.")
        for name, shape in self.shapes:
            sample.reshape(names[0] if name is None else name, shape)
        for name, dtype in self.dtypes:
            sample.convert(dtype, name)

    def module_dtype(self):
        """The dtype of a module's parameters, or None to keep it."""
        return next((dtype for name, dtype in self.dtypes
                     if name is None and (dtype.is_floating_point or dtype.is_complex)), None)

    def arguments(self):
        """Returns (positional, keywords, sample) for --input's expression."""
        positional, keywords = evaluated(self._torch, "--input", self.expression)
        tensors = Collected(self._torch)
        positional = tensors.named(positional)
        keywords = tensors.named(keywords)
        differentiable = self.backward or self.requires_grad
        return positional, keywords, tensors.sample(self._device, differentiable)


def evaluated(torch, what, text):
    """Evaluates the arguments `text` of a call as Python does. Returns (positional, keywords)."""
    remedy = "Write the arguments as in the brackets of a call: 'torch.randn(2, 3), dim=1'."
    # With the newline, a comment does not hide the bracket.
    source = "%s(%s\n)" % (_CALLED, text)
    try:
        tree = ast.parse(source, mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise Problem(USAGE, "%s: '%s' is not a list of arguments (%s)"
                      % (what, text, first_line(error)), remedy) from error
    call = tree.body
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
            and call.func.id == _CALLED):
        raise Problem(USAGE, "%s: '%s' is not a list of arguments" % (what, text), remedy)
    names = {_CALLED: lambda *positional, **keywords: (list(positional), keywords),
             "torch": torch, "nn": torch.nn, "F": torch.nn.functional, "math": __import__("math")}
    torch.manual_seed(0)
    try:
        return eval(compile(tree, "<%s>" % what, "eval"), names)
    except Exception as error:  # The expression is the user's own code.
        raise Problem(USAGE, "%s: '%s' failed (%s)" % (what, text, first_line(error)),
                      "The expression can use torch, nn, F (torch.nn.functional) and math."
                      ) from error
