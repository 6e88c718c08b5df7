"""What `optrace run` puts first on PYTHONPATH: Python's `site` imports it before the program.

It takes itself out of the way, lets the user's own sitecustomize do its work, and leaves one
finder in sys.meta_path, which notices the import of torch and then goes too. Nothing else may be
different for the program: this file imports nothing that a starting Python has not got already,
and no frame of it is on the stack while code of the program's runs, torch's own import included.
"""
import os
import sys

_FOLDER = os.path.dirname(os.path.abspath(__file__))
_ADDRESS = "OPTRACE_RUN"  # The command's socket.
_CHILDREN = "OPTRACE_RUN_CHILDREN"  # Set: processes that this one starts are traced as well.
_PATH_BEFORE = "OPTRACE_RUN_PYTHONPATH"  # What PYTHONPATH was, if it was set.


class _Finder:
    """Finds nothing itself; sees to it that the tracer hears when torch has been imported."""

    def __init__(self, address, children):
        self._address = address
        self._children = children
        self._process = os.getpid()
        self._program = None
        self._starting = False

    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            self._look_for_torch()
            return None
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            spec = find(name, path, target)
            if spec is not None:
                self._watch(spec)
                return spec
        return None

    def _watch(self, spec):
        """Has the import system itself tell when it begins and ends with this module.

        importlib sets spec._initializing before and after (importlib._bootstrap._load_unlocked, in
        all of Python 3.9 to 3.14), so no loader has to be wrapped.
        """
        if spec.loader is None or not spec.origin:
            return  # A folder that merely has the name.
        finder, kind = self, type(spec)

        class ModuleSpec(kind):
            __module__, __qualname__ = kind.__module__, kind.__qualname__

            def __setattr__(self, name, value):
                if name == "_initializing" and value:
                    finder._begins(self)
                elif name == "_initializing":
                    object.__setattr__(self, "__class__", kind)
                    finder._ends(self)
                object.__setattr__(self, name, value)

        try:
            spec.__class__ = ModuleSpec
        except TypeError:  # Another finder's own class of specs.
            return

    def _begins(self, spec):
        if self._starting or not self._mine() or self._has_program():
            return
        import _signal

        # What a signal handler of the program's raises must not end up in the `except` below. A
        # handler that is due runs before that or, once signals are let through again, after it.
        faults = {_signal.SIGSEGV, _signal.SIGBUS, _signal.SIGFPE, _signal.SIGILL, _signal.SIGABRT,
                  _signal.SIGTRAP, _signal.SIGSYS}
        blocked = _signal.pthread_sigmask(_signal.SIG_BLOCK, _signal.valid_signals() - faults)
        self._starting = True
        try:
            self._program = _load_tracer().begin(self._address, self._children,
                                                 os.path.dirname(spec.origin))
        except Exception:  # Whatever is wrong with us, the program has to go on.
            self._program = None
        finally:
            self._starting = False
            _signal.pthread_sigmask(_signal.SIG_SETMASK, blocked)

    def _ends(self, spec):
        module = sys.modules.get("torch")
        if self._mine() and getattr(module, "__spec__", None) is spec:
            self._start(module, False)
        elif self._has_program():  # The import failed, and may be tried again.
            self._program.give_up()
            self._program = None

    def _look_for_torch(self):
        """For a torch that somebody else's finder found before this one was asked."""
        module = sys.modules.get("torch")
        if module is None or self._starting or not self._mine() or self._has_program():
            return
        spec = getattr(module, "__spec__", None)
        if spec is None or getattr(spec, "_initializing", True) or not spec.origin:
            return
        self._begins(spec)
        self._start(module, True)

    def _start(self, module, late):
        try:
            sys.meta_path.remove(self)
        except ValueError:
            pass
        if self._has_program():
            self._program.start(module, late)

    def _mine(self):
        """A forked process is none of our business, unless it is asked for."""
        return self._children or os.getpid() == self._process

    def _has_program(self):
        return self._program is not None and self._program.process == os.getpid()


def _load_tracer():
    """The package beside this folder, under a name of its own and gone from sys.modules after."""
    from importlib.util import module_from_spec, spec_from_file_location

    name = "_optrace_target"
    folder = os.path.join(os.path.dirname(_FOLDER), "optrace_target")
    spec = spec_from_file_location(name, os.path.join(folder, "__init__.py"),
                                   submodule_search_locations=[folder])
    package = module_from_spec(spec)
    sys.modules[name] = package
    try:
        spec.loader.exec_module(package)
        __import__(name + ".program")
        return package.program
    finally:
        for loaded in [loaded for loaded in sys.modules if loaded.partition(".")[0] == name]:
            del sys.modules[loaded]
        sys.path_importer_cache.pop(folder, None)


def _main():
    while _FOLDER in sys.path:
        sys.path.remove(_FOLDER)
    sys.path_importer_cache.pop(_FOLDER, None)
    address = os.environ.get(_ADDRESS)
    if not address:  # A process that inherited the path and nothing else.
        return
    children = _CHILDREN in os.environ
    if not children:
        before = os.environ.pop(_PATH_BEFORE, None)
        if before is None:
            os.environ.pop("PYTHONPATH", None)
        else:
            os.environ["PYTHONPATH"] = before
        del os.environ[_ADDRESS]
    sys.meta_path.insert(0, _Finder(address, children))


_main()
# From here on it is as if this file had not been there: the same import again, which finds the
# user's own module or raises what `site` expects where there is none.
del sys.modules["sitecustomize"]
import sitecustomize  # noqa: E402, F401
