"""`optrace run`: a whole program behaves as without optrace, and its trace contains its calls."""
import json
import os
import pathlib
import pty
import shlex
import signal
import subprocess
import sys
import textwrap

import pytest

from attach_target import LIMIT
from kept_traces import without_place
from report_frames import frames

USAGE = 2
FAILED = 3


@pytest.fixture
def traced(optrace, python, tmp_path):
    """traced(*arguments) -> CompletedProcess, with .report (JSON) and .trace (a path)."""

    def run(*arguments, options=(), **keywords):
        keywords.setdefault("cwd", tmp_path)
        keywords.setdefault("timeout", LIMIT)
        report, trace = tmp_path / "report.json", tmp_path / "run.trace"
        result = optrace("run", "--python", python, "--format", "json", "-o", report, "--trace",
                         trace, *options, *arguments, **keywords)
        result.report = json.loads(report.read_text()) if report.exists() else None
        result.trace = trace
        return result

    return run


@pytest.fixture
def script(tmp_path):
    """script(text, name="program.py") -> name of the file, in the folder that programs run in."""

    def write(text, name="program.py"):
        (tmp_path / name).write_text(textwrap.dedent(text))
        return name

    return write


SLOW_MODULE = """
    #include <Python.h>
    static PyModuleDef definition{PyModuleDef_HEAD_INIT, "slow_module"};
    PyMODINIT_FUNC PyInit_slow_module() {
      PyRun_SimpleString("import time, torch\\n"
                         "torch.ones(2).sin()\\n"
                         "time.sleep(0.3)\\n"
                         "torch.ones(2).cos()\\n");
      return PyModule_Create(&definition);
    }
"""


def test_a_module_that_calls_torch_while_it_is_loaded(traced, optrace, python, script, run_program,
                                                      tmp_path):
    """Events of its calls are read before the agent can describe the module."""
    source = script(SLOW_MODULE, "slow_module.cpp")
    include = run_program([python, "-c",
                           "import sysconfig; print(sysconfig.get_path('include'))"]).stdout
    built = run_program(["g++", "-shared", "-fPIC", "-w", "-I", include.strip(), source, "-o",
                         "slow_module.so"], cwd=tmp_path)
    assert built.returncode == 0, built.stderr
    result = traced(script("import torch, slow_module\n"))
    assert (result.returncode, result.stderr) == (0, "")
    assert result.report["shortfalls"] == []
    everything = optrace("report", "--all", result.trace).stdout
    assert everything.count("PyInit_slow_module") == 1
    assert "aten::sin" in everything and "aten::cos" in everything


def calls_of(report, op):
    """Returns how often an op was called through its own entry."""
    return sum(frame["calls"] for frame in frames(report)
               if frame["op"] == op and (frame["detail"] or {}).get("step") == "call")


def the_only_complaint(result):
    said = without_place(result.stderr)
    lines = [line for line in said.splitlines() if line.startswith("optrace: ")]
    assert len(lines) == 1, result.stderr
    return lines[0]


# Prints all that a program can find out about itself, and does a little work.
OBSERVER = """
    import sys, os
    before = sorted(os.listdir("/proc/self/fd"))
    print("argv", sys.argv, sys.orig_argv[1:] if hasattr(sys, "orig_argv") else None)
    print("path", sys.path)
    print("environment", sorted(item for item in os.environ.items() if item[0] != "_"))
    print("main", sorted(vars(sys.modules["__main__"])), __name__)
    print("flags", sys.flags, sys.getrecursionlimit(), sys.gettrace())
    import torch, threading, random, signal, warnings, gc, atexit, traceback
    print("descriptors", before, sorted(os.listdir("/proc/self/fd")))
    print("modules", sorted(sys.modules))
    print("finders", [getattr(finder, "__name__", type(finder).__name__)
                      for finder in sys.meta_path])
    print("hooks", [getattr(hook, "__qualname__", hook) for hook in sys.path_hooks],
          sorted(sys.path_importer_cache))
    spec = torch.__spec__
    print("spec", type(spec), spec.name, spec.origin, type(spec.loader),
          torch.__loader__ is spec.loader)
    print("signals", [(number, str(signal.getsignal(number)))
                      for number in sorted(signal.valid_signals())],
          signal.pthread_sigmask(signal.SIG_BLOCK, []))
    print("threads", threading.active_count(), threading._profile_hook, threading._trace_hook)
    print("warnings", warnings.filters, gc.isenabled(), gc.get_threshold())
    torch.manual_seed(0)
    model = torch.nn.Conv2d(3, 8, 3)
    print("numbers", model(torch.ones(1, 3, 8, 8)).sum().item(), torch.rand(3))
    random.seed(0)
    print("random", random.random())
    atexit.register(print, "second to last")
    def fail():
        traceback.print_stack(file=sys.stdout)
        torch.ones(2) @ torch.ones(3)
    try:
        fail()
    except RuntimeError:
        traceback.print_exc(file=sys.stdout)
    print("input", repr(sys.stdin.read()), file=sys.stderr)
    fail()
"""


def test_a_program_finds_itself_as_without(traced, python, script, run_program, tmp_path):
    name = script(OBSERVER)
    arguments = [name, "--trace", "x", "-m", "y", "--", "-c", "", "äö"]
    alone = run_program([python, *arguments], cwd=tmp_path)
    under = traced(*arguments)
    assert under.stdout.splitlines() == alone.stdout.splitlines()
    assert under.stderr == alone.stderr
    assert under.returncode == alone.returncode == 1
    assert "second to last" in alone.stdout and "RuntimeError" in alone.stderr
    assert calls_of(under.report, "aten::conv2d") == 1


def test_a_module_and_code_are_run_as_python_does(traced, python, script, run_program, tmp_path):
    (tmp_path / "package").mkdir()
    script("", "package/__init__.py")
    script(OBSERVER, "package/main.py")
    for arguments in (["-m", "package.main", "-c", "--help"],
                      ["-c", textwrap.dedent(OBSERVER), "-o", "nothing"]):
        alone = run_program([python, *arguments], cwd=tmp_path)
        under = traced(*arguments)
        assert under.stdout.splitlines() == alone.stdout.splitlines()
        assert under.stderr == alone.stderr
        assert under.returncode == alone.returncode == 1
        assert calls_of(under.report, "aten::conv2d") == 1
    assert not (tmp_path / "nothing").exists()


def test_the_environment_the_user_set_up_is_kept(traced, python, script, run_program, tmp_path):
    (tmp_path / "site").mkdir()
    script("import sys; print('custom', sys.path[:2])", "site/sitecustomize.py")
    name = script("import sitecustomize, os, sys; print(sitecustomize, os.environ['PYTHONPATH'], "
                  "sys.path); import torch; torch.ones(1)")
    for path in (f"site:{tmp_path}/site:/nowhere", ""):
        options = {"cwd": tmp_path} if path else {"cwd": tmp_path / "site"}
        program = name if path else f"../{name}"
        alone = run_program([python, program], env={**os.environ, "PYTHONPATH": path}, **options)
        under = traced(program, environment={"PYTHONPATH": path}, **options)
        assert under.stdout == alone.stdout
        # Without a sitecustomize, the program fails, and optrace has nothing to report.
        assert (alone.returncode, under.returncode) in {(0, 0), (1, FAILED)}
        assert under.stderr.startswith(alone.stderr)
        assert "custom" in alone.stdout or not path


def test_input_and_output_are_passed_through_byte_by_byte(optrace, python, script, tmp_path):
    name = script("import sys, torch; data = sys.stdin.buffer.read(); "
                  "sys.stdout.buffer.write(data[::-1]); torch.ones(1)")
    content = bytes(range(256)) * 1000
    (tmp_path / "in").write_bytes(content)
    with open(tmp_path / "in", "rb") as given, open(tmp_path / "out", "wb") as taken:
        pid = os.posix_spawn(*_spawn(optrace, ["run", "--python", python, str(tmp_path / name)]),
                             file_actions=[(os.POSIX_SPAWN_DUP2, given.fileno(), 0),
                                           (os.POSIX_SPAWN_DUP2, taken.fileno(), 1),
                                           (os.POSIX_SPAWN_OPEN, 2, str(tmp_path / "err"),
                                            os.O_WRONLY | os.O_CREAT, 0o600)])
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert (tmp_path / "out").read_bytes() == content[::-1]
    assert "aten::ones" in (tmp_path / "err").read_text()  # The report, if no file is named.


def _spawn(optrace, arguments):
    command = optrace.command[0]
    return command, [*optrace.command, *arguments], os.environ


ENDINGS = {
    "orderly": ("pass", 0),
    "sys.exit": ("sys.exit(7)", 7),
    "sys.exit with text": ("sys.exit('that was it')", 1),
    "an exception": ("raise ValueError('wrong')", 1),
    "os._exit": ("os._exit(3)", 3),
    "SIGKILL": ("os.kill(os.getpid(), 9)", 128 + 9),
    "SIGSEGV": ("import ctypes; ctypes.string_at(8)", 128 + 11),
    "abort": ("os.abort()", 128 + 6),
}


# Ends as another ending does: with this status, or by a signal that the process sends itself.
ALIKE = {"sys.exit with text", "abort"}


@pytest.mark.parametrize("ending", [
    pytest.param(ending, marks=[pytest.mark.verify] * (ending in ALIKE)) for ending in ENDINGS])
def test_the_exit_status_is_the_programs(traced, optrace, ending):
    text, status = ENDINGS[ending]
    result = traced("-c", f"import os, sys, torch\nfor i in range(10): torch.ones(3) + 1\n{text}")
    assert result.returncode == status
    assert calls_of(result.report, "aten::add.Tensor") == 10  # Even after os._exit or a signal.
    # A program that failed may not have got to a call, so `never calls` is undecided.
    for rule, told in [("calls aten::add >= 10", 0), ("never calls aten::mm", 2 if status else 0)]:
        assert optrace("check", result.trace, "--expect", rule).returncode == told, rule


def test_a_program_that_is_not_there(optrace, python, tmp_path):
    result = optrace("run", "--python", python, "nothing.py", cwd=tmp_path)
    assert result.returncode == USAGE
    assert the_only_complaint(result) == "optrace: no such file: nothing.py"


def test_a_syntax_error_is_pythons_to_report(traced, python, script, run_program, tmp_path):
    name = script("import torch\nthis is no Python\n")
    alone = run_program([python, name], cwd=tmp_path)
    result = traced(name)
    assert (alone.returncode, result.returncode) == (1, FAILED)
    assert result.stderr.startswith(alone.stderr)
    assert the_only_complaint(result) == (
        "optrace: the program never imported torch, so there is nothing to report")


def test_a_program_without_torch(traced):
    result = traced("-c", "print('hello'); import sys; sys.exit(4)")
    assert (result.returncode, result.stdout) == (FAILED, "hello\n")
    assert "never imported torch" in the_only_complaint(result)
    assert result.report is None and not result.trace.exists()


@pytest.mark.parametrize("torch_too", [True, False], ids=["with torch", "without"])
def test_a_program_that_leaves_the_work_to_children_is_told_of_them(optrace, python, tmp_path,
                                                                    torch_too):
    """If a program leaves its work to children, like torchrun, the message names --children."""
    child = "import torch; torch.ones(3)" if torch_too else "1"
    code = (f"import {'torch, ' if torch_too else ''}subprocess, sys\n"
            f"subprocess.run([sys.executable, '-c', {child!r}], check=True)")
    result = optrace("run", "--python", python, "-o", tmp_path / "report", "-c", code)
    assert result.returncode == (0 if torch_too else FAILED)
    assert ("called no op" if torch_too else "never imported torch") in the_only_complaint(result)
    assert "--children" in result.stderr
    checked = optrace("check", f"run --python {python} -c {shlex.quote(code)}", "--expect",
                      "never calls aten::ones")
    assert checked.returncode != 0 and checked.stderr.count("optrace: ") == 1
    assert "--children" in checked.stderr


@pytest.mark.parametrize(("option", "status"), [
    ("--trace", 0), ("-o", 0), ("2>", 0), ("--trace", 7),
    *(pytest.param(option, 7, marks=pytest.mark.verify) for option in ("-o", "2>"))])
def test_what_cannot_be_written_is_no_success(optrace, python, tmp_path, option, status):
    """The status of a failed program takes precedence. If the trace is lost, the report isn't."""
    report = [] if option == "2>" else ["-o", tmp_path / "report"] if option == "--trace" else []
    lost = [] if option == "2>" else [option, "/dev/full"]
    command = [*optrace.command, "run", "--python", python, *map(str, report), *lost, "-c",
               f"import sys, torch; torch.ones(3).sin(); sys.exit({status})"]
    with open("/dev/full" if option == "2>" else tmp_path / "said", "w") as said:
        ended = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=said, timeout=LIMIT)
    assert ended.returncode == (status or FAILED)
    if option != "2>":
        assert "writing /dev/full failed: No space left" in (tmp_path / "said").read_text()
    if option == "--trace":
        assert "aten::sin" in (tmp_path / "report").read_text()


def test_torch_imported_in_a_thread_and_used_in_many(traced):
    result = traced("-c", textwrap.dedent("""
        import threading
        def work():
            import torch
            for _ in range(50):
                torch.sin(torch.ones(4))
        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        assert threading._profile_hook is None
    """))
    assert (result.returncode, result.stderr) == (0, "")
    # The thread that imported torch is traced from then on, and so are all others.
    assert calls_of(result.report, "aten::sin") == 8 * 50


def test_a_failed_import_may_be_tried_again(traced, script, tmp_path):
    script("raise ImportError('not this one')", "torch.py")
    result = traced("-c", textwrap.dedent("""
        import sys
        try:
            import torch
        except ImportError as error:
            assert error.__traceback__.tb_next.tb_next is None
        sys.path.remove("")
        import torch
        torch.ones(1).sin()
    """))
    assert (result.returncode, result.stderr) == (0, "")
    assert calls_of(result.report, "aten::sin") == 1


SELECTIONS = {
    "--ops": (["--ops", "aten::co*"], {"aten::cos": 10, "aten::sin": 0}),
    "--skip": (["--ops", "sin", "--skip", "4"], {"aten::cos": 0, "aten::sin": 6}),
    "--count": (["--ops", "aten::sin", "--skip", "2", "--count", "3"], {"aten::sin": 3}),
    "--from-module": (["--from-module", "its_module"], {"aten::cos": 10, "aten::sin": 0}),
}


@pytest.mark.parametrize("selection", SELECTIONS)
def test_what_is_selected_is_traced(traced, script, selection):
    options, expected = SELECTIONS[selection]
    script("import torch\ndef work(x): return torch.cos(x)", "its_module.py")
    name = script("""
        import torch, its_module
        x = torch.ones(4)
        for _ in range(10):
            torch.sin(x)
            its_module.work(x)
    """)
    result = traced(name, options=options)
    assert (result.returncode, result.stderr) == (0, "")
    assert {op: calls_of(result.report, op) for op in expected} == expected


def test_a_selection_that_never_matched_is_said_so(traced):
    result = traced("-c", "import torch, sys; torch.ones(1); sys.exit(5)",
                    options=["--ops", "aten::conv*"])
    assert result.returncode == 5
    assert "no op that was called matches --ops 'aten::conv*'" in the_only_complaint(result)


WRONG = {
    "no program": ([], "no program given"),
    "-m alone": (["-m"], "-m needs a module"),
    "-c alone": (["-c"], "-c needs code"),
    "an unknown option": (["--nonsense", "x.py"], "--nonsense"),
    "--count 0": (["--count", "0", "-c", "1"], "--count"),
    "--count of text": (["--count", "many", "-c", "1"], "--count"),
    "--skip below 0": (["--skip", "-1", "-c", "1"], "--skip"),
    "--format": (["--format", "xml", "-c", "1"], "--format"),
    "--probes": (["--probes", "magic", "-c", "1"], "--probes"),
    "--python": (["--python", "/nowhere/python", "-c", "1"], "/nowhere/python"),
    "--from-module": (["--from-module", ".x", "-c", "1"], "'.x'"),
    "--trace in no folder": (["--trace", "/nowhere/x", "-c", "1"], "/nowhere"),
    "-o in no folder": (["-o", "/nowhere/x", "-c", "1"], "/nowhere"),
    "one file for two": (["-o", "x", "--trace", "x", "-c", "1"], "can't hold both"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_usage_is_said_before_anything_runs(optrace, tmp_path, case):
    arguments, complaint = WRONG[case]
    arguments = ["open('ran', 'w')" if word == "1" else word for word in arguments]
    result = optrace("run", *arguments, cwd=tmp_path)
    assert result.returncode == USAGE, result.stderr
    assert complaint in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_process_forked_or_spawned_is_left_alone(traced, script):
    name = script(CHILDREN)
    result = traced(name)
    assert (result.returncode, result.stderr) == (0, "")
    assert calls_of(result.report, "aten::sin") == 1 and calls_of(result.report, "aten::cos") == 0
    assert [path.name for path in result.trace.parent.glob("*.trace")] == ["run.trace"]


# Each child calls cos: 2 times in a fork, 3 in a spawned process, 4 in a subprocess.
CHILDREN = """
    import multiprocessing, subprocess, sys, os
    import torch
    def work(times):
        for _ in range(times):
            torch.cos(torch.ones(3))
    if __name__ == "__main__":
        torch.sin(torch.ones(3))
        for method, times in ("fork", 2), ("spawn", 3):
            process = multiprocessing.get_context(method).Process(target=work, args=(times,))
            process.start()
            process.join()
            assert process.exitcode == 0
        subprocess.run([sys.executable, "-c", "import torch\\n"
                        "for _ in range(4): torch.cos(torch.ones(3))"], check=True)
        subprocess.run(["true"], check=True)
"""


def test_children_are_traced_each_to_a_file_of_its_own(traced, optrace, script):
    name = script(CHILDREN)
    result = traced(name, options=["--children"])
    assert result.returncode == 0
    files = sorted(result.trace.parent.glob("run.*.trace"))
    assert len(files) == 3, result.stderr
    counts = []
    for file in files:
        pid = file.name.split(".")[1]
        assert f"the trace of process {pid} is in {file}" in result.stderr
        shown = optrace("report", "--format", "json", file)
        assert shown.returncode == 0, shown.stderr
        counts.append(calls_of(json.loads(shown.stdout), "aten::cos"))
    assert sorted(counts) == [2, 3, 4]
    # The report of the run has the calls of all processes.
    assert calls_of(result.report, "aten::sin") == 1
    assert calls_of(result.report, "aten::cos") == 9
    assert len(result.report["processes"]) == 4
    sine, = [frame for frame in frames(result.report)
             if frame["op"] == "aten::sin" and frame["detail"].get("step") == "call"]
    assert len(sine["detail"]["processes"]) == 1
    # The program's trace refers to the other traces, which are checked together with it.
    rules = ["--expect", "calls aten::cos == 9", "--expect", "calls aten::sin == 1"]
    checked = optrace("check", result.trace, *rules)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    files[0].unlink()
    checked = optrace("check", result.trace, *rules)
    assert checked.returncode == 2 and files[0].name in checked.stderr


LOADER = """
    import torch, sys
    class Data(torch.utils.data.Dataset):
        def __len__(self): return 8
        def __getitem__(self, index): return torch.full((2,), float(index)).exp()
    if __name__ == "__main__":
        loader = torch.utils.data.DataLoader(Data(), batch_size=2, num_workers=2,
                                             multiprocessing_context=sys.argv[1])
        print(sum(batch.sum().item() for batch in loader))
"""


@pytest.mark.parametrize("method", [
    "fork", pytest.param("spawn", marks=pytest.mark.verify)])
def test_data_loader_workers(traced, optrace, python, script, run_program, tmp_path, method):
    name = script(LOADER)
    alone = run_program([python, name, method], cwd=tmp_path)
    result = traced(name, method, options=["--children"])
    assert (result.returncode, result.stdout) == (0, alone.stdout)
    assert calls_of(result.report, "aten::exp") == 8
    assert len(list(tmp_path.glob("run.*.trace"))) == 2
    if method == "fork":  # There is no verdict on an untraced process.
        checked = optrace("check", f"run --python {python} {tmp_path / name} {method}", "--expect",
                          "never calls aten::exp")
        assert checked.returncode == 2 and "--children" in checked.stdout, checked.stderr


RANKS = """
    import torch, torch.distributed as dist
    dist.init_process_group("gloo")
    x = torch.ones(4) * dist.get_rank()
    dist.all_reduce(x)
    if dist.get_rank() == 1:
        torch.cosh(x)
    # torchrun runs Python unbuffered: another rank's line must not come before this one's end.
    print(f"rank {dist.get_rank()}: {x.tolist()}\\n", end="", flush=True)
    dist.destroy_process_group()
"""


@pytest.mark.parametrize("inside", [False, True], ids=["around torchrun", "inside torchrun"])
def test_ranks_of_a_job(traced, optrace, python, script, tmp_path, validate, inside):
    name = script(RANKS)
    torchrun = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port",
                "29517"]
    if inside:
        result = subprocess.run(
            [python, *torchrun, "--no-python", *optrace.command, "run", "--python", python,
             "--trace", "run.trace", "-o", "report.txt", name], cwd=tmp_path, timeout=LIMIT,
            capture_output=True, text=True)
    else:
        result = traced(*torchrun, name, options=["--children"])
    assert result.returncode == 0, result.stderr
    assert sorted(result.stdout.splitlines()) == [f"rank {rank}: [1.0, 1.0, 1.0, 1.0]"
                                                  for rank in (0, 1)]
    traces = [tmp_path / f"run.rank{rank}.trace" for rank in (0, 1)]
    shown = optrace("report", *traces, "--format", "text")
    assert shown.returncode == 0, shown.stderr
    assert "ranks       0, 1\n" in shown.stdout
    only, = [line for line in shown.stdout.splitlines() if line.strip().startswith("only rank 1 ")]
    assert "cosh" in only
    report = json.loads(optrace("report", "--format", "json", *traces).stdout)
    validate(report, "report")
    assert [process["rank"] for process in report["processes"]] == [0, 1]
    both, = [frame for frame in frames(report)
             if frame["op"] == "aten::mul.Tensor"
                 and (frame["detail"] or {}).get("step") == "call"]
    assert both["calls"] == 2 and "ranks" not in both["detail"]
    one, = [frame for frame in frames(report)
            if frame["op"] == "aten::cosh" and frame["detail"].get("step") == "call"]
    assert one["calls"] == 1 and one["detail"]["ranks"] == [1]


def test_traces_of_different_torches_are_no_job(optrace, python, newest_python, tmp_path):
    for name, interpreter in ("a", python), ("b", newest_python):
        result = optrace("run", "--python", interpreter, "--trace", tmp_path / name, "-o",
                         tmp_path / "report", "-c", "import torch; torch.ones(1)")
        assert result.returncode == 0, result.stderr
    result = optrace("report", tmp_path / "a", tmp_path / "b")
    assert result.returncode == USAGE
    assert "different versions of torch" in result.stderr


WAITING = """
    import os, signal, sys, time, torch
    torch.sin(torch.ones(1))
    def note(number, frame):  # It may come in the middle of a print: those are not reentrant.
        os.write(1, b"got %d\\n" % number)
        if number == numbers[-1]: sys.exit(9)
    numbers = [int(number) for number in sys.argv[1:]]
    for number in numbers: signal.signal(number, note)
    print("ready", flush=True)
    while True: time.sleep(0.05)
"""


def start(optrace, *arguments, **options):
    return subprocess.Popen([*optrace.command, "run", *map(str, arguments)], text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


@pytest.mark.parametrize("names", [
    ["SIGUSR1", "SIGHUP", "SIGQUIT", "SIGTERM", "SIGINT"],
    *(pytest.param(["SIGUSR1", name], marks=pytest.mark.verify)
      for name in ("SIGHUP", "SIGQUIT", "SIGTERM"))], ids=" ".join)
def test_signals_to_optrace_reach_the_program(optrace, python, script, tmp_path, names):
    """The program ends itself at the last one."""
    program = script(WAITING)
    numbers = [int(getattr(signal, name)) for name in names]
    with start(optrace, "--python", python, "-o", "report", program, *numbers, cwd=tmp_path,
               start_new_session=True) as process:
        assert process.stdout.readline() == "ready\n"
        for number in numbers[:-1]:
            process.send_signal(number)
            assert process.stdout.readline() == f"got {number}\n"
        process.send_signal(numbers[-1])
        output, errors = process.communicate(timeout=LIMIT)
    assert (output, without_place(errors), process.returncode) == (f"got {numbers[-1]}\n", "", 9)
    assert "aten::sin" in (tmp_path / "report").read_text()


def test_a_signal_that_kills(optrace, python, script, tmp_path):
    program = script(WAITING)
    with start(optrace, "--python", python, "-o", "report", program, cwd=tmp_path,
               start_new_session=True) as process:
        assert process.stdout.readline() == "ready\n"
        process.terminate()
        process.communicate(timeout=LIMIT)
    assert process.returncode == 128 + signal.SIGTERM
    assert "aten::sin" in (tmp_path / "report").read_text()


def test_ctrl_c_at_a_terminal(optrace, python, script, tmp_path):
    """The terminal sends SIGINT to both; the program gets it once, and optrace reports."""
    program = script("""
        import time, torch, sys
        torch.sin(torch.ones(1))
        count = 0
        print("ready", sys.stdin.isatty(), sys.stdout.isatty(), flush=True)
        end = time.time() + 60
        while time.time() < end and count == 0:
            try:
                while time.time() < end: time.sleep(0.05)
            except KeyboardInterrupt:
                count += 1
                stop = time.time() + 1
                while time.time() < stop:
                    try:
                        time.sleep(0.05)
                    except KeyboardInterrupt:
                        count += 1
        print("interrupts:", count, flush=True)
    """)
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        os.execv(optrace.command[0], [*optrace.command, "run", "--python", python, "-o", "report",
                                      program])
    output = read_until(terminal, "ready True True")
    output += read_until(terminal, "\r\x1b[K")  # The live line is shown.
    os.write(terminal, b"\x03")
    output += read_until(terminal, "interrupts:")
    output += read_to_end(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert "interrupts: 1" in output
    # The live line is erased before the place of the trace.
    assert "\r\x1b[Koptrace: the trace is in " in output and output.endswith(".trace\r\n")
    assert "aten::sin" in (tmp_path / "report").read_text()


def read_until(terminal, text):
    output = ""
    while text not in output:
        part = os.read(terminal, 4096).decode(errors="replace")
        assert part, output
        output += part
    return output


def read_to_end(terminal):
    output = ""
    while True:
        try:
            part = os.read(terminal, 4096).decode(errors="replace")
        except OSError:  # Linux's error if the other side is closed.
            return output
        if not part:
            return output
        output += part


def test_what_is_ignored_stays_ignored(traced):
    """Signals that are ignored, as under nohup, stay ignored in the program."""
    result = traced("-c", "import signal; print(signal.getsignal(signal.SIGHUP), "
                          "signal.getsignal(signal.SIGINT))",
                    preexec_fn=lambda: (signal.signal(signal.SIGHUP, signal.SIG_IGN),
                                        signal.signal(signal.SIGINT, signal.SIG_IGN)))
    assert result.stdout == "1 1\n"


def test_a_closed_descriptor_stays_closed(optrace, python, tmp_path):
    for number in (0, 1):
        result = optrace("run", "--python", python, "-o", tmp_path / "report", "-c",
                         f"import os\ntry: os.fstat({number})\n"
                         f"except OSError: open('closed-{number}', 'w')",
                         preexec_fn=lambda number=number: os.close(number), cwd=tmp_path)
        assert (tmp_path / f"closed-{number}").exists(), result.stderr


def test_nothing_is_left_behind(optrace, python, tmp_path):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    for code in ("import torch", "import torch, os; os.kill(os.getpid(), 9)", "1"):
        optrace("run", "--python", python, "-o", tmp_path / "report", "-c", code,
                environment={"TMPDIR": temporary})
        assert list(temporary.iterdir()) == []


def test_a_temporary_folder_with_a_long_name(optrace, python, tmp_path):
    temporary = tmp_path / ("long" * 30)
    temporary.mkdir()
    result = optrace("run", "--python", python, "-o", tmp_path / "report", "-c",
                     "import torch; torch.sin(torch.ones(1))", environment={"TMPDIR": temporary})
    assert result.returncode == USAGE and "too long for a socket" in result.stderr


def test_a_torch_that_is_no_wheel_only_runs(traced, script, tmp_path):
    (tmp_path / "torch").mkdir()
    script("value = 42", "torch/__init__.py")
    result = traced("-c", "import torch; print(torch.value)")
    assert (result.returncode, result.stdout) == (FAILED, "42\n")
    # Depends on whether the command received the reason before the program's end.
    assert ("the program was not traced: this torch is not a release wheel" in result.stderr
            or "the program never imported torch" in result.stderr)


def test_a_program_is_traced_by_int3_too(traced):
    result = traced("-c", "import torch; print(torch.ones(2).sum().item())",
                    environment={"LD_PRELOAD": ""}, options=["--probes", "int3"])
    assert (result.returncode, result.stdout) == (0, "2.0\n")
    assert calls_of(result.report, "aten::sum") == 1


if __name__ == "__main__":
    sys.exit(pytest.main([str(pathlib.Path(__file__))]))
