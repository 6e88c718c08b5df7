"""What really runs under a PyTorch call, on the release wheel.

    import optrace
    with optrace.trace() as t:
        model(x)
    print(t.report())

docs/python.md is the reference.
"""
import os as _os

from ._error import Error
from ._listen import listen

__all__ = ["Check", "Error", "Frame", "Trace", "__version__", "listen", "load", "trace"]


def __getattr__(name):
    # What is compiled is loaded when it is first asked for: pytest loads the plugin in here for
    # tests that trace nothing, too.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
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
    try:
        listen()
    except (Error, ImportError) as error:
        import sys
        print(f"optrace: OPTRACE_LISTEN is 1, but {error}", file=sys.stderr)


_listen_if_asked()
