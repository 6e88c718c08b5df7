"""What really runs under a PyTorch call, on the release wheel.

    import optrace
    with optrace.trace() as t:
        model(x)
    print(t.report())

docs/python.md is the reference.
"""
from ._error import Error
from ._optrace import Frame, Trace, __version__, load, trace

__all__ = ["Error", "Frame", "Trace", "__version__", "load", "trace"]
