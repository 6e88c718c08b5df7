"""Asks PyTorch why a call of scaled_dot_product_attention does not use each of its backends.

The checks of `sdp_utils` give their reasons as warnings only if no backend is left. So this repeats
the choice with the math backend, which accepts everything, disabled for that moment, and then
without each backend that accepts the call. It is called after the traced call, in a process of
optrace's own: it sets switches that all threads of a process share, and restores them.
docs/trace-format.md describes the result.
"""
import contextlib
import re
import warnings

_OP = "scaled_dot_product_attention"
_MOST_CALLS = 50  # Of different inputs or outcomes.
_MOST_REFUSALS = 10  # Of one backend.
_LONGEST = 500  # Characters of a message.
_ORIGIN = re.compile(r" \(Triggered internally at (.+):(\d+)\.\)\s*$")
# How the names of aten/src/ATen/SDPBackend.h are spelled in PyTorch's switches and messages.
_BACKENDS = {
    "flash": ("FLASH_ATTENTION", "flash", "Flash attention"),
    "efficient": ("EFFICIENT_ATTENTION", "mem_efficient", "Memory efficient"),
    "cudnn": ("CUDNN_ATTENTION", "cudnn", "CuDNN attention"),
}
_MATH = "math"
_ROOT = "aten/src/"
_INPUTS = ("query", "key", "value", "attn_mask")


class AttentionBackends:
    """The backends of the calls of scaled_dot_product_attention that a run of a call makes."""

    def __init__(self, torch):
        self._torch = torch
        self._calls = []

    def of_run(self, run):
        """Returns the backends of each call of the op in a run. Other functions are run for it."""
        name = getattr(run.function, "__name__", "").partition(".")[0]
        if name == _OP:
            self._add(run.arguments, run.keywords)
        else:
            with self._listening():
                run.function(*run.arguments, **run.keywords)
        return self._calls

    @contextlib.contextmanager
    def _listening(self):
        """While it lasts, calls of the op from Python are added. Torch function modes don't see
        those that functions of torch.nn make."""
        functional = self._torch.nn.functional
        attention = getattr(functional, _OP)

        def listening(*arguments, **keywords):
            self._add(arguments, keywords)
            return attention(*arguments, **keywords)

        setattr(functional, _OP, listening)
        try:
            yield
        finally:
            setattr(functional, _OP, attention)

    def _add(self, arguments, keywords):
        call = {"inputs": self._inputs(arguments, keywords), **self._outcome(arguments, keywords)}
        if call not in self._calls and len(self._calls) < _MOST_CALLS:
            self._calls.append(call)

    def _inputs(self, arguments, keywords):
        given = {**dict(zip(_INPUTS, arguments)), **keywords}
        return [{"name": name, "shape": list(given[name].shape),
                 "dtype": str(given[name].dtype).removeprefix("torch.")}
                for name in _INPUTS if isinstance(given.get(name), self._torch.Tensor)]

    def _outcome(self, arguments, keywords):
        """Returns the backend that PyTorch chooses, and the backends with their refusals: none of
        one that can run the call. Without any, PyTorch has no other for these tensors."""
        chosen, _ = self._choose(arguments, keywords)
        switches = {name: _Switch(self._torch, switch) for name, (_, switch, _)
                    in {**_BACKENDS, _MATH: ("MATH", _MATH, "")}.items()}
        backends = {}
        always = self._torch.is_warn_always_enabled()
        try:
            # Otherwise a message that PyTorch prints once for a process would be missing later.
            self._torch.set_warn_always(True)
            switches[_MATH].turn_off()
            for _ in range(len(_BACKENDS) + 1):
                accepting, messages = self._choose(arguments, keywords)
                if accepting is None:
                    for name, refusals in _by_backend(messages).items():
                        backends.setdefault(name, {"name": name, "refusals": refusals})
                if accepting not in _BACKENDS or accepting in backends:
                    break
                backends[accepting] = {"name": accepting, "refusals": []}
                switches[accepting].turn_off()
        finally:
            for switch in switches.values():
                switch.restore()
            self._torch.set_warn_always(always)
        return {"chosen": chosen, "backends": list(backends.values())}

    def _choose(self, arguments, keywords):
        """Returns the backend that PyTorch chooses, None if there is none, and its messages."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                number = self._torch._fused_sdp_choice(*arguments, **keywords)
            except RuntimeError:  # No backend is left.
                number = None
        return self._name_of(number), [str(warning.message) for warning in caught]

    def _name_of(self, number):
        choices = self._torch.nn.attention.SDPBackend
        for name, (choice, _, _) in {**_BACKENDS, _MATH: ("MATH", "", "")}.items():
            if number is not None and int(getattr(choices, choice, -1)) == number:
                return name
        return None


class _Switch:
    """Whether the user allows a backend."""

    def __init__(self, torch, name):
        self._set = getattr(torch._C, "_set_sdp_use_" + name)
        self._was_on = getattr(torch._C, "_get_%s_sdp_enabled" % name)()

    def turn_off(self):
        self._set(False)

    def restore(self):
        self._set(self._was_on)


def _by_backend(messages):
    """Splits messages at the headings `Flash attention kernel not used because:`."""
    found, current = {}, None
    headings = {heading + " kernel not used because:": name
                for name, (_, _, heading) in _BACKENDS.items()}
    for message in messages:
        origin = _ORIGIN.search(message)
        text = message[:origin.start()] if origin else message
        if text in headings:
            current = found.setdefault(headings[text], [])
        elif current is not None and len(current) < _MOST_REFUSALS:
            current.append({"message": text[:_LONGEST], **_place(origin)})
    return found


def _place(origin):
    if origin is None or _ROOT not in origin[1]:
        return {}
    return {"file": _ROOT + origin[1].rpartition(_ROOT)[2], "line": int(origin[2])}
