"""Fixtures for tests that run the real command on real wheels.

OPTRACE_COMMAND (default: build/optrace) is the command, OPTRACE_BUILD (default: build) the folder
that it was built in, OPTRACE_TEST_PYTHON (default: .venv/bin/python) has the reference torch,
OPTRACE_TEST_PYTHON_NEWEST (default: .venv-newest/bin/python) the newest one. ctest sets all four.
"""
import contextlib
import fcntl
import functools
import hashlib
import json
import os
import pathlib
import shlex
import signal
import subprocess
import tempfile
import time

import jsonschema
import pytest
import referencing

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]

# Seconds after which a program hangs, however loaded the machine is.
TIMEOUT = 600

# The only valid reason for a skipped test in CI: the machine lacks something that it requires.
EXCUSED = "cannot run here:"


@pytest.fixture(scope="session")
def repository():
    return REPOSITORY


@pytest.fixture(scope="session")
def build():
    """The folder that optrace was built in."""
    return pathlib.Path(os.environ.get("OPTRACE_BUILD", REPOSITORY / "build")).absolute()


@pytest.fixture(scope="session")
def python():
    """The Python with the reference torch, as text. Not resolved: a venv's python is a link."""
    path = os.environ.get("OPTRACE_TEST_PYTHON", str(REPOSITORY / ".venv/bin/python"))
    assert os.access(path, os.X_OK), f"{path} is missing; make it with `make setup`"
    return path


@pytest.fixture(scope="session")
def newest_python():
    """The Python with the newest torch, as text."""
    path = os.environ.get("OPTRACE_TEST_PYTHON_NEWEST", str(REPOSITORY / ".venv-newest/bin/python"))
    if not os.access(path, os.X_OK):
        pytest.skip(f"{path} is missing; make it with `make newest`")
    return path


@pytest.fixture
def marked_python(python, tmp_path):
    """(a Python that has the reference torch, the file that it creates when it is started)"""
    mark = tmp_path / "started"
    environment = tmp_path / "environment"
    (environment / "bin").mkdir(parents=True)
    program = environment / "bin/python"
    program.write_text(f'#!/bin/sh\ntouch "{mark}"\nexec "{python}" "$@"\n')
    program.chmod(0o755)
    (environment / "pyvenv.cfg").write_text("include-system-site-packages = false\n")
    real = pathlib.Path(python).parent.parent
    (environment / "lib").symlink_to(real / "lib")
    return program, mark


@pytest.fixture(scope="session")
def torch_folder(python, run_program):
    """The folder of the reference torch, which is found without the second that importing takes."""
    script = "import importlib.util as u; print(u.find_spec('torch').origin)"
    return pathlib.Path(run_program([python, "-c", script]).stdout.strip()).parent


@pytest.fixture(scope="session")
def source(run_program, repository):
    """The source of the reference torch."""
    fetched = run_program([repository / "setup/fetch-source.sh"], timeout=600)
    assert fetched.returncode == 0, fetched.stderr
    return (repository / fetched.stdout.strip()).resolve()


@pytest.fixture(scope="session")
def validate(build):
    """validate(object, "report"): validates against the schema of that name."""

    schemas = {file.name: json.loads(file.read_text())
               for file in (build / "share/optrace").glob("*.schema.json")}
    registry: referencing.Registry = referencing.Registry().with_resources(
        (name, referencing.Resource.from_contents(schema)) for name, schema in schemas.items())

    @functools.cache
    def validator(name):
        schema = schemas[f"{name}.schema.json"]
        return jsonschema.validators.validator_for(schema)(schema, registry=registry)

    return lambda value, name: validator(name).validate(value)


@pytest.fixture(scope="session")
def run_program():
    """run_program(arguments, timeout=seconds, **subprocess options) -> CompletedProcess, text.

    After the timeout, the program and everything that it started is killed.
    """
    return _run


@pytest.fixture(scope="session")
def optrace():
    """optrace(*arguments, timeout=seconds, environment={...}, **subprocess options).

    Runs the command and returns the CompletedProcess with text. An environment value of None
    removes the variable. optrace.command is the command as a list.
    """
    command = shlex.split(os.environ.get("OPTRACE_COMMAND", str(REPOSITORY / "build/optrace")))

    def run(*arguments, timeout=TIMEOUT, environment=None, **options):
        variables = dict(os.environ)
        for name, value in (environment or {}).items():
            if value is None:
                variables.pop(name, None)
            else:
                variables[name] = str(value)
        return _run([*command, *map(str, arguments)], timeout=timeout, env=variables, **options)

    vars(run).update(command=command)
    return run


@pytest.fixture(scope="session")
def op_trace(optrace, python, build, torch_folder):
    """op_trace("conv2d", "--backward") -> the trace of `optrace conv2d --backward`, not to be
    changed.

    All test files share it: it is made once for the command, its parts, the torch and the
    arguments, and kept in the build folder.
    """
    parts = [pathlib.Path(optrace.command[0]), *(build / "lib/optrace").iterdir(),
             *(build / "share/optrace/target/").rglob("*.py"),
             *(build / "share/optrace/samples/").rglob("*.json"),
             *(build / "share/optrace/op_records/").rglob("*.*")]
    versions = [*map(str, optrace.command), python, (torch_folder / "version.py").read_text(),
                *(f"{path} {hashlib.sha256(path.read_bytes()).hexdigest()}"
                  for path in sorted(parts) if path.is_file())]

    @functools.cache
    def trace(*arguments):
        key = hashlib.sha256(json.dumps([versions, arguments]).encode()).hexdigest()[:32]
        folder = build / "tests/kept_traces"
        folder.mkdir(parents=True, exist_ok=True)
        kept = folder / f"{key}.trace"
        with open(folder / f"{key}.lock", "wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # Another pytest may be making it.
            if not kept.exists():
                with tempfile.TemporaryDirectory(dir=folder) as work:
                    made = pathlib.Path(work) / "made.trace"
                    result = optrace(*arguments, "--python", python, "--trace", made)
                    assert result.returncode == 0, result.stderr
                    made.chmod(0o444)
                    made.rename(kept)
        return kept

    return trace


@pytest.fixture
def start_optrace(optrace):
    """start_optrace(*arguments, environment={...}) -> Popen of the command in its own session.

    The processes are killed at the end of the test.
    """
    processes = []

    def start(*arguments, environment=None):
        variables = {name: str(value) for name, value in (environment or {}).items()}
        processes.append(subprocess.Popen(
            [*optrace.command, *map(str, arguments)], env={**os.environ, **variables},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True))
        return processes[-1]

    yield start
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.fixture
def press_ctrl_c():
    """press_ctrl_c(process, begun): sends SIGINT to a command and its program, as a terminal does,
    once the program has made the file `begun`. Returns what the command wrote to both streams."""
    def press(process, begun):
        while not begun.exists():
            assert process.poll() is None
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)
        return process.communicate()
    return press


def _run(arguments, timeout=TIMEOUT, env=None, **options):
    # Without variables that C libraries, such as readline, have set in this process.
    env = dict(os.environ) if env is None else env
    with subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, start_new_session=True,
                          env=env, **options) as process:
        try:
            output, errors = process.communicate(timeout=timeout)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            output, errors = process.communicate()
            print(output[-4000:], errors[-4000:], sep="\n")
            raise
    return subprocess.CompletedProcess(arguments, process.returncode, output, errors)


def pytest_configure(config):
    # Inductor of the newest torch then neither tries out what the processor can do nor compiles
    # headers in advance, which takes longer than the kernels of these programs.
    os.environ.update(TORCHINDUCTOR_VEC_ISA_OK="1", TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS="0")
    config.addinivalue_line("markers", "verify: run by `make verify`, not by `make test`")
    config.addinivalue_line("markers", "release: run by `make release-tests` before a release")
    config.addinivalue_line("markers", "stress: run by `make stress` before a release")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    _refuse_skips(outcome.get_result())


@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report(collector):
    outcome = yield
    _refuse_skips(outcome.get_result())


def _refuse_skips(report):
    """In CI, turns a skipped test into a failed one unless its reason starts with EXCUSED."""
    if os.environ.get("CI") != "true" or not report.skipped or hasattr(report, "wasxfail"):
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    reason = reason.removeprefix("Skipped: ")
    if not reason.startswith(EXCUSED):
        report.outcome = "failed"
        report.longrepr = f"skipped in CI: {reason} (only '{EXCUSED} ...' is an excuse there)"
