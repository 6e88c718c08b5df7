"""The call tree has no wrong parent, compared with single-stepped runs of the same programs.

The workloads, the stepper and the comparison are in tests/truth.
"""
import collections
import concurrent.futures
import json
import pathlib
import sys
import tempfile

import pytest

# Names in tests/truth/workloads.py, which imports torch and is therefore not imported here.
WORKLOADS = ("group_norm_step", "embedding_bag_similarity", "indexing",
             "pooling_and_normalization", "masked_attention", "in_place_and_views",
             "recurrent_by_hand")
SAMPLE = "in_place_and_views"  # What `make test` compares; `make verify` compares all.
LEAST_EVENTS = 5000  # In all workloads together, for each kind of probe.

MOST_STEPS = 8_000_000  # For one op of the tenth. The longest takes 2 million.

KNOWN_CALLS = """
import ctypes, gc, json, re, sys
stepper_file, known_file, folder = sys.argv[1:]
known = ctypes.PyDLL(known_file)
stepper = ctypes.PyDLL(stepper_file)
stepper.single_step_prepare.restype = ctypes.c_char_p
stepper.single_step_prepare.argtypes = [ctypes.c_uint64, ctypes.c_int]
stepper.single_step_write.restype = ctypes.c_char_p
stepper.single_step_begin.restype = None

def native():
    known.known_calls(stepper.single_step_begin, stepper.single_step_end)

def interpreter():
    stepper.single_step_begin()
    text = json.dumps({"a": [1, 2.5, None], "b": sorted("steps")})
    try:
        re.sub("[a-c]+", lambda match: match[0].upper(), text).index("absent")
    except ValueError:
        pass
    stepper.single_step_end()

gc.disable()
for name, work in (("native", native), ("interpreter", interpreter)):
    for run in ["warm_up"] * 20 + ["breakpoints", "every_instruction", "breakpoints_again"]:
        assert stepper.single_step_prepare(1 << 22, run == "every_instruction") is None
        work()
        error = stepper.single_step_write(f"{folder}/{name}_{run}".encode())
        assert error is None, error
"""

# The calls of known_calls.cpp: (function, caller, kind of call).
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
    ("known_encodings", None, "call"),
    *[("known_end", "known_encodings", "call")] * 8,
    ("known_pops", "known_encodings", "call"),
    ("known_end", "known_encodings", "call"),
    ("known_jumps_if_zero", "known_encodings", "call"),
    ("known_falls_through", "known_encodings", "call"),
    ("known_after", "known_falls_through", "tail"),
    ("known_switch", "known_encodings", "call"),
    ("known_jumps_if_zero", "known_switch", "tail"),
    ("known_end", "known_jumps_if_zero", "tail"),
    ("known_end", "known_encodings", "tail"),
    ("known_leaf", None, "call"),
]


def read_truth(path):
    """Returns [(function, number of the parent or -1, kind)] of a file of single_step_write."""
    symbols, entries = {}, []
    for line in path.read_text().splitlines():
        kind, *words = line.split()
        if kind == "function":
            symbols[words[0]] = words[3]
        elif kind == "entry":
            entries.append((symbols[words[0]], int(words[1]), words[2]))
    return entries


@pytest.fixture(scope="module")
def known_calls(python, build, run_program, tmp_path_factory):
    """The folder with the truths that KNOWN_CALLS writes."""
    folder, built = tmp_path_factory.mktemp("known_calls"), build / "tests/truth"
    run = run_program([python, "-c", KNOWN_CALLS, str(built / "libsingle_step.so"),
                       str(built / "libknown_calls.so"), str(folder)])
    assert run.returncode == 0, run.stderr
    return folder


@pytest.mark.parametrize("how", ["breakpoints", "every_instruction"])
def test_stepper_knows_calls_jumps_exceptions_and_longjmp(known_calls, how):
    entries = read_truth(known_calls / f"native_{how}")
    seen = [(name, entries[parent][0] if parent >= 0 else None, how)
            for name, parent, how in entries if name.startswith("known_")]
    assert seen == KNOWN


@pytest.mark.parametrize("work", ["native", "interpreter"])
def test_breakpoints_miss_nothing_that_single_steps_see(known_calls, work):
    """All functions entered, in known_calls.cpp, the interpreter, libc and the unwinder."""
    truths = {}
    for how in ("breakpoints", "every_instruction", "breakpoints_again"):
        *lines, end = (known_calls / f"{work}_{how}").read_text().splitlines()
        truths[how] = lines, int(end.removeprefix("end "))
    assert len(truths["every_instruction"][0]) > 100
    assert truths["breakpoints"][0] == truths["every_instruction"][0]
    assert truths["breakpoints_again"][0] == truths["every_instruction"][0]
    assert truths["breakpoints"][1] < truths["every_instruction"][1] / 3


class Comparison:
    """Runs compare_parents on workloads, each stepped and recorded once."""

    def __init__(self, python, build, repository, run_program, folder):
        tests = build / "tests/truth"
        self._program = str(tests / "compare_parents")
        self._common = ["--python", python,
                        "--program", str(repository / "tests/truth/run_workload.py"),
                        "--agent", str(build / "lib/optrace/liboptrace_agent.so"),
                        "--stepper", str(tests / "libsingle_step.so")]
        self._run = run_program
        self._folder = folder

    def run(self, workloads, *, modes, python_events=False, most_steps=None, at_once=False,
            timeout=600):
        """Returns (folder with a folder for each workload, JSON lines of stdout, stderr). With
        `at_once`, compares immediately and keeps no trace."""
        folder = pathlib.Path(tempfile.mkdtemp(dir=self._folder))
        run = self._run([self._program, "run", *self._common,
                         *(word for workload in workloads for word in ("--workload", workload)),
                         *(word for mode in modes for word in ("--mode", mode)),
                         *(["--most-steps", str(most_steps)] if most_steps else []),
                         *(["--python-events"] if python_events else []),
                         *(["--compare"] if at_once else []), "-o", str(folder)],
                        timeout=timeout)
        assert run.returncode == 0, run.stderr
        return folder, [json.loads(line) for line in run.stdout.splitlines()], run.stderr

    def compare(self, trace, truth):
        run = self._run([self._program, "compare", str(trace), str(truth)])
        assert run.returncode in (0, 1), run.stderr
        return json.loads(run.stdout), run.stderr

    def matched(self, files, mode):
        """Asserts that no parent is wrong; returns the number of entries compared."""
        result, details = self.compare(files / mode, files / "truth")
        print(files.name, mode, json.dumps(result))
        check(result, mode, details)
        assert result["matched"] > 100
        return result["matched"]


def check(result, mode, details):
    assert result["wrong_parents"] == 0, details
    assert result["wrong_tail_calls"] == 0, details
    assert result["wrong_callers"] == 0, details
    assert result["parents_only_recorded"] <= max(2, 0.001 * result["matched"]), (result, details)
    assert result["path_differences"] == 0, details
    assert result["lost"] == 0
    probes = result["probes"]
    used = probes["jumps"] if mode == "jump" else probes["traps"]
    assert used > 50_000 and used > 0.99 * (probes["jumps"] + probes["traps"]), probes
    # The two runs differ slightly in the contents of CPython's caches.
    unmatched = result["events"] + result["truth_entries"] - 2 * result["matched"]
    assert unmatched <= max(200, 0.03 * result["events"]), (result, details)


@pytest.fixture(scope="module")
def comparison(python, build, repository, run_program, tmp_path_factory):
    return Comparison(python, build, repository, run_program, tmp_path_factory.mktemp("truth"))


@pytest.fixture(scope="module")
def sample(comparison):
    """The folder with a truth and two traces of one workload."""
    folder, refusals, _ = comparison.run([SAMPLE], modes=("jump", "int3"))
    assert refusals == []
    return folder / SAMPLE


@pytest.mark.parametrize("mode", ["int3", "jump"])
def test_no_wrong_parent_in_a_sample(comparison, sample, mode):
    comparison.matched(sample, mode)


@pytest.fixture(scope="module")
def files(comparison):
    """The folder with a truth and two traces of each workload, all from one process."""
    folder, refusals, _ = comparison.run(WORKLOADS, modes=("jump", "int3"))
    assert refusals == []
    return folder


@pytest.mark.verify
@pytest.mark.parametrize("mode", ["int3", "jump"])
def test_no_wrong_parent(comparison, files, mode):
    total = sum(comparison.matched(files / workload, mode) for workload in WORKLOADS)
    print(f"{mode}: the parents of {total} events were compared")
    assert total >= LEAST_EVENTS


@pytest.mark.verify
def test_no_wrong_parent_with_python_frames(comparison):
    """The profile function is on in both runs, so that the tree has Python frames."""
    folder, refusals, _ = comparison.run(["in_place_and_views"], modes=["jump"],
                                         python_events=True)
    assert refusals == []
    comparison.matched(folder / "in_place_and_views", "jump")


@pytest.mark.verify
def test_no_wrong_parent_on_the_newest_torch(newest_python, build, repository, run_program,
                                             tmp_path):
    newest = Comparison(newest_python, build, repository, run_program, tmp_path)
    folder, refusals, _ = newest.run(["masked_attention"], modes=("jump", "int3"))
    assert refusals == []
    for mode in ("int3", "jump"):
        newest.matched(folder / "masked_attention", mode)


@pytest.fixture(scope="module")
def tenth(comparison, repository, python):
    """(the calls of every tenth op of OpInfo, forward and backward; the results of compare_parents,
    including the calls that could not be stepped; its messages)."""
    sys.path.insert(0, str(repository / "tests/sweep"))
    try:
        import sweep
    finally:
        sys.path.pop(0)
    calls = [call for call in sweep.tenth(sweep.list_calls(python)["calls"])
             if call["kind"] == "op" and call["op"] not in sweep.EXCEPTIONS]
    names = ["op:%s%s" % (call["op"], "+backward" * call["backward"]) for call in calls]
    # One process for each processor of a CI machine. The ops of a process share its caches.
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda part: comparison.run(
            part, modes=["jump"], most_steps=MOST_STEPS, at_once=True, timeout=850),
            [names[0::2], names[1::2]]))
    lines = [line for _, said, _ in answers for line in said]
    return names, lines, "\n".join(details[-5000:] for *_, details in answers)


@pytest.mark.release
def test_no_wrong_parent_in_the_tenth_of_all_ops(tenth):
    names, lines, details = tenth
    compared = {line["workload"]: line for line in lines if "matched" in line}
    refused = {line["workload"]: line["refused"] for line in lines if "refused" in line}
    assert compared.keys() | refused.keys() == set(names)
    for key in ("steps", "events", "matched", "wrong_parents", "wrong_tail_calls", "tail_calls",
                "callers_without_probe", "wrong_callers", "turns", "shifts",
                "matched_entered_before_recording", "matched_parents_by_function",
                "parents_only_recorded",
                "truth_entries_without_probe", "paths", "path_differences", "lost"):
        print(f"{key}: {sum(line[key] for line in compared.values())}")
    for key in ("only_recorded", "only_stepped"):
        files = collections.Counter()
        for line in compared.values():
            files.update(line[key])
        print(f"{key}, by file: {dict(files) or 'none'}")
    for rule in ("roots", "self_entries", "unprobed_callers", "recursive_callers"):
        print(f"{rule}: {sum(line['tree'][rule] for line in compared.values())}")
    print(f"{len(compared)} of {len(names)} calls were stepped; not stepped: {refused or 'none'}")
    for line in compared.values():
        check(line, "jump", (line["workload"], details))
    assert not refused


def test_wrong_parents_are_found(comparison, sample, tmp_path):
    """A truth with wrong parents is detected."""
    lines = (sample / "truth").read_text().splitlines()
    previous = {}  # Entry -> its parent. The parent's parent is a plausible, wrong answer.
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
    result, _ = comparison.compare(sample / "int3", path)
    assert result["wrong_parents"] > 0.2 * result["matched"]
