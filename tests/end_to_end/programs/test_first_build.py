"""What is compiled for a torch, once: no trace is lost, however long it takes, whatever ends it,
and wherever it can't be kept."""
import concurrent.futures
import contextlib
import os
import pathlib
import signal
import subprocess
import textwrap
import time

import pytest

from compilers import FOREVER, Compiler, living, wait_until
from kept_traces import without_place
from usual_cache import copy_plans

FAILED = 3
INTERRUPTED = 130
TERMINATED = 128 + signal.SIGTERM
TRACED = "import torch; torch.ones(3).add(1)"
NOTICE = "optrace: compiling the op-record agent for this torch, once"


@pytest.fixture(scope="module")
def agent(optrace, python):
    """The op agent of the reference torch."""
    program = TRACED + "; print(*open('/proc/self/maps'), sep='')"
    result = optrace("run", "--python", python, "-o", os.devnull, "-c", program)
    paths = {line.split()[-1] for line in result.stdout.splitlines() if "liboptrace_ops" in line}
    path, = paths
    return path


class Place:
    """An empty cache, temporary files, and a compiler for the commands of a test."""

    def __init__(self, folder, agent):
        self.folder, self._agent = folder, agent
        self.cache, self.temporary = folder / "cache", folder / "temporary"
        self.temporary.mkdir()
        copy_plans(self.cache)
        self.agents = self.cache / "op-agents"
        self.mark = f"optrace-test-{folder}"
        self.environment = {"OPTRACE_CACHE_DIR": self.cache, "TMPDIR": self.temporary,
                            "OPTRACE_TEST_MARK": self.mark, "OPTRACE_PREBUILT": "0"}

    def use(self, name="compiler", **properties):
        """Chooses the compiler."""
        compiler = Compiler(self.folder / name, self._agent, **properties)
        self.environment["CXX"] = compiler.path
        return compiler

    def assert_nothing_left(self):
        wait_until(lambda: not living(self.mark))
        assert not self.agents.exists() or list(self.agents.iterdir()) == []
        assert list(self.temporary.iterdir()) == []


@pytest.fixture
def place(tmp_path, agent):
    return Place(tmp_path, agent)


@pytest.fixture
def hidden_python(python, tmp_path):
    """A Python whose torch only it finds, as one of pyenv: nothing can be compiled beforehand."""
    program = tmp_path / "hidden/bin/python"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nexec "{python}" "$@"\n')
    program.chmod(0o700)
    return program


def has_op_records(optrace, trace):
    report = optrace("report", trace, "--format", "json")
    assert report.returncode == 0, report.stderr
    return '"dispatch_key"' in report.stdout


@pytest.mark.parametrize("seconds", [12, pytest.param(130, marks=pytest.mark.release)])
@pytest.mark.parametrize("finds", ["before", "when torch is imported"])
def test_a_slow_compiler_is_waited_for(optrace, python, hidden_python, place, seconds, finds):
    compiler = place.use(seconds=seconds)
    trace = place.folder / "t.trace"
    result = optrace("run", "--python", python if finds == "before" else hidden_python, "--trace",
                     trace, "-o", place.folder / "report", "-c", TRACED + "; print('done')",
                     environment=place.environment)
    assert (result.returncode, result.stdout) == (0, "done\n"), result.stderr
    assert result.stderr.splitlines() == [NOTICE]
    assert compiler.builds() == 1
    assert has_op_records(optrace, trace)


@pytest.mark.verify
def test_an_op_is_waited_for(optrace, python, place):
    place.use(seconds=12)
    trace = place.folder / "t.trace"
    result = optrace("add", "--python", python, "--trace", trace, environment=place.environment)
    assert result.returncode == 0 and result.stderr.splitlines() == [NOTICE]
    assert has_op_records(optrace, trace)


ENDS = {"Ctrl-C": (signal.SIGINT, INTERRUPTED), "SIGTERM": (signal.SIGTERM, TERMINATED)}


def send(process, end):
    """Sends the signal as a terminal does, or to the command alone."""
    number, _ = ENDS[end]
    os.killpg(process.pid, number) if end == "Ctrl-C" else process.send_signal(number)


def blocks_signals(command):
    """True while the program of a command waits for it, for a while at least."""
    program = pathlib.Path(f"/proc/{command}/task/{command}/children").read_text().split()[0]
    for _ in range(2):
        _, mask = pathlib.Path(f"/proc/{program}/status").read_text().split("SigBlk:\t")
        if not int(mask.split()[0], 16) >> (signal.SIGTERM - 1) & 1:
            return False
        time.sleep(0.5)
    return True


@pytest.mark.parametrize("end", ENDS)
def test_a_signal_ends_a_build_before_the_program(start_optrace, python, place, end):
    compiler = place.use(seconds=FOREVER)
    started = place.folder / "started"
    process = start_optrace("run", "--python", python, "--trace", place.folder / "t.trace", "-c",
                            f"open({str(started)!r}, 'w')", environment=place.environment)
    wait_until(compiler.has_begun, process)
    send(process, end)
    _, errors = process.communicate()
    assert process.returncode == ENDS[end][1] and errors.startswith("optrace: interrupted\n")
    assert not started.exists() and not (place.folder / "t.trace").exists()
    place.assert_nothing_left()


@pytest.mark.parametrize("end", ENDS)
def test_a_signal_ends_a_build_and_the_program(start_optrace, hidden_python, place, end):
    compiler = place.use(seconds=FOREVER)
    process = start_optrace("run", "--python", hidden_python, "--trace", place.folder / "t.trace",
                            "-c", TRACED, environment=place.environment)
    wait_until(compiler.has_begun, process)
    wait_until(lambda: blocks_signals(process.pid), process)  # It has imported torch.
    send(process, end)
    _, errors = process.communicate()
    assert process.returncode == ENDS[end][1]
    assert "optrace: the program was not traced: it ended, or a signal came, while" in errors
    assert not (place.folder / "t.trace").exists()
    place.assert_nothing_left()


@pytest.mark.parametrize("end", [
    "Ctrl-C", pytest.param("SIGTERM", marks=pytest.mark.verify)])
def test_a_signal_ends_a_build_for_an_op(start_optrace, python, place, end):
    compiler = place.use(seconds=FOREVER)
    process = start_optrace("add", "--python", python, environment=place.environment)
    wait_until(compiler.has_begun, process)
    send(process, end)
    _, errors = process.communicate()
    assert process.returncode == ENDS[end][1] and errors.startswith("optrace: interrupted\n")
    place.assert_nothing_left()


def test_a_program_that_ends_while_it_is_compiled_for(optrace, hidden_python, place):
    compiler = place.use(seconds=FOREVER)
    report, trace = place.folder / "report", place.folder / "t.trace"
    code = f"""
        import os, pathlib, threading, time
        log = pathlib.Path({str(compiler.path.parent / "log")!r})
        def end():
            while not log.exists():
                time.sleep(0.05)
            time.sleep(3)  # The import of torch is over, and the program waits.
            os._exit(5)
        threading.Thread(target=end).start()
        import torch
        """
    result = optrace("run", "--python", hidden_python, "--trace", trace, "-o", report, "-c",
                     textwrap.dedent(code), environment=place.environment)
    assert result.returncode == FAILED
    complaint, = [line for line in result.stderr.splitlines() if line.startswith("optrace: ")]
    assert ("it ended, or a signal came, while it was compiled for" in complaint
            or "never imported torch" in complaint)
    assert not trace.exists() and not report.exists()
    place.assert_nothing_left()


def test_a_killed_command_leaves_no_compiler_and_blocks_nothing(start_optrace, optrace, python,
                                                                place):
    slow = place.use(seconds=FOREVER)
    process = start_optrace("run", "--python", python, "-c", "pass", environment=place.environment)
    wait_until(slow.has_begun, process)
    process.kill()
    process.communicate()
    wait_until(lambda: not living(place.mark))
    (place.agents / ".new-a1B2c3").mkdir()  # Of a command that was killed a little later.
    quick = place.use("quick")
    trace = place.folder / "t.trace"
    result = optrace("run", "--python", python, "--trace", trace, "-o", place.folder / "report",
                     "-c", TRACED, environment=place.environment)
    assert (result.returncode, result.stderr) == (0, "") and has_op_records(optrace, trace)
    assert quick.builds() == 1
    kept, = place.agents.iterdir()
    assert not kept.name.startswith(".")


@pytest.mark.parametrize(("program", "status"), [
    ("pass", FAILED), pytest.param(TRACED, 0, marks=pytest.mark.verify)])
def test_ten_at_once_compile_once(optrace, python, place, program, status):
    """A program without torch is enough: what is compiled is compiled before it starts."""
    compiler = place.use(seconds=2)

    def run(number):
        return optrace("run", "--python", python, "--trace", place.folder / f"{number}.trace",
                       "-o", place.folder / f"{number}.txt", "-c", program,
                       environment=place.environment).returncode

    with concurrent.futures.ThreadPoolExecutor(10) as pool:
        assert list(pool.map(run, range(10))) == [status] * 10
    assert compiler.builds() == 1 and len(list(place.agents.iterdir())) == 1


def test_who_waits_for_a_killed_builder_builds(start_optrace, python, place):
    slow = place.use(seconds=FOREVER)
    first = start_optrace("run", "--python", python, "-c", "pass", environment=place.environment)
    wait_until(slow.has_begun, first)
    quick = place.use("quick")
    second = start_optrace("run", "--python", python, "-c", "pass", environment=place.environment)
    time.sleep(0.5)
    assert second.poll() is None and not quick.has_begun()
    first.kill()
    _, errors = second.communicate()
    assert second.returncode == FAILED and "never imported torch" in errors
    assert quick.builds() == 1


@pytest.mark.verify
@pytest.mark.parametrize("kept", [True, False], ids=["a cache", "no cache"])
def test_the_ranks_of_a_job_compile_once(optrace, hidden_python, place, kept):
    compiler = place.use()
    if not kept:
        place.environment["OPTRACE_CACHE_DIR"] = "/dev/null"
    job = place.folder / "job.py"
    job.write_text(TRACED)
    result = optrace("run", "--children", "--python", hidden_python, "--trace",
                     place.folder / "job.trace", "-o", place.folder / "report", "-m",
                     "torch.distributed.run", "--nproc-per-node", "4", job,
                     environment=place.environment)
    assert result.returncode == 0, result.stderr
    ranks = sorted(place.folder.glob("job.rank*.trace"))
    assert len(ranks) == 4 and all(has_op_records(optrace, rank) for rank in ranks)
    assert compiler.builds() == 1


@contextlib.contextmanager
def file_in_place_of_the_cache(place):
    place.environment["OPTRACE_CACHE_DIR"] = place.folder / "file"
    (place.folder / "file").write_text("")
    yield "is not a folder"


@contextlib.contextmanager
def file_in_place_of_its_folder(place):
    place.agents.write_text("")
    yield "can't be written to: Not a directory"


@contextlib.contextmanager
def full_disk(place):
    place.agents.mkdir(mode=0o700)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,mode=700", "none",
                              place.agents], stderr=subprocess.PIPE, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"cannot run here: {mounted.stderr.decode()}")
    try:
        yield "No space left on device"
        assert list(place.agents.iterdir()) == []
    finally:
        subprocess.run(["umount", place.agents], check=True)


@contextlib.contextmanager
def read_only_disk(place):
    with full_disk(place) as _:
        subprocess.run(["mount", "-o", "remount,ro", place.agents], check=True)
        yield "Read-only file system"


@pytest.mark.parametrize("obstacle", [
    full_disk, *(pytest.param(one, marks=pytest.mark.verify) for one in (
        file_in_place_of_the_cache, file_in_place_of_its_folder, read_only_disk))])
def test_a_cache_that_keeps_nothing(optrace, python, place, obstacle):
    compiler = place.use()
    trace, report = place.folder / "t.trace", place.folder / "report"
    with obstacle(place) as reason:
        result = optrace("run", "--python", python, "--trace", trace, "-o", report, "--format",
                         "text", "-c", TRACED, environment=place.environment)
    assert (result.returncode, result.stderr) == (0, "")
    assert compiler.builds() == 1 and has_op_records(optrace, trace)
    head = report.read_text()
    assert "can't be cached and are compiled again" in head and reason in head
    assert list(place.temporary.iterdir()) == []


def test_a_compiler_that_fails_is_named_for_a_program(optrace, python, place):
    place.use(fails="this is none")
    report = place.folder / "report"
    result = optrace("run", "--python", python, "--format", "text", "-o", report, "-c", TRACED,
                     environment=place.environment)
    assert (result.returncode, without_place(result.stderr)) == (0, "")
    assert_names_the_failure(report)


def assert_names_the_failure(report):
    text = report.read_text()
    assert "this is none" in text and "$CXX selects another" in text and "aten::add" in text


@pytest.mark.verify
def test_a_compiler_that_fails_is_named_for_the_ranks_of_a_job(optrace, python, place):
    place.use(fails="this is none")
    job, report = place.folder / "job.py", place.folder / "report"
    job.write_text(TRACED)
    result = optrace("run", "--children", "--python", python, "--format", "text", "--trace",
                     place.folder / "job.trace", "-o", report, "-m", "torch.distributed.run",
                     "--nproc-per-node", "2", job, environment=place.environment)
    assert result.returncode == 0 and "this is none" not in result.stderr, result.stderr
    assert_names_the_failure(report)


WAITS = """
    import pathlib, torch, threading
    print("ready", flush=True)
    end = pathlib.Path({end!r})
    while not end.exists():
        torch.ones(3).add(1)
        threading.Event().wait(0.02)
    """


def states_of(process):
    """(the tracer of a process, the number of its threads)"""
    status = dict(line.split(":\t", 1) for line in
                  pathlib.Path(f"/proc/{process}/status").read_text().splitlines() if ":\t" in line)
    return status["TracerPid"], status["Threads"]


@pytest.mark.parametrize("listens", [
    False, pytest.param(True, marks=pytest.mark.verify)], ids=["ptrace", "listening"])
def test_attach_compiles_before_it_touches_the_process(start_optrace, optrace, python, build, place,
                                                       listens):
    end = place.folder / "end"
    environment = {**os.environ, "OPTRACE_CACHE_DIR": str(place.cache)}
    if listens:
        environment.update(PYTHONPATH=str(build / "python"), OPTRACE_LISTEN="1")
    code = ("import optrace\n" if listens else "") + textwrap.dedent(WAITS.format(end=str(end)))
    program = subprocess.Popen([python, "-c", code], env=environment, stdout=subprocess.PIPE)
    try:
        program.stdout.readline()
        before = states_of(program.pid)
        compiler = place.use(seconds=FOREVER)
        process = start_optrace("attach", program.pid, environment=place.environment)
        wait_until(compiler.has_begun, process)
        assert states_of(program.pid) == before
        process.send_signal(signal.SIGINT)
        process.communicate()
        assert process.returncode == INTERRUPTED and states_of(program.pid) == before
        place.assert_nothing_left()

        place.use("failing", fails="this is none")
        report = place.folder / "report without op records"
        result = optrace("attach", program.pid, "--count", "3", "--format", "text", "-o", report,
                         environment=place.environment)
        assert result.returncode == 0, result.stderr
        assert_names_the_failure(report)

        place.use("slow", seconds=12)
        trace = place.folder / "t.trace"
        result = optrace("attach", program.pid, "--count", "3", "--trace", trace, "-o",
                         place.folder / "report", environment=place.environment)
        assert (result.returncode, result.stderr) == (0, NOTICE + "\n")
        assert has_op_records(optrace, trace)
        end.touch()
        assert program.wait() == 0
    finally:
        program.kill()
        program.wait()


@pytest.mark.parametrize("end", ENDS)
def test_a_signal_ends_a_build_in_the_process_itself(python, build, place, end):
    """The program is asked first: its Ctrl-C is an exception where it began to trace."""
    compiler = place.use(seconds=FOREVER)
    code = """
        import optrace, torch
        try:
            with optrace.trace() as t:
                torch.ones(3)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
            raise
        """
    environment = {**os.environ, **{name: str(value) for name, value in place.environment.items()},
                   "PYTHONPATH": str(build / "python")}
    with subprocess.Popen([python, "-c", textwrap.dedent(code)], env=environment, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          start_new_session=True) as process:
        wait_until(compiler.has_begun, process)
        send(process, end)
        output, _ = process.communicate()
    assert process.returncode == -ENDS[end][0]
    assert output == ("interrupted\n" if end == "Ctrl-C" else "")
    wait_until(lambda: not living(place.mark))
    assert list(place.agents.iterdir()) == []


@pytest.mark.verify
def test_a_slow_compiler_is_waited_for_in_the_process_itself(run_program, python, build, place):
    place.use(seconds=12)
    environment = {**os.environ, **{name: str(value) for name, value in place.environment.items()},
                   "PYTHONPATH": str(build / "python")}
    (place.folder / "test_it.py").write_text(textwrap.dedent("""
        import pytest, torch
        @pytest.mark.optrace(expect="no kernel of dtype float64")
        def test_it():
            torch.ones(3)
        """))
    result = run_program([python, "-m", "pytest", "-p", "optrace.pytest_plugin", "-p",
                          "no:cacheprovider", "-s", place.folder / "test_it.py"], env=environment)
    assert result.returncode == 0 and NOTICE in result.stderr, result.stdout + result.stderr
