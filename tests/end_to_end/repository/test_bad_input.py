"""The command's errors: of Python, torch, files or memory, and interrupts by the user. Each failure
is one message with the cause and the remedy, and leaves no file and no process behind. If something
optional is missing, the command continues without it and reports that.
"""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import time
import uuid

import pytest

from attach_target import wait_until
from refusals import assert_refused

USAGE, FAILED, INTERRUPTED = 2, 3, 130
SIGNALLED = 128  # Plus a signal: the exit status of what it ended.
AARCH64 = 183  # EM_AARCH64


@pytest.fixture
def place(tmp_path):
    """A temporary folder and a mark in the environment, both checked afterwards."""
    return Place(tmp_path)


class Place:
    def __init__(self, folder):
        self.temporary = folder / "temporary"
        self.temporary.mkdir()
        self._mark = f"OPTRACE_TEST_MARK={uuid.uuid4()}"
        name, _, value = self._mark.partition("=")
        self.environment = {"TMPDIR": self.temporary, "XDG_RUNTIME_DIR": self.temporary,
                            name: value}

    def processes(self):
        """Returns the processes that were started here and still run."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and self._mark.encode() in (entry / "environ").read_bytes():
                    found.append((entry / "cmdline").read_bytes())
        return found

    def assert_nothing_left(self):
        assert self.processes() == []
        assert list(self.temporary.iterdir()) == []


@pytest.fixture
def run(optrace, python, place):
    """run(*arguments): the command with the reference Python; asserts that it leaves nothing."""

    def start(*arguments, environment=None, **options):
        given = {"OPTRACE_PYTHON": python, **place.environment, **(environment or {})}
        result = optrace(*arguments, environment=given, **options)
        place.assert_nothing_left()
        return result

    return start


def tree_of(result):
    assert result.returncode == 0, result.stderr
    assert "THPVariable_add" in result.stdout, result.stdout
    return result.stdout


# Python and torch.


def program(path, text):
    path.write_text(text)
    path.chmod(0o755)
    return path


def fake_python(path, version, implementation="cpython"):
    """Makes a program that identifies itself as an interpreter of that version."""
    hello = json.dumps({"message": "python", "implementation": implementation, "version": version,
                        "executable": str(path), "torch": None, "modules": []})
    return program(path, f"#!/bin/sh\nprintf '%s\\n' '{hello}' >&3\n")


def foreign_elf(path, machine=AARCH64):
    """Makes a minimal ELF file for another processor."""
    identity = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9)
    path.write_bytes(identity + struct.pack("<HHIQQQIHHHHHH", 2, machine, 1, 0, 64, 0, 0, 64, 56,
                                            0, 64, 0, 0) + bytes(64))
    path.chmod(0o755)
    return path


@pytest.fixture(scope="module")
def bare_python(run_program, python, tmp_path_factory):
    """A virtual environment in which nothing is installed."""
    folder = tmp_path_factory.mktemp("bare")
    made = run_program([python, "-m", "venv", "--without-pip", str(folder)])
    assert made.returncode == 0, made.stderr
    return folder / "bin/python"


def test_a_python_without_torch(run, bare_python):
    result = run("conv2d", "--python", bare_python)
    assert_refused(result, USAGE, f"no torch in {bare_python}", "--python", "-m pip install torch")


def test_a_python_that_is_not_there(run, tmp_path):
    assert_refused(run("conv2d", "--python", tmp_path / "python"), USAGE, "no such file",
                   tmp_path / "python", "--python")
    assert_refused(run("conv2d", "--python", "no-such-python"), USAGE, "no-such-python", "PATH")
    assert_refused(run("conv2d", environment={"OPTRACE_PYTHON": tmp_path / "gone"}), USAGE,
                   tmp_path / "gone", "$OPTRACE_PYTHON")


def test_a_python_that_may_not_be_run(run, tmp_path):
    text = tmp_path / "python"
    text.write_text("#!/bin/sh\n")
    assert_refused(run("conv2d", "--python", text), USAGE, f"{text} can't be run")
    assert_refused(run("conv2d", "--python", tmp_path), USAGE, f"{tmp_path} can't be run")


@pytest.mark.parametrize("text", ["#!/bin/sh\necho I am a shell script; exit 1\n",
                                  "#!/bin/sh\necho I am a shell script >&2; exit 0\n"])
def test_a_program_that_is_no_python(run, tmp_path, text):
    path = program(tmp_path / "python", text)
    assert_refused(run("conv2d", "--python", path), USAGE,
                   f"{path} (from --python) is not a Python",
                   "I am a shell script")


def test_a_program_without_interpreter(run, tmp_path):
    path = program(tmp_path / "python", "#!/no/such/interpreter\n")
    result = run("conv2d", "--python", path)
    assert result.returncode in (USAGE, FAILED)
    assert_refused(result, result.returncode, path)


@pytest.mark.parametrize("version, implementation", [
    ([2, 7, 18], "cpython"), ([3, 8, 19], "cpython"), ([3, 11, 9], "pypy")])
def test_a_python_of_the_wrong_version(run, tmp_path, version, implementation):
    path = fake_python(tmp_path / "python", version, implementation)
    assert_refused(run("conv2d", "--python", path), USAGE,
                   f"is {implementation} {version[0]}.{version[1]}", "3.9")


def test_a_python_for_another_processor(run, tmp_path):
    path = foreign_elf(tmp_path / "python")
    assert_refused(run("conv2d", "--python", path), USAGE, f"{path} is for another processor",
                   "AArch64", "x86-64")


def fake_torch(folder, initializer, make_library):
    """Makes a package that looks like an installed torch, to be found through PYTHONPATH."""
    (folder / "torch/lib").mkdir(parents=True)
    (folder / "torch/__init__.py").write_text(initializer)
    for name in ("libtorch_cpu.so", "libtorch_python.so", "libc10.so"):
        make_library(folder / "torch/lib" / name)
    return {"PYTHONPATH": folder}


def test_a_torch_for_another_processor(run, tmp_path):
    environment = fake_torch(tmp_path / "site", "", foreign_elf)
    assert_refused(run("conv2d", environment=environment), USAGE, "libtorch_cpu.so", "AArch64",
                   "x86-64")


@pytest.mark.parametrize("library, platform", [
    ("libtorch_hip.so", "AMD GPUs (ROCm)"), ("torch_cpu.dll", "Windows"),
    ("libtorch_cpu.dylib", "macOS")])
def test_a_torch_for_another_platform(run, tmp_path, library, platform):
    environment = fake_torch(tmp_path / "site", "", foreign_elf)
    (tmp_path / "site/torch/lib" / library).write_bytes(b"")
    assert_refused(run("conv2d", environment=environment), USAGE, f"built for {platform}", library,
                   "x86-64 Linux", "CUDA", "--python")


def test_a_torch_whose_libraries_are_none(run, tmp_path):
    environment = fake_torch(tmp_path / "site", "", lambda path: path.write_text("text"))
    assert_refused(run("conv2d", environment=environment), USAGE, "libtorch_cpu.so")


def test_a_torch_that_cannot_be_imported(run, torch_folder, tmp_path):
    environment = fake_torch(tmp_path / "site", "raise RuntimeError('half an installation')",
                             lambda path: path.symlink_to(torch_folder / "lib" / path.name))
    assert_refused(run("conv2d", environment=environment), FAILED, "torch can't be imported",
                   "RuntimeError: half an installation")


def link(source, target):
    try:
        os.link(source, target)
    except OSError:  # Another file system.
        os.symlink(source, target)


@pytest.fixture(scope="module")
def stripped_torch(torch_folder, tmp_path_factory):
    """A folder with a copy of torch whose libraries have no symbol tables."""
    folder = tmp_path_factory.mktemp("stripped")
    stripped = ("libtorch_cpu.so", "libtorch_python.so")
    shutil.copytree(torch_folder, folder / "torch", copy_function=link,
                    ignore=lambda _, names: [name for name in names if name in stripped])
    for other in torch_folder.parent.iterdir():  # torch's libraries look for CUDA's here.
        if other.is_dir() and any(other.glob("**/*.so.*")) and other.name != "torch":
            (folder / other.name).symlink_to(other)
    for name in stripped:
        subprocess.run(["strip", "--strip-all", "-o", folder / "torch/lib" / name,
                        torch_folder / "lib" / name], check=True)
    yield folder
    shutil.rmtree(folder)


def test_a_stripped_torch_is_traced_by_its_exported_symbols(run, stripped_torch):
    result = run("add", environment={"PYTHONPATH": stripped_torch})
    assert result.returncode == 0, result.stderr
    assert "aten::add.Tensor" in result.stdout
    said = result.stdout + result.stderr
    for name in ("libtorch_cpu.so", "libtorch_python.so"):
        assert any(name in line and "stripped" in line for line in said.splitlines()), said


# The traced process. Its first imports can be changed through PYTHONPATH.

WHEN_TORCH_IS_THERE = """
import sys

class Watcher:
    def find_spec(self, name, path=None, target=None):
        if name == "optrace_target.calls.resolve":  # The first that is imported after torch.
            sys.meta_path.remove(self)
            act()

sys.meta_path.insert(0, Watcher())
"""

IN_CALL = """
def act():
    import torch
    calls = 0
    original = torch.nn.Conv2d.forward
    def forward(self, x):
        nonlocal calls
        calls += 1
        if calls == {call}:
            misbehave()
        return original(self, x)
    torch.nn.Conv2d.forward = forward
"""

# The first call tests the sample; the second is the first that is recorded.
CALLS = {"sample": 1, "recording": 2}


@pytest.fixture
def site(tmp_path):
    """site(text): an environment in which Python runs `text` before anything else."""

    def make(text):
        folder = tmp_path / "site"
        folder.mkdir()
        (folder / "sitecustomize.py").write_text(text)
        return {"PYTHONPATH": folder}

    return make


@pytest.fixture
def misbehaving(site):
    """misbehaving(text, call): an environment in which the traced call runs `text`."""
    return lambda text, call: site(
        f"def misbehave():\n    {text}\n" + IN_CALL.format(call=CALLS[call]) + WHEN_TORCH_IS_THERE)


DIES = {"exit status 7": "import os; os._exit(7)",
        "SIGKILL": "import os; os.kill(os.getpid(), 9)",
        "SIGSEGV": "import ctypes; ctypes.string_at(0)",
        "last words": "import os; print('last words', flush=True); os.abort()"}
# Of two things that go wrong in each of two calls, each is tested once by `make test`.
QUICK = {("SIGSEGV", "sample"), ("last words", "recording"), ("raises", "recording"),
         ("hangs", "sample"), ("group", "recording"), ("command", "sample")}


def in_calls(*whats):
    """Parameters "what, call" of a test: each of `whats` in each call."""
    return pytest.mark.parametrize("what, call", [
        pytest.param(what, call, marks=[] if (what, call) in QUICK else pytest.mark.verify)
        for what in whats for call in CALLS])


# test_children_of_the_call_die_with_it has the exit status, in the other call.
@in_calls(*DIES)
def test_a_python_that_dies(run, misbehaving, what, call):
    assert_refused(run("conv2d", environment=misbehaving(DIES[what], call)), FAILED,
                   "the traced Python died", call, what)


@in_calls("raises")
def test_a_call_that_raises(run, misbehaving, what, call):
    environment = misbehaving("raise ValueError('not today')", call)
    assert_refused(run("conv2d", environment=environment), FAILED, "ValueError: not today")


@in_calls("hangs")
def test_a_call_that_hangs(run, misbehaving, what, call):
    environment = misbehaving("import time; time.sleep(600)", call)
    result = run("conv2d", "--timeout", "8", environment=environment)
    assert_refused(result, FAILED, "did not respond for 8 s", call, "--timeout")


def test_children_of_the_call_die_with_it(run, misbehaving):
    environment = misbehaving("import os, subprocess; subprocess.Popen(['sleep', '600']); "
                              "os._exit(7)", "recording")
    assert_refused(run("conv2d", environment=environment), FAILED, "the traced Python died",
                   "recording", "exit status 7")


def test_a_site_that_raises_is_no_hindrance(run, site):
    tree_of(run("add", environment=site("raise RuntimeError('not here')")))


def test_a_site_that_exits(run, site):
    environment = site("import os; print('closed today', flush=True); os._exit(0)")
    assert_refused(run("add", environment=environment), USAGE, "ended without answering",
                   "closed today")


NO_ROOM = """
import ctypes

REACH = 2 << 30  # Bytes that a jump reaches, either way.
PRIVATE, ANONYMOUS, NO_RESERVE, NO_REPLACE = 0x2, 0x20, 0x4000, 0x100000

def act():
    with open("/proc/self/maps") as maps:
        lines = maps.read().splitlines()
    used = sorted(tuple(int(end, 16) for end in line.split()[0].split("-")) for line in lines)
    torch = [(low, high) for low, high in used
             if any(f"{low:x}-" in line and "/torch/lib/" in line for line in lines)]
    lowest = min(low for low, _ in torch) - REACH - (64 << 20)
    highest = max(high for _, high in torch) + REACH + (64 << 20)
    c = ctypes.CDLL(None)
    c.mmap.restype = ctypes.c_void_p
    at = max(lowest, 1 << 20)
    for low, high in [*used, (highest, highest)]:
        if at < min(low, highest):
            c.mmap(ctypes.c_void_p(at), ctypes.c_size_t(min(low, highest) - at), 0,
                   PRIVATE | ANONYMOUS | NO_RESERVE | NO_REPLACE, -1, 0)
        at = max(at, high)
"""


def test_no_room_for_probes_near_a_module_is_said(run, site):
    result = run("add", environment=site(NO_ROOM + WHEN_TORCH_IS_THERE))
    assert "no memory is free within 2 GB" in tree_of(result)


# Interrupts.


@pytest.fixture
def started(start_optrace, python, place):
    """started(arguments...) -> Popen of the command in its own session, killed at the end."""

    def start(*arguments, environment=None):
        return start_optrace(*arguments, environment={
            "OPTRACE_PYTHON": python, **place.environment, **(environment or {})})

    return start


def interrupt(process, to_group, number=signal.SIGINT):
    (os.killpg if to_group else os.kill)(process.pid, number)
    output, errors = process.communicate(timeout=300)
    return subprocess.CompletedProcess(process.args, process.returncode, output, errors)


def wait_for(path, process):
    def is_there():
        assert process.poll() is None, process.communicate()
        return path.exists()

    wait_until(is_there, f"{path} is there")


@in_calls("group", "command")
def test_an_interrupt_leaves_nothing(started, place, misbehaving, tmp_path, what, call):
    sign, output = tmp_path / "sign", tmp_path / "output"
    output.mkdir()
    environment = misbehaving(f"import time; open({str(sign)!r}, 'w'); time.sleep(600)", call)
    process = started("conv2d", "--trace", output / "trace", "-o", output / "tree",
                      environment=environment)
    wait_for(sign, process)
    assert_refused(interrupt(process, what == "group"), INTERRUPTED, "interrupted")
    assert list(output.iterdir()) == []
    place.assert_nothing_left()


@pytest.mark.parametrize("number", [
    signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.verify)])
def test_other_requests_to_end_leave_nothing(started, place, misbehaving, tmp_path, number):
    sign = tmp_path / "sign"
    environment = misbehaving(f"import time; open({str(sign)!r}, 'w'); time.sleep(600)", "sample")
    process = started("conv2d", environment=environment)
    wait_for(sign, process)
    assert_refused(interrupt(process, False, number), SIGNALLED + number, "interrupted")
    place.assert_nothing_left()


ENDS = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])


@ENDS
def test_a_request_to_end_while_a_reader_is_slow(started, trace, tmp_path, number):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    process = started("report", trace, "--format", "html", "-o", pipe)
    with open(pipe, "rb", buffering=0) as reader:
        assert reader.read(1)  # The page is larger than the pipe.
        assert_refused(interrupt(process, False, number), SIGNALLED + number, "interrupted")


@ENDS
def test_a_request_to_end_while_python_is_asked(started, place, tmp_path, number):
    sign, module = tmp_path / "sign", tmp_path / "slow.py"
    module.write_text(f"import time; open({str(sign)!r}, 'w'); time.sleep(600)")
    process = started("locate", "slow.function", "-o", tmp_path / "answer",
                      environment={"PYTHONPATH": tmp_path})
    wait_for(sign, process)
    assert_refused(interrupt(process, False, number), SIGNALLED + number, "interrupted")
    assert {path.name for path in tmp_path.iterdir()} == {"sign", "slow.py", "temporary"}
    place.assert_nothing_left()


def test_a_request_to_end_that_is_to_be_ignored(start_optrace, trace, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # As nohup does.
    try:
        process = start_optrace("report", trace, "--format", "html", "-o", pipe)
    finally:
        signal.signal(signal.SIGHUP, before)
    with open(pipe, "rb", buffering=0) as reader:
        page = reader.read(1)
        process.send_signal(signal.SIGHUP)
        page += reader.read()
    assert process.wait() == 0 and page.endswith(b"</html>\n")


@pytest.mark.verify
def test_an_interrupt_at_any_time_leaves_nothing(started, place, tmp_path):
    output = tmp_path / "output"
    output.mkdir()
    outcomes = set()
    for tenths in range(0, 20, 2):
        process = started("add", "-o", output / "tree")
        time.sleep(tenths / 10)
        result = interrupt(process, True)
        outcomes.add(result.returncode)
        # The signal may come before the command handles it, or after the command has finished.
        assert result.returncode in (INTERRUPTED, -signal.SIGINT, 0), result.stderr
        assert [path.name for path in output.iterdir() if path.name != "tree"] == []
        assert (output / "tree").exists() == (result.returncode == 0)
        (output / "tree").unlink(missing_ok=True)
        place.assert_nothing_left()
    assert INTERRUPTED in outcomes


# Traces.


@pytest.fixture(scope="module")
def trace(op_trace):
    return op_trace("add")


def test_a_truncated_trace(run, trace, tmp_path):
    whole, part = trace.read_bytes(), tmp_path / "part.trace"
    sizes = sorted({*range(0, 64, 7), *range(64, len(whole), len(whole) // 16), len(whole) - 1})
    for size in sizes:
        part.write_bytes(whole[:size])
        assert_refused(run("report", part), USAGE, part)


def test_a_trace_with_a_flipped_bit(run, trace, tmp_path):
    whole, spoiled = trace.read_bytes(), tmp_path / "spoiled.trace"
    for place_ in [*range(0, 24, 3), *range(24, len(whole), len(whole) // 16)]:
        changed = bytearray(whole)
        changed[place_] ^= 1 << place_ % 8
        spoiled.write_bytes(changed)
        assert_refused(run("report", spoiled), USAGE, spoiled)


def test_a_trace_with_more_behind_it(run, trace, tmp_path):
    longer = tmp_path / "longer.trace"
    longer.write_bytes(trace.read_bytes() + b"more")
    assert_refused(run("report", longer), USAGE, longer)


def test_a_trace_of_another_version(run, trace, tmp_path):
    later = tmp_path / "later.trace"
    whole = trace.read_bytes()
    later.write_bytes(whole[:8] + struct.pack("<I", 99) + whole[12:])
    assert_refused(run("report", later), USAGE, later, "version 99")


@pytest.mark.parametrize("make", [lambda path: None, pathlib.Path.mkdir, pathlib.Path.touch,
                                  os.mkfifo, lambda path: path.symlink_to(path),
                                  lambda path: path.write_text("conv2d\n" * 100)],
                         ids=["missing", "folder", "empty", "fifo", "loop", "text"])
def test_what_is_no_trace(run, tmp_path, make):
    path = tmp_path / "a.trace"
    make(path)
    assert_refused(run("report", path), USAGE, path)


# Indexes and optrace's own files.


@pytest.fixture
def installation(build, tmp_path):
    """optrace without any index: a folder like its build folder, to be damaged."""
    folder = tmp_path / "installation"
    (folder / "lib/optrace").mkdir(parents=True)
    (folder / "share/optrace/indexes").mkdir(parents=True)
    # Not a link, which leads to the files of the build where only a symbolic one is possible.
    shutil.copy2(build / "optrace", folder / "optrace")
    for part in ("lib/optrace", "share/optrace"):
        for item in (build / part).iterdir():
            if item.name != "indexes":
                (folder / part / item.name).symlink_to(item.resolve())
    return folder


@pytest.fixture
def run_installation(installation, python, place, run_program):
    def start(*arguments):
        variables = {**os.environ, "OPTRACE_PYTHON": python, "OPTRACE_INDEX_DIR": "/nonexistent",
                     **place.environment}
        result = run_program([str(installation / "optrace"), *map(str, arguments)],
                             env={name: str(value) for name, value in variables.items()})
        place.assert_nothing_left()
        return result

    return start


def test_without_an_index_there_are_no_lines(run_installation, trace):
    tree = tree_of(run_installation("report", trace))
    assert "optrace source add" in tree
    assert ".cpp:" not in tree


@pytest.mark.parametrize("spoil, words", [
    (lambda whole: whole[:len(whole) // 2], []),
    (lambda whole: whole[:100], []),
    (lambda whole: b"", []),
    (lambda whole: b"no index" * 100, []),
    (lambda whole: whole[:8] + struct.pack("<I", 99) + whole[12:], ["version 99"])],
    ids=["half", "header", "empty", "other", "version"])
def test_a_bad_index_is_told_and_the_tree_comes_without_lines(build, installation, run_installation,
                                                              trace, spoil, words):
    whole = next((build / "share/optrace/indexes").glob("*.index")).read_bytes()
    bad = installation / "share/optrace/indexes/bad.index"
    bad.write_bytes(spoil(whole))
    result = run_installation("report", trace)
    assert ".cpp:" not in tree_of(result)
    assert result.stderr.startswith("optrace: ") and str(bad) in result.stderr
    for word in words:
        assert word in result.stderr


def test_an_agent_for_another_processor(installation, run_installation):
    agent = installation / "lib/optrace/liboptrace_agent.so"
    agent.unlink()
    foreign_elf(agent)
    assert_refused(run_installation("add"), FAILED, "the agent can't be loaded", agent)


def test_a_damaged_table_of_samples(installation, run_installation):
    samples = installation / "share/optrace/samples"
    samples.unlink()
    samples.mkdir()
    (samples / "broken.json").write_text("{")
    assert_refused(run_installation("add"), FAILED, "broken.json", "Reinstall optrace")


def test_a_missing_installation(installation, run_installation):
    shutil.rmtree(installation / "share")
    result = run_installation("add")
    assert_refused(result, result.returncode, "share/optrace")
    assert result.returncode in (USAGE, FAILED)


# Output, and the machine's own folders.


@pytest.mark.parametrize("option", ["-o", "--trace"])
@pytest.mark.parametrize("path", ["/proc/report", "/sys/report", "/no/such/folder/report", "."])
def test_output_that_cannot_be_written(run, option, path):
    assert_refused(run("add", option, path), USAGE, path, "Name a file")


def test_an_output_file_that_is_there_is_kept_on_failure(run, bare_python, tmp_path):
    file = tmp_path / "tree"
    file.write_text("precious")
    assert_refused(run("add", "-o", file, "--python", bare_python), USAGE)
    assert file.read_text() == "precious"
    assert {path.name for path in tmp_path.iterdir()} == {"tree", "temporary"}


def test_a_full_disk(run, trace):
    full = pathlib.Path("/dev/full")
    assert_refused(run("report", trace, "-o", full), FAILED, full, "No space left")
    assert full.is_char_device()


def test_devices_and_pipes_are_written_to_not_replaced(run, trace, tmp_path):
    null = pathlib.Path("/dev/null")
    assert run("report", trace, "-o", null).returncode == 0
    assert null.is_char_device()
    direct = run("report", trace)
    assert run("report", trace, "-o", "/dev/stdout").stdout == direct.stdout


def test_an_output_file_reached_by_a_link(run, trace, tmp_path):
    file = tmp_path / "tree"
    file.write_text("earlier")
    (tmp_path / "link").symlink_to(file)
    assert run("report", trace, "-o", tmp_path / "link").returncode == 0
    assert (tmp_path / "link").is_symlink() and "THPVariable_add" in file.read_text()


@pytest.fixture
def shell(optrace, python, place, run_program):
    """shell(text): runs a line in bash, where $optrace is the command."""
    command, = optrace.command

    def start(text):
        result = run_program(["bash", "-c", text], env={
            **os.environ, "OPTRACE_PYTHON": python, "optrace": command,
            **{name: str(value) for name, value in place.environment.items()}})
        place.assert_nothing_left()
        return result

    return start


def test_a_reader_that_leaves_early_is_no_error(shell, trace):
    result = shell(f'"$optrace" report {trace} --all --format json | head -c 1; '
                   'exit "${PIPESTATUS[0]}"')
    assert (result.returncode, result.stdout, result.stderr) == (0, "{", "")


@pytest.mark.parametrize("arguments", ["add", "report {trace}"])
def test_a_closed_standard_output(shell, trace, arguments):
    result = shell('"$optrace" ' + arguments.format(trace=trace) + " >&-")
    assert_refused(result, USAGE, "standard output is closed", "-o")


def test_a_full_standard_output(shell, trace):
    assert_refused(shell(f'"$optrace" report {trace} >/dev/full'), FAILED, "No space left")


# platform_test.cpp has the other reasons. An agent is compiled.
@pytest.mark.verify
def test_without_a_cache_it_takes_longer_and_says_so(run, tmp_path):
    nobody = tmp_path / "nobody"
    tree = tree_of(run("add", environment={"XDG_CACHE_HOME": None, "OPTRACE_CACHE_DIR": None,
                                           "OPTRACE_PREBUILT": "0", "HOME": str(nobody)}))
    warnings = [line for line in tree.splitlines() if line.startswith("warning ")]
    assert any("compiled again in each run" in line and "Set OPTRACE_CACHE_DIR" in line
               and f"HOME is {nobody}, which does not exist" in line
               for line in warnings), tree[:2000]
    assert not nobody.exists()


@pytest.mark.parametrize("folder", ["/no/such/folder", "/proc"])
def test_a_temporary_folder_that_takes_nothing(run, folder):
    assert_refused(run("add", environment={"TMPDIR": folder}), FAILED, "temporary folder",
                   "TMPDIR")


# The command line.


@pytest.mark.parametrize("arguments, words", [
    ([], ["no op"]),
    (["conv2d", "--device", "tpu"], ["--device", "tpu", "cpu"]),
    (["conv2d", "--format", "xml"], ["--format", "xml", "json"]),
    (["conv2d", "--timeout", "0"], ["--timeout"]),
    (["conv2d", "--nonsense"], ["--nonsense", "optrace --help"]),
    (["conv2d", "--why-not=cudnn"], ["--why-not", "`optrace explain` has --why-not."]),
    (["conv2d", "--children"], ["--children", "`optrace run`, `optrace tensors` have --children"]),
    (["conv2d", "--backwards"], ["--backwards", "Did you mean --backward?"]),
    (["run", "--dryrun", "script.py"], ["--dryrun", "Did you mean --dry-run?"]),
    (["conv2d", "linear"], ["linear"]),
    (["report"], ["TRACE"]),
    (["x" * 1000], ["longer"]),
    (["conv2d", "--timeline"], ["--timeline", "--trace"]),
    (["conv2d", "--trace", "same", "-o", "same"], ["different files"])])
def test_wrong_usage(run, tmp_path, arguments, words):
    assert_refused(run(*arguments, cwd=tmp_path), USAGE, *words)


@pytest.mark.parametrize("spelling, near", [
    ("conv2dd", "conv2d"), ("nn.Conv2D", "nn.Conv2d"),
    pytest.param("F.Linear", "F.linear", marks=pytest.mark.verify),
    ("Tensor.ad_", "Tensor.add_"), ("aten::convoluton", "aten::convolution"),
    ("torch.matmull", "torch.matmul")])
def test_a_misspelled_name_gets_the_nearest(run, spelling, near):
    assert_refused(run(spelling), USAGE, f"'{spelling}'", "Did you mean", near)


@pytest.mark.parametrize("spelling", [
    "", "nn.", "torch.", "\x1b[31m", "torch.ops.", "__class__", "Tensor.__class__",
    # Each of them is looked for in torch.
    *(pytest.param(name, marks=pytest.mark.verify) for name in ("::", "aten::", "a b", "..", "é"))])
def test_what_is_no_name_at_all(run, spelling):
    result = run(spelling)
    assert_refused(result, USAGE)
    assert "\x1b" not in result.stderr
