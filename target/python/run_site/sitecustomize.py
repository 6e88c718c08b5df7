"""First entry that `optrace run` puts on PYTHONPATH: Python's `site` imports it before the
program.

It removes itself from the path, imports the user's own sitecustomize, and leaves one finder in
sys.meta_path, which detects the import of torch and is then removed, too. Nothing else may differ
for the program: this file imports only modules that a starting Python has already imported, and
none of its frames is on the stack while the program's code runs, including the import of torch.
"""
import os
import sys

_FOLDER = os.path.dirname(os.path.abspath(__file__))
_ADDRESS = "OPTRACE_RUN"  # Address of the command's socket.
_CHILDREN = "OPTRACE_RUN_CHILDREN"  # If set, child processes are traced as well.
_STEPS = "OPTRACE_RUN_STEPS"  # The first step to record and the number of steps, if requested.
_PATH_BEFORE = "OPTRACE_RUN_PYTHONPATH"  # Original value of PYTHONPATH, if it was set.


class _Finder:
    """Notifies the tracer when torch has been imported. Finds no module itself."""

    def __init__(self, address, children, window):
        self._address = address
        self._children = children
        self._window = window
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
        """Makes the import system report the begin and end of this module's import.

        importlib sets spec._initializing before and after (importlib._bootstrap._load_unlocked,
        in all of Python 3.9 to 3.14), so no loader needs to be wrapped.
        """
        if spec.loader is None or not spec.origin:
            return  # A folder of that name without a module.
        finder, kind = self, type(spec)

        class ModuleSpec(kind):  # type: ignore[valid-type, misc]  # Known at run time only.
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
        except TypeError:  # Another finder's own spec class.
            return

    def _begins(self, spec):
        if self._starting or not self._mine() or self._has_program():
            return
        import _signal

        # An exception raised by a signal handler of the program must not reach the `except` below.
        # A pending handler runs before that or, once signals are unblocked, after it.
        faults = {_signal.SIGSEGV, _signal.SIGBUS, _signal.SIGFPE, _signal.SIGILL, _signal.SIGABRT,
                  _signal.SIGTRAP, _signal.SIGSYS}
        blocked = _signal.pthread_sigmask(_signal.SIG_BLOCK, _signal.valid_signals() - faults)
        self._starting = True
        try:
            self._program = _load_tracer().begin(self._address, self._children,
                                                 self._window,
                                                 os.path.dirname(spec.origin))
        except Exception:  # The program must continue in spite of any error of the tracer.
            self._program = None
        finally:
            self._starting = False
            _signal.pthread_sigmask(_signal.SIG_SETMASK, blocked)

    def _ends(self, spec):
        module = sys.modules.get("torch")
        if self._mine() and getattr(module, "__spec__", None) is spec:
            self._start(module, False)
        elif self._has_program():  # The import failed and may be retried.
            self._program.give_up()
            self._program = None

    def _look_for_torch(self):
        """Handles a torch that another finder found before this one was called."""
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
        """Returns false in a forked process, unless child processes are traced."""
        return self._children or os.getpid() == self._process

    def _has_program(self):
        return self._program is not None and self._program.process == os.getpid()


def _load_tracer():
    """Imports the package beside this folder under a private name and removes it from
    sys.modules.
    """
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
        for path in (folder, os.path.join(folder, "compiled")):
            sys.path_importer_cache.pop(path, None)


def _main():
    while _FOLDER in sys.path:
        sys.path.remove(_FOLDER)
    sys.path_importer_cache.pop(_FOLDER, None)
    address = os.environ.get(_ADDRESS)
    if not address:  # A process that inherited only the path.
        return
    children = _CHILDREN in os.environ
    steps = os.environ.get(_STEPS)
    if not children:
        before = os.environ.pop(_PATH_BEFORE, None)
        if before is None:
            os.environ.pop("PYTHONPATH", None)
        else:
            os.environ["PYTHONPATH"] = before
        del os.environ[_ADDRESS]
        os.environ.pop(_STEPS, None)
    window = tuple(int(number) for number in steps.split()) if steps else None
    sys.meta_path.insert(0, _Finder(address, children, window))


_main()
# Repeat the import as if this file did not exist: it finds the user's own module or raises the
# exception that `site` expects if there is none.
del sys.modules["sitecustomize"]
import sitecustomize  # noqa: E402, F401
