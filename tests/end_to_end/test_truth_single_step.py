"""No wrong parent: the call tree against single-stepped runs of the same programs.

The workloads, the stepper and the comparison are in tests/truth.
"""
import json

import pytest

# Of tests/truth/workloads.py, which imports torch and is therefore not imported here.
WORKLOADS = ("group_norm_step", "embedding_bag_similarity", "indexing",
             "pooling_and_normalization", "masked_attention", "in_place_and_views",
             "recurrent_by_hand")
LEAST_EVENTS = 5000  # In all workloads together, for each kind of probe.

KNOWN_CALLS = """
import ctypes, sys
stepper_file, known_file, answer = sys.argv[1:]
known = ctypes.PyDLL(known_file)
stepper = ctypes.PyDLL(stepper_file)
stepper.single_step_prepare.restype = ctypes.c_char_p
stepper.single_step_prepare.argtypes = [ctypes.c_uint64]
stepper.single_step_write.restype = ctypes.c_char_p
assert stepper.single_step_prepare(1 << 20) is None
known.known_calls(stepper.single_step_begin, stepper.single_step_end)
assert stepper.single_step_write(answer.encode()) is None
"""

# What known_calls.cpp does: (entered, by whom, how).
KNOWN = [
    ("known_jumps", None, "call"),
    ("known_jumps_on", "known_jumps", "tail"),
    ("known_leaf", "known_jumps_on", "tail"),
    ("known_recursion", None, "call"),
    ("known_recursion", "known_recursion", "call"),
    ("known_recursion", "known_recursion", "call"),
    ("known_leaf", "known_recursion", "tail"),
    ("known_leaf", "known_recursion", "tail"),
    ("known_leaf", "known_recursion", "tail"),
    ("known_catcher", None, "call"),
    ("known_passed_over", "known_catcher", "call"),
    ("known_thrower", "known_passed_over", "call"),
    ("known_leaf", "known_thrower", "call"),
    ("known_leaf", "known_catcher", "call"),
    ("known_set_jump", None, "call"),
    ("known_jumped_over", "known_set_jump", "call"),
    ("known_long_jumper", "known_jumped_over", "call"),
    ("known_leaf", "known_set_jump", "call"),
    ("known_loop", None, "call"),
    ("known_loop", None, "turn"),
    ("known_loop", None, "turn"),
    ("known_leaf", None, "call"),
]


def read_truth(path):
    """[(function, number of the parent or -1, how)] of a file that single_step_write wrote."""
    symbols, entries = {}, []
    for line in path.read_text().splitlines():
        kind, *words = line.split()
        if kind == "function":
            symbols[words[0]] = words[3]
        elif kind == "entry":
            entries.append((symbols[words[0]], int(words[1]), words[2]))
    return entries


def test_stepper_knows_calls_jumps_exceptions_and_longjmp(python, build, run_program, tmp_path):
    folder = build / "tests/truth"
    run = run_program([python, "-c", KNOWN_CALLS, str(folder / "libsingle_step.so"),
                       str(folder / "libknown_calls.so"), str(tmp_path / "truth")])
    assert run.returncode == 0, run.stderr
    entries = read_truth(tmp_path / "truth")
    seen = [(name, entries[parent][0] if parent >= 0 else None, how)
            for name, parent, how in entries if name.startswith("known_")]
    assert seen == KNOWN


class Comparison:
    """compare_parents on one workload after another, each stepped and recorded once."""

    def __init__(self, python, build, repository, run_program, folder):
        tests = build / "tests/truth"
        self._program = str(tests / "compare_parents")
        self._common = ["--python", python,
                        "--program", str(repository / "tests/truth/run_workload.py"),
                        "--agent", str(build / "lib/optrace/liboptrace_agent.so"),
                        "--stepper", str(tests / "libsingle_step.so")]
        self._run = run_program
        self._folder = folder

    def files(self, workload, modes=("jump", "int3"), python_events=False):
        """The folder with the truth, and a trace for each of `modes`."""
        folder = self._folder / f"{workload}.{python_events}"
        if not folder.exists():
            folder.mkdir()
            run = self._run([self._program, "run", "--workload", workload, *self._common,
                             *(word for mode in modes for word in ("--mode", mode)),
                             *(["--python-events"] if python_events else []), "-o", str(folder)],
                            timeout=600)
            assert run.returncode == 0, run.stderr
        return folder

    def compare(self, trace, truth):
        run = self._run([self._program, "compare", str(trace), str(truth)])
        assert run.returncode in (0, 1), run.stderr
        return json.loads(run.stdout), run.stderr

    def matched(self, workload, mode, **options):
        """Asserts that no parent is wrong; returns how many entries' parents were compared."""
        files = self.files(workload, **options)
        result, details = self.compare(files / mode, files / "truth")
        print(workload, mode, json.dumps(result))
        assert result["wrong_parents"] == 0, details
        assert result["wrong_tail_calls"] == 0, details
        assert result["lost"] == 0
        probes = result["probes"]
        used = probes["jumps"] if mode == "jump" else probes["traps"]
        assert used > 50_000 and used > 0.99 * (probes["jumps"] + probes["traps"]), probes
        # The two runs differ a little in what CPython's caches hold.
        assert result["matched"] > 100
        unmatched = result["events"] + result["truth_entries"] - 2 * result["matched"]
        assert unmatched <= 0.03 * result["events"], (result, details)
        return result["matched"]


@pytest.fixture(scope="module")
def comparison(python, build, repository, run_program, tmp_path_factory):
    return Comparison(python, build, repository, run_program, tmp_path_factory.mktemp("truth"))


@pytest.mark.parametrize("mode", ["int3", "jump"])
@pytest.mark.parametrize("workload", WORKLOADS)
def test_no_wrong_parent(comparison, workload, mode):
    comparison.matched(workload, mode)


def test_no_wrong_parent_with_python_frames(comparison):
    """The profile function is on in both runs: with it, Python's frames take part in the tree."""
    comparison.matched("in_place_and_views", "jump", modes=["jump"], python_events=True)


@pytest.mark.parametrize("mode", ["int3", "jump"])
def test_events_are_many(comparison, mode):
    total = sum(comparison.matched(workload, mode) for workload in WORKLOADS)
    print(f"{mode}: the parents of {total} events were compared")
    assert total >= LEAST_EVENTS


def test_no_wrong_parent_on_the_newest_torch(newest_python, build, repository, run_program,
                                             tmp_path):
    newest = Comparison(newest_python, build, repository, run_program, tmp_path)
    for mode in ("int3", "jump"):
        newest.matched("masked_attention", mode)


def test_wrong_parents_are_found(comparison, tmp_path):
    """A truth with other parents must not pass."""
    workload = WORKLOADS[0]
    files = comparison.files(workload)
    lines = (files / "truth").read_text().splitlines()
    previous = {}  # Entry -> its parent's parent: a plausible, wrong answer.
    altered, number = [], 0
    for line in lines:
        words = line.split()
        if words[0] == "entry":
            parent = int(words[2])
            previous[number] = parent
            if parent >= 0 and words[3] == "call" and previous[parent] >= 0:
                words[2] = str(previous[parent])
            number += 1
        altered.append(" ".join(words))
    path = tmp_path / "altered"
    path.write_text("\n".join(altered) + "\n")
    result, _ = comparison.compare(files / "int3", path)
    assert result["wrong_parents"] > 0.2 * result["matched"]
