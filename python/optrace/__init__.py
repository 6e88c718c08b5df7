"""Traces what runs below a PyTorch call, on the release wheel.

    import optrace
    with optrace.trace() as t:
        model(x)
    print(t.report())

docs/python.md is the reference.
"""
import os as _os

__all__ = ["Check", "Error", "Frame", "Trace", "__version__", "listen", "load", "step", "trace"]


def __getattr__(name):
    # Names are loaded on first access: pytest loads the plugin in this package for tests that trace
    # nothing, and with OPTRACE_LISTEN every Python that starts loads this package.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "Error":
        from ._error import Error
        return Error
    if name == "listen":
        from ._listen import listen
        return listen
    if name == "step":
        from ._step import step
        globals()[name] = step
        return step
    try:
        from . import _optrace
    except ImportError as error:
        raise ImportError(f"optrace's compiled part can't be loaded by this Python ({error}). "
                          "Install optrace with the pip of that Python.") from error
    value = globals()[name] = getattr(_optrace, name)
    return value


def __dir__():
    return sorted({*globals(), *__all__})


def _listen_if_asked():
    if _os.environ.get("OPTRACE_LISTEN") != "1":
        return
    from ._listen import listen
    try:
        listen()
    except Exception as error:  # The program must start in any case.
        import sys
        print(f"optrace: can't listen, although OPTRACE_LISTEN is 1: {error}", file=sys.stderr)


_listen_if_asked()
