"""pytest: a marker that checks what a test runs against rules, and a fixture to trace a part of it.

    @pytest.mark.optrace(expect="conv2d uses onednn")
    def test_model(model, batch):
        model(batch)

    def test_step(optrace, model, batch):
        with optrace.trace() as t:
            model(batch)
        optrace.check(t, ["never calls *slow_conv*", "copies <= 2"])

docs/pytest.md is the reference. torch and the compiled part of optrace are not loaded before a test
uses them.
"""
import functools
import hashlib
import inspect
import os
import pathlib
import re

import pytest

from ._error import Error

_RULE_FILES = (".yaml", ".yml", ".json")
_expectations = pytest.StashKey()
_kept = pytest.StashKey()  # Number of traces of a test that were kept.


def pytest_addoption(parser):
    parser.getgroup("optrace").addoption(
        "--optrace-traces", metavar="FOLDER", type=os.path.abspath,
        help="keep the traces of all tests with the marker or the fixture in FOLDER, for optrace "
             "report and optrace compare")


def pytest_configure(config):
    config.addinivalue_line(
        "markers",
        "optrace(expect, *, allow_unknown=False): trace what the test calls, and fail it unless "
        "the rules hold: a rule of optrace check, a file of rules, a dict, or a list of these")


def _marker(expect, *, allow_unknown=False):
    """The arguments of a marker: the rules, and whether unknown names are allowed."""
    if not isinstance(allow_unknown, bool):
        raise TypeError(f"allow_unknown is True or False, not {allow_unknown!r}")
    return expect, allow_unknown


def pytest_runtest_setup(item):
    # iter_markers() starts with the marker nearest to the test. The reverse is the order in the
    # file.
    markers = list(item.iter_markers("optrace"))[::-1]
    if not markers:
        return
    function = getattr(item, "obj", None)
    if not isinstance(item, pytest.Function) or inspect.iscoroutinefunction(function):
        _refuse("the marker optrace is only for synchronous test functions, and this is "
                f"{'an async one' if function else 'not a function'}")
    expectations = []
    for marker in markers:
        try:
            # Binds first, because the errors of bind() name no function.
            inspect.signature(_marker).bind(*marker.args, **marker.kwargs)
            expect, allow_unknown = _marker(*marker.args, **marker.kwargs)
        except TypeError as error:
            _refuse(f"@pytest.mark.optrace: {error}. It takes expect=RULES, and allow_unknown=True "
                    "to accept unknown names")
        expect = _from_here(expect, item)
        try:
            _module()._optrace.require_rules(expect)
        except Error as error:
            _refuse(f"@pytest.mark.optrace: {error}")
        expectations.append((expect, allow_unknown))
    item.stash[_expectations] = expectations


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item):
    expectations = item.stash.get(_expectations, None)
    if not expectations:
        return (yield)
    traced = _TracedFunction(item.obj)
    # Same as pytest's --trace does; unittest's tests are called through this attribute too.
    item.obj = traced.call
    try:
        result = yield
    finally:
        item.obj = traced.function
    _check(item, traced, expectations)
    return result


class _TracedFunction:
    """A test function that is traced when it is called."""

    def __init__(self, function):
        self.function = function
        self.trace = None

        @functools.wraps(function)
        def call(*arguments, **named):
            __tracebackhide__ = True
            trace = _start()
            try:
                result = function(*arguments, **named)
            except BaseException:
                _stop_quietly(trace)
                raise
            try:
                trace.stop()
            except Error as error:
                _refuse(str(error))
            self.trace = trace
            return result

        self.call = call


def _start():
    __tracebackhide__ = True
    try:
        trace = _module().trace(outer_frames=False)  # Those are pytest's.
        trace.start()
    except Error as error:
        _refuse(str(error))
    return trace


def _stop_quietly(trace):
    """Stops the trace. Hides errors of optrace, so that the test's own exception is shown."""
    try:
        trace.stop()
    except Error:
        pass


def _check(item, traced, expectations):
    if traced.trace is None:
        # For unittest's tests pytest shows their own failure in place of this one.
        _refuse("the test was not traced, because another plugin replaced its function; its rules "
                "were not checked")
    _keep(item, traced.trace)
    broken = []
    for expect, allow_unknown in expectations:
        try:
            check = traced.trace.check(expect, allow_unknown=allow_unknown)
        except Error as error:
            _refuse(str(error))
        if not check:
            broken.append(check)
    if broken:
        # pytest itself ends a failure with its line, except one without a traceback.
        file, line, _ = item.location
        _refuse(f"{_text_of(broken)}\n\n{file}:{(line or 0) + 1}: Failed")


def _text_of(checks):
    """The rules that do not hold: one on the first line, which pytest's summary shows, then all."""
    first = next(rule for rule in checks[0].rules if rule["status"] != "passed")
    return "\n\n".join([f"{first['name']}: {first['found']}", *(str(it).rstrip() for it in checks)])


def _refuse(text):
    __tracebackhide__ = True
    raise pytest.fail.Exception(f"optrace: {text}", pytrace=False) from None


def _module():
    """Returns the package optrace with its compiled part loaded."""
    try:
        import optrace
        _ = optrace.trace  # Loads the compiled part.
    except ImportError as error:
        _refuse(str(error))
    return optrace


def _from_here(expect, item):
    """Replaces the names of rule files beside the test by their paths, wherever pytest runs."""
    if isinstance(expect, (list, tuple)):
        return [_from_here(one, item) for one in expect]
    if isinstance(expect, (str, os.PathLike)) and str(expect).endswith(_RULE_FILES):
        beside = item.path.parent / expect
        return beside if beside.is_file() else expect
    return expect


def _keep(item, trace):
    kept_in = item.config.getoption("optrace_traces")
    if kept_in is None:
        return
    folder = pathlib.Path(kept_in)
    # Short enough for a file name, and unique for each test.
    readable = re.sub(r"[^\w.-]+", "_", item.nodeid)[-150:]
    number = item.stash.get(_kept, 0)
    item.stash[_kept] = number + 1
    suffix = f"-{number + 1}" if number else ""
    digest = hashlib.sha256(item.nodeid.encode()).hexdigest()[:8]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        trace.save(folder / f"{readable}-{digest}{suffix}.trace")
    except (OSError, Error) as error:
        _refuse(f"the trace can't be saved: {error}")


class Tracer:
    """The value of the fixture `optrace`."""

    def __init__(self, item):
        self._item = item

    def trace(self, **options):
        """Same as optrace.trace(): returns a Trace for a with block."""
        return _module().trace(**options)

    def check(self, trace, expect, *, allow_unknown=False):
        """Checks a trace. Raises AssertionError unless all rules hold; else returns the Check."""
        __tracebackhide__ = True
        check = trace.check(_from_here(expect, self._item), allow_unknown=allow_unknown)
        _keep(self._item, trace)
        if not check:
            raise AssertionError("optrace: " + _text_of([check]))
        return check


@pytest.fixture
def optrace(request):
    """Traces a part of the test: with optrace.trace() as t, then optrace.check(t, RULES)."""
    return Tracer(request.node)
