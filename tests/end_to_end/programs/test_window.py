"""`optrace run --from-step N --count M` and optrace.trace(): outside of the window, nothing of
optrace is in the program.
"""
import json
import pathlib
import textwrap

import pytest

from report_frames import frames

USAGE = 2
FAILED = 3
HELPERS = pathlib.Path(__file__).parents[1]

# `state()` is empty if nothing of optrace is active in the process.
PREAMBLE = f"""
    import os, sys, threading, torch
    sys.path.insert(0, {str(HELPERS)!r})
    from attach_target import changed_code, redirected

    torch.manual_seed(3)
    torch.set_num_threads(2)

    def state():
        active = []
        if changed_code(os.getpid()):
            active.append("probes")
        if redirected(os.getpid()):
            active.append("imports")
        assert sys.getprofile() is None and threading._profile_hook is None
        return active

    class Trainer:
        def __init__(self):
            self.model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(),
                                             torch.nn.Linear(16, 1))
            self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.01)
            self.input = torch.randn(4, 8)

        def step(self):
            self.optimizer.zero_grad()
            self.model(self.input).square().mean().backward()
            self.optimizer.step()

        def bits(self):
            return [p.detach().flatten().view(torch.uint8).tolist()
                    for p in self.model.parameters()]
"""


@pytest.fixture
def script(tmp_path):
    def write(text, name="program.py"):
        (tmp_path / name).write_text(textwrap.dedent(PREAMBLE) + textwrap.dedent(text))
        return name

    return write


@pytest.fixture
def window(optrace, python, tmp_path):
    """window(options, *program) -> CompletedProcess, with .report (JSON or None)."""

    def run(options, *program):
        report = tmp_path / "report.json"
        report.unlink(missing_ok=True)
        result = optrace("run", "--python", python, "--format", "json", "-o", report, "--trace",
                         tmp_path / "run.trace", *options, *program, cwd=tmp_path)
        result.report = json.loads(report.read_text()) if report.exists() else None
        return result

    return run


@pytest.fixture
def package(build, monkeypatch):
    """Lets programs import optrace."""
    monkeypatch.setenv("PYTHONPATH", str(build / "python"))


def calls(report):
    """{op: number of calls}, of all dispatched ops."""
    counts = {}
    for frame in frames(report):
        if frame["layer"] == "dispatcher" and (frame["detail"] or {}).get("step") == "call":
            counts[frame["op"]] = counts.get(frame["op"], 0) + frame["calls"]
    return counts


TRAINING = """
    trainer = Trainer()
    looks = "look" in sys.argv  # At all code of torch.
    for number in range(1, 8):
        if looks:
            print(number, state(), file=sys.stderr)
        trainer.step()
    if looks:
        print(state(), file=sys.stderr)
    print(trainer.bits(), hasattr(sys, "_optrace_step"),
          len(sys.modules["torch.optim.optimizer"]._global_optimizer_post_hooks))
"""


def states(errors):
    return ["probes" in line for line in errors.splitlines() if "[" in line]


@pytest.mark.parametrize("mode", ["jump", pytest.param("int3", marks=pytest.mark.verify)])
def test_only_the_steps_of_the_window_are_recorded(window, script, python, run_program, tmp_path,
                                                   mode):
    name = script(TRAINING)
    alone = run_program([python, name], cwd=tmp_path)
    three = window(["--from-step", "3", "--count", "3", "--probes", mode], name, "look")
    assert (three.returncode, three.stdout) == (0, alone.stdout), three.stderr
    # The state is that at the begin of each step, and at the end.
    assert states(three.stderr) == [False] * 2 + [True] * 3 + [False] * 3
    for line in three.stderr.splitlines():
        assert line.endswith(("[]", "['probes', 'imports']")), three.stderr
    assert three.report["steps"] == {"first": 3, "count": 3, "ended_after": 5}
    assert three.report["shortfalls"] == []
    one = window(["--from-step", "6", "--count", "1", "--probes", mode], name)
    assert calls(one.report)["aten::addmm"] == 2
    assert calls(three.report) == {op: 3 * count for op, count in calls(one.report).items()}


def test_the_first_step_begins_with_the_program(window, script):
    result = window(["--from-step", "1", "--count", "2"], script(TRAINING), "look")
    assert states(result.stderr) == [True] * 2 + [False] * 6
    assert calls(result.report)["aten::addmm"] == 4
    assert calls(result.report)["aten::randn"] == 1


# Seven steps without an optimizer.
MARKED = """
    import optrace
    for number in range(1, 8):
        torch.ones(3).sin()
        optrace.step()
"""


@pytest.mark.usefixtures("package")
def test_a_window_without_an_end(window, script, optrace, tmp_path):
    result = window(["--from-step", "6"], script(MARKED))
    assert result.returncode == 0
    assert result.report["steps"] == {"first": 6, "count": 0, "ended_after": 7}
    assert calls(result.report)["aten::sin"] == 2
    shown = optrace("report", tmp_path / "run.trace")
    assert "steps       from 6 on; the program ended after step 7" in shown.stdout


@pytest.mark.usefixtures("package")
def test_a_program_that_ends_in_the_window_says_so(window, script, optrace, tmp_path):
    result = window(["--from-step", "6", "--count", "10"], script(MARKED))
    assert calls(result.report)["aten::sin"] == 2
    assert result.report["steps"]["ended_after"] == 7
    shown = optrace("report", tmp_path / "run.trace")
    assert "steps       6 to 15; the program ended after step 7" in shown.stdout


def test_a_program_that_ends_before_the_window(window, script):
    result = window(["--from-step", "9"], script(TRAINING + "    sys.exit(4)\n"))
    assert result.returncode == FAILED and result.report is None
    assert "the program ended before step 9, so there is nothing to report; it made 7 steps" in \
        result.stderr
    assert "Give --from-step a number up to 7." in result.stderr


def test_a_program_without_an_optimizer(window):
    result = window(["--from-step", "2"], "-c", "import torch; torch.ones(2).add(1)")
    assert result.returncode == FAILED and result.report is None
    assert ("the program ended before step 2: no optimizer of torch.optim stepped, and "
            "optrace.step() was not called") in result.stderr
    killed = window(["--from-step", "2"], "-c", "import torch, os; os.abort()")
    assert "the program ended before step 2, so there is nothing to report" in killed.stderr


@pytest.mark.usefixtures("package")
def test_a_program_marks_its_steps_itself(window, script):
    result = window(["--from-step", "2", "--count", "2"], script("""
        import optrace
        trainer, x = Trainer(), torch.ones(3)
        for number in range(5):
            optrace.step()
            trainer.step()
            trainer.step()
            x.sin()
        optrace.step()
    """))
    assert result.returncode == 0, result.stderr
    assert calls(result.report)["aten::sin"] == 2
    assert calls(result.report)["aten::addmm"] == 8


@pytest.mark.usefixtures("package")
def test_the_first_mark_decides(window, script):
    result = window(["--from-step", "2", "--count", "1"], script("""
        import optrace
        trainer, x = Trainer(), torch.ones(3)
        for number in range(3):
            trainer.step()
            x.sin()
            optrace.step()
            x.cos()
    """))
    assert calls(result.report)["aten::sin"] == calls(result.report)["aten::cos"] == 1


def test_the_steps_of_one_optimizer_count(window, script):
    result = window(["--from-step", "2", "--count", "1"], script("""
        first, second = Trainer(), Trainer()
        for number in range(4):
            first.step()
            second.step()
            second.step()
            torch.ones(3).sin()
        print(len(sys.modules["torch.optim.optimizer"]._global_optimizer_post_hooks))
    """))
    assert result.stdout == "0\n"
    assert calls(result.report)["aten::sin"] == 1 and calls(result.report)["aten::addmm"] == 6


def test_another_hook_is_still_called(window, script):
    result = window(["--from-step", "2", "--count", "1"], script("""
        from torch.optim.optimizer import register_optimizer_step_post_hook
        seen = []
        handle = register_optimizer_step_post_hook(lambda *arguments: seen.append(1))
        trainer = Trainer()
        for number in range(4):
            trainer.step()
        handle.remove()
        trainer.step()
        print(len(seen), state())
    """))
    assert (result.returncode, result.stdout) == (0, "4 []\n"), result.stderr
    assert calls(result.report)["aten::addmm"] == 2


THREADS_AND_FORKS = """
    import time
    torch.set_num_threads(1)  # GNU's OpenMP does not survive a fork, traced or not.
    over = False
    results = []

    def busy(seed):
        generator = torch.Generator().manual_seed(seed)
        x = torch.randn(16, 16, generator=generator)
        first = None
        while not over:
            y = x
            for _ in range(10):
                y = torch.tanh(y @ x)
            y = y.flatten().view(torch.uint8).tolist()
            first = first or y
            assert y == first
            time.sleep(0.001)  # Lets the main thread work.
        results.append(first)

    # Where several threads make MKL's first call at once, some get other bits, without optrace.
    torch.tanh(torch.ones(16, 16) @ torch.ones(16, 16))
    threads = [threading.Thread(target=busy, args=(seed,))
               for seed in range(0 if "calm" in sys.argv else 4)]
    for thread in threads:
        thread.start()
    trainer = Trainer()
    for number in range(1, 6):
        child = os.fork()
        if child == 0:
            assert "calm" in sys.argv or state() == []
            for _ in range(4):
                trainer.step()
                torch.ones(2).cos()
            print("child", number, trainer.bits(), flush=True)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        trainer.step()
    over = True
    for thread in threads:
        thread.join()
    print(trainer.bits())
    print(sorted(results), state())
"""


@pytest.fixture(scope="module")
def forking_alone(python, run_program, tmp_path_factory):
    """What THREADS_AND_FORKS prints without optrace."""
    program = tmp_path_factory.mktemp("forking") / "program.py"
    program.write_text(textwrap.dedent(PREAMBLE) + textwrap.dedent(THREADS_AND_FORKS))
    ended = run_program([python, str(program)])
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_threads_and_forks(window, script, forking_alone):
    result = window(["--from-step", "2", "--count", "3"], script(THREADS_AND_FORKS))
    # Forked children have no probes, whenever they are forked.
    assert (result.returncode, result.stdout) == (0, forking_alone), result.stderr
    # Each of the three steps of the window has one of the main thread's.
    assert calls(result.report)["aten::addmm"] == 6
    assert "aten::cos" not in calls(result.report)


def test_children_count_their_own_steps(window, script, forking_alone):
    result = window(["--from-step", "3", "--count", "2", "--children"], script(THREADS_AND_FORKS),
                    "calm")
    # Without threads, which have no effect on what the children and the main thread compute.
    of_forks = forking_alone.splitlines()[:-1]
    assert (result.returncode, result.stdout.splitlines()) == (0, [*of_forks, "[] []"]), \
        result.stderr
    # Child n begins in step n and makes four steps. The third and the fourth step end before the
    # call of cos.
    assert calls(result.report)["aten::cos"] == 2 + 2 + 1
    assert len(result.report["processes"]) == 5


WRONG = {
    "0": (["--from-step", "0"], "--from-step"),
    "-1": (["--from-step", "-1"], "--from-step"),
    "x": (["--from-step", "x"], "--from-step"),
    "count 0": (["--from-step", "1", "--count", "0"], "--count"),
    "skip": (["--from-step", "1", "--skip", "1"], "--skip counts calls of ops"),
    "too many": (["--from-step", "9" * 18], "no program makes that many steps"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_usage(optrace, tmp_path, case):
    options, complaint = WRONG[case]
    result = optrace("run", *options, "-c", "open('ran', 'w')", cwd=tmp_path)
    assert result.returncode == USAGE and complaint in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_check_of_a_window(optrace, python, script, tmp_path):
    name = script(TRAINING)
    checked = optrace("check", "--expect", "calls aten::addmm == 2",
                      f"run --python {python} --from-step 2 --count 1 {name}", cwd=tmp_path)
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.usefixtures("package")
def test_blocks_of_the_python_package(python, script, run_program, tmp_path):
    name = script("""
        import optrace
        trainer = Trainer()
        found = [state()]
        for number in range(3):
            trainer.step()
            try:
                with optrace.trace() as t:
                    found.append(state())
                    trainer.step()
                    if number == 1:
                        raise KeyError(number)
            except KeyError:
                pass
            found.append(state())
            assert "aten::addmm" in t.report()
        print([sorted(one) for one in found])
    """)
    result = run_program([python, name], cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    inside = ["imports", "probes"]
    assert eval(result.stdout) == [[]] + [inside, []] * 3
