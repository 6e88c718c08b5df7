"""A program's behaviour is the same bit by bit under `optrace run`, whatever it does."""
import functools
import glob
import os
import pathlib
import re
import subprocess
import textwrap

import pytest

from attach_target import LIMIT
from kept_traces import without_place

# Each program prints its results bit by bit.
PREAMBLE = """
    import gc, os, signal, sys, threading, time
    import torch
    torch.manual_seed(1)
    torch.set_num_threads(2)
    def bits(*tensors):
        for tensor in tensors:
            print(tensor.detach().flatten().view(torch.uint8).tolist()[:4096])
    def step():
        model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(),
                                    torch.nn.Linear(4 * 36, 2))
        loss = model(torch.randn(2, 3, 8, 8)).square().sum()
        loss.backward()
        return [loss, *[parameter.grad for parameter in model.parameters()]]
"""

HOSTILE_NAMES = pathlib.Path(__file__).parents[2] / "agent" / "hostile_names_program.py"

# What one program can do in turn.
PARTS = {
    "training": "bits(*step(), *step(), torch.rand(5))",
    "C++ exceptions": """
        for i in range(200):
            try:
                torch.ones(2, 3) @ torch.ones(2, 3)
            except RuntimeError as error:
                text = str(error)
        print(text)
        bits(*step())""",
    "Python exceptions through ops": """
        class Fails(torch.autograd.Function):
            @staticmethod
            def forward(context, x): return x * 2
            @staticmethod
            def backward(context, gradient): raise ValueError("from the middle of backward")
        for _ in range(50):
            try:
                Fails.apply(torch.ones(2, requires_grad=True)).sum().backward()
            except ValueError as error:
                print(error)
        bits(*step())""",
    "SIGALRM a thousand times a second": """
        ticks = 0
        def tick(number, frame):
            global ticks
            ticks += 1
        signal.signal(signal.SIGALRM, tick)
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        for _ in range(20): results = step()
        signal.setitimer(signal.ITIMER_REAL, 0)
        print(ticks > 5)
        bits(*results)""",
    "deep recursion": """
        sys.setrecursionlimit(3000)
        def deep(n): return torch.ones(1) if n == 0 else deep(n - 1) + 1
        bits(deep(2500))
        def endless(): return endless()
        try:
            endless()
        except RecursionError as error:
            print("RecursionError")""",
    "64 threads": """
        torch.ones(16, 16) @ torch.ones(16, 16)  # MKL may be inexact if threads call it first.
        results = [None] * 64
        def work(i):
            generator = torch.Generator().manual_seed(i)
            x = torch.randn(16, 16, generator=generator)
            for _ in range(20): x = torch.tanh(x @ x)
            results[i] = x
        threads = [threading.Thread(target=work, args=(i,)) for i in range(64)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        bits(torch.stack(results))
        print(threading._profile_hook, sys.getprofile(), sys.gettrace())""",
    "dlopen while tracing": """
        import ctypes, importlib
        x = step()
        for name in "sqlite3", "lzma", "decimal", "xml.etree.ElementTree":
            importlib.import_module(name)
        ctypes.CDLL("libresolv.so.2")
        bits(*x, *step())""",
    "garbage collection in the middle": """
        gc.set_threshold(1, 1, 1)
        collected = []
        class Cycle:
            def __init__(self): self.me, self.tensor = self, torch.ones(10)
            def __del__(self): collected.append(torch.zeros(1).item())
        for _ in range(300): Cycle()
        gc.collect()
        print(len(collected))
        gc.set_threshold(700, 10, 10)
        bits(*step())""",
    "faulthandler": """
        import faulthandler
        faulthandler.enable()
        bits(*step())
        print(faulthandler.is_enabled())
        with open(sys.argv[0] + ".dump", "w+") as file:
            faulthandler.dump_traceback(file=file)
            file.seek(0)
            print(file.readlines()[1:])  # The first line has the thread's address.""",
    "SIGTRAP is the program's, too": """
        import subprocess
        def caught(number, frame): print("caught", number)
        print(signal.signal(signal.SIGTRAP, caught))
        bits(*step())
        os.kill(os.getpid(), signal.SIGTRAP)
        time.sleep(0.01)
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            bits(torch.rand(3))
            signal.signal(signal.SIGTRAP, signal.SIG_IGN)
            os.kill(os.getpid(), signal.SIGTRAP)
            bits(torch.rand(3))
            sys.stdout.flush()
            os._exit(3)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        print(subprocess.run(["true"]).returncode, signal.getsignal(signal.SIGTRAP) == caught)
        def blocked():
            print(sorted(signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())))
            bits(*step())
            print(signal.SIGTRAP in signal.pthread_sigmask(signal.SIG_BLOCK, []))
            print(signal.SIGTRAP in signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTRAP]))
            print(signal.SIGTRAP in signal.pthread_sigmask(signal.SIG_SETMASK, [signal.SIGTRAP]))
            bits(*step())
            print(sorted(signal.pthread_sigmask(signal.SIG_SETMASK, [])))
        thread = threading.Thread(target=blocked)
        thread.start()
        thread.join()
        import faulthandler
        with open(sys.argv[0] + ".trap", "w+") as file:
            faulthandler.register(signal.SIGTRAP, file, chain=True)
            bits(*step())
            os.kill(os.getpid(), signal.SIGTRAP)
            time.sleep(0.01)
            print(faulthandler.unregister(signal.SIGTRAP), file.seek(0), len(file.readlines()) > 1)
        print(signal.signal(signal.SIGTRAP, signal.SIG_DFL) == caught)
        bits(*step())""",
}

PROGRAMS = {
    "these in turn": "\n".join(
        f"print({name!r})\n{textwrap.dedent(part)}" for name, part in PARTS.items()),
    "a fork in the middle": """
        torch.set_num_threads(1)  # GNU's OpenMP does not survive a fork, traced or not.
        x = step()
        child = os.fork()
        if child == 0:
            bits(*x, *step())
            sys.stdout.flush()
            os._exit(5)
        print(os.waitpid(child, 0)[1])
        bits(*step())""",
    "a profiler of its own": """
        seen = []
        def note(frame, event, argument):
            seen.append((event, frame.f_code.co_name, getattr(argument, "__name__", None)))
        def during(): return torch.ones(2).sin()
        def between(): return torch.ones(2).cos()
        sys.setprofile(note)
        during()
        assert sys.getprofile() is note
        sys.setprofile(None)
        between()
        print(seen)
        import cProfile, pstats, re
        step()  # Whatever it imports.
        profile = cProfile.Profile()
        profile.enable()
        bits(*step())
        during()
        profile.disable()
        between()
        stats = pstats.Stats(profile).stats
        print(sorted(re.sub(" at 0x[0-9a-f]+", "", str(key)) + str(stats[key][:2])
                     for key in stats))
        print(sys.getprofile())""",
    "torch.profiler with stacks": """
        from torch.profiler import ProfilerActivity, profile
        def during(): return torch.ones(2).sin()
        def between(): return torch.ones(2).cos()
        done = threading.Event()
        def other():
            while not done.wait(0.01): during()
        waiting = threading.Thread(target=other)
        with profile(activities=[ProfilerActivity.CPU]):
            during()  # PyTorch numbers threads when it first asks for their numbers.
        waiting.start()
        for _ in range(3):  # The first one imports much, and PyTorch may forget its names.
            with profile(activities=[ProfilerActivity.CPU], with_stack=True) as profiled:
                during()
            assert sys.getprofile() is None
            between()
        done.set()
        waiting.join()
        main = [event for event in profiled.events() if event.thread == 1]
        names = [event.name.rpartition(" object at ")[0] or event.name for event in main]
        print([name for name in names if "other" not in name])""",
    "objects that must not be asked for their names": f"""
        import runpy
        sys.argv[1:] = []
        sys.stdout.flush()
        runpy.run_path({str(HOSTILE_NAMES)!r}, run_name="__main__")""",
}

# Functions of the programs above that must be in the tree besides the ops.
FRAMES = {"a profiler of its own": ["during", "between"],
          "torch.profiler with stacks": ["during", "between"]}


@pytest.fixture(scope="module")
def untraced(run_program, tmp_path_factory):
    """untraced(python, text, variables) -> (the program, what it gives without optrace). Each
    program runs once."""
    folder = tmp_path_factory.mktemp("programs")

    @functools.cache
    def run(python, text, variables):
        program = folder / f"program{len(list(folder.iterdir()))}.py"
        program.write_text(textwrap.dedent(PREAMBLE) + textwrap.dedent(text) + "\n")
        return program, run_program([python, program], env={**os.environ, **dict(variables)},
                                    timeout=LIMIT)

    return run


def comparable(errors):
    """Kineto's messages contain the time and the process ID. Whether it warns of a function that
    another thread runs depends on the moment at which it stops."""
    return re.sub(r"\d+", "0", re.sub(r".*collection\.cpp.* Warning: threading.*\n", "", errors))


@pytest.fixture
def same(optrace, untraced, tmp_path):
    """same(python, text, **environment): runs it with and without optrace; compares all output."""

    def compare(python, text, options=(), **environment):
        program, alone = untraced(python, text, tuple(environment.items()))
        report = tmp_path / "report"
        under = optrace("run", "--python", python, "--format", "text", "-o", report, *options,
                        program, environment=environment, timeout=LIMIT)
        assert alone.returncode == 0, alone.stderr
        assert under.returncode == 0, under.stderr
        assert under.stdout.splitlines() == alone.stdout.splitlines()
        assert comparable(without_place(under.stderr)) == comparable(alone.stderr)
        return report.read_text()

    return compare


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_result_is_the_same(same, python, name):
    report = same(python, PROGRAMS[name])
    assert "aten::" in report or name == "objects that must not be asked for their names"
    assert "missing" not in report
    for function in FRAMES.get(name, []):
        assert re.search(rf"python +[├└│─ ]*{function} ", report), report


def test_an_alarm_while_the_tracer_is_loaded_arrives(optrace, python, tmp_path):
    """The program's audit hook sets off an alarm while the tracer is loaded, and it arrives."""
    result = optrace("run", "--python", python, "-o", tmp_path / "report", "-c", textwrap.dedent("""
        import os, signal, sys
        alarms = []
        def go_off(number, frame):
            raise TimeoutError
        def hear(event, arguments):
            if event == "import" and "optrace_target.program" in arguments[0] and not alarms:
                alarms.append(1)
                os.kill(os.getpid(), signal.SIGALRM)
        signal.signal(signal.SIGALRM, go_off)
        sys.addaudithook(hear)
        try:
            import torch
        except TimeoutError:
            print("arrived")
        import torch
        torch.ones(1)
        print(alarms)
        """))
    assert (result.returncode, result.stdout) == (0, "arrived\n[1]\n"), result.stderr


def test_the_result_is_the_same_with_traps(same, python):
    parts = map(PARTS.get, ["training", "SIGTRAP is the program's, too"])
    assert "aten::" in same(python, "\n".join(map(textwrap.dedent, parts)), ["--probes", "int3"])


def test_the_result_is_the_same_in_traced_children(untraced, python, tmp_path, optrace):
    program, alone = untraced(python, PROGRAMS["a fork in the middle"], ())
    under = optrace("run", "--python", python, "-o", tmp_path / "report", "--children", program)
    assert (under.returncode, under.stdout) == (alone.returncode, alone.stdout)


@pytest.mark.parametrize("library", [
    "libjemalloc.so.2", pytest.param("libtcmalloc_minimal.so.4", marks=pytest.mark.verify)])
def test_the_result_is_the_same_with_another_allocator(same, python, library):
    found = glob.glob(f"/usr/lib/x86_64-linux-gnu/{library}")
    assert found, f"{library} is missing; setup/install-packages.sh installs it"
    assert "aten::" in same(python, PARTS["training"], LD_PRELOAD=found[0])


@pytest.mark.parametrize("version", ["3.9", "3.10", "3.12", "3.13"])
def test_the_result_is_the_same_in_other_pythons(same, repository, version):
    python = repository / f".venv-{version}/bin/python"
    if not python.exists():
        pytest.skip(f"cannot run here: {python} is not there; `make pythons` makes it")
    for name in "training", "64 threads", "Python exceptions through ops":
        assert "aten::" in same(str(python), PARTS[name])


def test_the_result_is_the_same_with_the_newest_torch(same, newest_python):
    name = "torch.profiler with stacks"
    report = same(newest_python, f"{textwrap.dedent(PROGRAMS[name])}\n{PARTS['training']}")
    assert "aten::" in report
    for function in FRAMES[name]:
        assert re.search(rf"python +[├└│─ ]*{function} ", report), report


# Each thread locks the mutex of RecordFunction's callbacks when they have changed, and recording
# changes them. In the child, a new thread locks it.
HOLDS = """
    #include <pthread.h>
    #include <unistd.h>
    volatile int locked;
    void hold(pthread_mutex_t* mutex) {
      pthread_mutex_lock(mutex);
      locked = 1;
      usleep(500000);
      pthread_mutex_unlock(mutex);
    }
"""
FORKS_WHILE_LOCKED = """
    import ctypes, os, signal, sys, threading
    import torch
    torch.ones(2)
    helper = ctypes.CDLL(sys.argv[1])
    with open("/proc/self/maps") as maps:
        base = next(int(line.split("-")[0], 16) for line in maps if "libtorch_cpu.so" in line)
    mutex = ctypes.c_void_p(base + int(sys.argv[2]))
    holder = threading.Thread(target=helper.hold, args=(mutex,))
    holder.start()
    while not ctypes.c_int.in_dll(helper, "locked").value: pass
    child = os.fork()
    if child == 0:
        signal.alarm(100)
        other = threading.Thread(target=torch.ones, args=(2,))
        other.start()
        other.join()
        os._exit(7)
    holder.join()
    print(os.waitpid(child, 0)[1])
"""


@pytest.mark.parametrize("torch", ["reference", "newest"])
def test_a_child_that_is_forked_meanwhile_finds_no_mutex_locked(optrace, python, request, tmp_path,
                                                                torch):
    chosen = python if torch == "reference" else request.getfixturevalue("newest_python")
    library, = pathlib.Path(chosen).parents[1].glob(
        "lib/python3.*/site-packages/torch/lib/libtorch_cpu.so")
    symbols = subprocess.run(["nm", "--no-sort", library], capture_output=True, text=True,
                             check=True).stdout
    manager, = (line.split()[0] for line in symbols.splitlines()
                if line.endswith(" _ZZN2at12_GLOBAL__N_121GlobalCallbackManager3getEvE7manager"))
    program, source, helper = (tmp_path / name for name in ("program.py", "holds.c", "holds.so"))
    program.write_text(textwrap.dedent(FORKS_WHILE_LOCKED))
    source.write_text(textwrap.dedent(HOLDS))
    subprocess.run(["cc", "-shared", "-fPIC", "-o", helper, source], check=True)
    under = optrace("run", "--python", chosen, "-o", tmp_path / "report", program, helper,
                    str(int(manager, 16) + 32))
    assert (under.returncode, under.stdout) == (0, f"{7 << 8}\n"), under.stderr
