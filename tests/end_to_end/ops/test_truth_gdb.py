"""The tree's native frames are those that gdb prints on the same wheel without probes."""
import collections
import json
import pathlib
import shutil
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "truth"))

import compare_frames

OPS = ("conv2d", "linear", "matmul", "add", "relu", "softmax", "layer_norm", "batch_norm",
       "embedding", "max_pool2d", "cross_entropy", "scaled_dot_product_attention")
# One more op of each family, forward only.
MORE_OPS = ("conv_transpose2d", "bmm", "einsum", "group_norm", "gelu", "sum", "max", "mean",
            "argmax", "cumsum", "sort", "topk", "index_select", "gather", "scatter", "masked_fill",
            "nonzero", "where", "cat", "stack", "clone", "avg_pool2d", "interpolate", "mse_loss",
            "dropout", "fft_fft", "linalg_svd", "linalg_qr", "linalg_cholesky", "linalg_solve",
            "nn.LSTM", "nn.GRU", "optim.Adam", "optim.SGD")
# The cases with the most steps in test_truth_single_step.py.
MOST_STEPS = ("ctc_loss", "ctc_loss+backward", "ormqr+backward",
              "fractional_max_pool3d+backward")
# What `make test` compares; `make verify` compares all.
SAMPLE = ["conv2d", "matmul+backward", "relu", "scaled_dot_product_attention"]
CASES = [*(op + direction for op in OPS for direction in ("", "+backward")), *MORE_OPS,
         *MOST_STEPS]
NEWEST_CASES = ["conv2d", "matmul", "softmax+backward"]
LEAST_IN_SAMPLE = 60  # Usually some 200.
LEAST_CHAINS = 2000  # In all cases; usually some 10,000, fewer if libraries take other paths.
# Regular expressions of the files whose symbols gdb reads. The rest of CUDA would take a minute.
LIBRARIES = ("libtorch_cpu", "libtorch_python", r"torch/lib/libtorch\.so", "libc10", "libgomp",
             "libpython", "/python", r"libc\.so", "_ctypes", "libffi", r"libstdc", "libgdb_markers")
SLOW_PATH = "_ZN3c1010Dispatcher27callWithDispatchKeySlowPath"
# One thread, so that the stops are ordered and both runs make the same choices.
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}

FILES = """
import importlib.util, os, sys, sysconfig
folder = os.path.dirname(os.path.realpath(importlib.util.find_spec("torch").origin))
print(os.path.realpath(sys.executable))
shared = os.path.join(sysconfig.get_config_var("LIBDIR") or "",
                      sysconfig.get_config_var("INSTSONAME") or "")
if os.path.isfile(shared): print(os.path.realpath(shared))
for name in os.listdir(os.path.join(folder, "lib")):
    if ".so" in name: print(os.path.join(folder, "lib", name))
"""


class Compared:
    """Each case's report with every frame, and gdb's stops: one Python and one gdb for all cases.

    The reports are made without op records, whose callbacks would be frames that gdb's run lacks.
    """

    def __init__(self, cases, python, run_program, repository, build, folder):
        self.names = compare_frames.Names(run_program([python, "-c", FILES]).stdout.splitlines())
        variables = [f"{name}={value}" for name, value in ENVIRONMENT.items()]
        # Without a compiler and ready-made libraries, nothing makes op records.
        run = run_program(["env", *variables, "PATH=/nonexistent", "OPTRACE_PREBUILT=0",
                           str(build / "trace_reports"), python, str(folder), *cases], timeout=600)
        assert run.returncode == 0, run.stderr
        self.path_sums = [json.loads(line) for line in run.stdout.splitlines()]
        self.reports = {case: json.loads((folder / f"{number}.json").read_text())
                        for number, case in enumerate(cases)}
        self.points = {case: compare_frames.end_points(report)
                       for case, report in self.reports.items()}
        places = [sorted({(library, address) for symbol, library in self.points[case]
                          for address in self.names.symbols(library).addresses[symbol]})
                  for case in cases]
        # What `optrace check` says is called for recording alone has no stop to compare.
        places[0] += [("libtorch_cpu.so", address) for symbol, addresses
                      in self.names.symbols("libtorch_cpu.so").addresses.items()
                      if symbol.startswith(SLOW_PATH) for address in addresses]
        request, answer = folder / "request.json", folder / "answer.json"
        request.write_text(json.dumps({"libraries": LIBRARIES, "cases": places,
                                       "answer": str(answer)}))
        truth = repository / "tests/truth"
        run = run_program(
            ["env", *variables, f"OPTRACE_TRUTH_REQUEST={request}",
             "gdb", "-nx", "-batch", "-iex", "set auto-load off",
             "-x", str(truth / "gdb_session.py"),
             "--args", python, "-B", str(truth / "gdb_target"),
             str(repository / "target/python"),
             str(repository / "fixtures/samples"), str(build / "tests/truth/libgdb_markers.so"),
             *cases], timeout=600)
        assert run.returncode == 0 and answer.exists(), run.stdout[-4000:] + run.stderr[-4000:]
        self.stops = dict(zip(cases, json.loads(answer.read_text())))

    def compare(self, case):
        """Asserts that there is no difference; returns the number of equal chains."""
        points = self.points[case]
        same, tail_callers, unprobed, astray, differences = compare_frames.compare(
            self.reports[case], points, self.stops[case], self.names)
        library_calls = sum(calls for frame, _, calls, _ in
                            compare_frames.native_chains(self.reports[case])
                            if frame["layer"] == "library")
        classes = collections.Counter(difference.kind for difference in differences)
        print(f"{case}: {same} chains at {len(points)} functions are the same, {library_calls} of "
              f"them at library calls; {tail_callers} marked tail-callers in them that gdb can't "
              f"see; {unprobed} stops at functions without a probe that share a name; {astray} "
              f"where gdb loses its way; differences: "
              f"{dict(classes) or 'none'}")
        assert not differences, "\n".join(
            f"{difference.kind}: {difference.detail}\n    at {difference.chain[0][0]}"
            for difference in differences)
        assert points and same >= len(points)
        assert len(self.stops[case]) == same + unprobed + astray
        assert unprobed + astray <= 0.05 * same
        return same


@pytest.fixture(scope="module")
def gdb_works(run_program):
    assert shutil.which("gdb"), "gdb is missing; `make setup` installs it"
    run = run_program(["gdb", "-nx", "-batch", "-ex", "run", "--args", "/bin/true"])
    text = run.stdout + run.stderr
    if "ptrace" in text and ("not permitted" in text or "denied" in text):
        pytest.skip("cannot run here: gdb may not trace a program (ptrace is refused)")


@pytest.fixture(scope="module")
def compare(gdb_works, python, run_program, repository, build, tmp_path_factory):
    """compare(cases) -> Compared."""
    return lambda cases: Compared(cases, python, run_program, repository, build,
                                  tmp_path_factory.mktemp("gdb"))


@pytest.fixture(scope="module")
def sample(compare):
    return compare(SAMPLE)


@pytest.fixture(scope="module")
def compared(compare):
    return compare(CASES)


@pytest.mark.parametrize("case", SAMPLE)
def test_frames_are_gdbs_in_a_sample(case, sample):
    sample.compare(case)


def check_totals(compared, least, least_tail_callers):
    total = sum(len(stops) for stops in compared.stops.values())
    tail_callers = sum(len(left_out) for report in compared.reports.values()
                       for *_, left_out in compare_frames.native_chains(report))
    print(f"{total} chains in {len(compared.stops)} cases; {tail_callers} tail-callers are marked")
    assert total >= least
    # The chains would also agree if optrace lost them all.
    assert tail_callers >= least_tail_callers
    for sums in compared.path_sums:
        assert sums["path_differences"] == 0 and sums["paths"] > 0, sums


def test_the_sample_has_chains_and_paths_add_up(sample):
    check_totals(sample, LEAST_IN_SAMPLE, 5)


@pytest.mark.verify
def test_ops_are_enough():
    assert len({case for case in CASES if "+" not in case}) >= 30
    assert len({case for case in CASES if case.endswith("+backward")}) >= 12


@pytest.mark.verify
@pytest.mark.parametrize("case", CASES)
def test_frames_are_gdbs(case, compared):
    compared.compare(case)


@pytest.mark.verify
def test_chains_are_many_and_paths_add_up(compared):
    check_totals(compared, LEAST_CHAINS, 100)


@pytest.mark.verify
def test_frames_are_gdbs_on_the_newest_torch(gdb_works, newest_python, run_program, repository,
                                             build, tmp_path):
    newest = Compared(NEWEST_CASES, newest_python, run_program, repository, build, tmp_path)
    assert sum(newest.compare(case) for case in NEWEST_CASES) >= 100


def test_libraries_are_reached(sample):
    """The comparison has library calls to compare, not only leaves of ATen."""
    reached = {frame["name"] for report in sample.reports.values()
               for frame, *_ in compare_frames.native_chains(report) if frame["layer"] == "library"}
    assert any("dnnl" in name for name in reached), reached
    assert any("gemm" in name for name in reached), reached


def test_check_counts_what_gdb_stops_at(sample, optrace, tmp_path):
    """A rule about a function and the number of gdb's stops at it holds, or can't be decided."""
    passed = 0
    for case in SAMPLE:
        report, points = sample.reports[case], sample.points[case]
        stops = collections.Counter(sample.names.same(stop["frames"][0])
                                    for stop in sample.stops[case])
        functions = collections.defaultdict(set)
        for frame, chain, *_ in compare_frames.native_chains(report):
            # A name stands for all instances of a template.
            functions[frame["name"].partition("<")[0]].add(chain[0])
        rules = {f"calls {name} == {sum(stops[sample.names.same(one)] for one in ones)}"
                 for name, ones in functions.items() if ones <= points and " " not in name}
        (tmp_path / "report.json").write_text(json.dumps(report))
        (tmp_path / "rules.json").write_text(json.dumps({"rules": sorted(rules)}))
        checked = optrace("check", tmp_path / "report.json", "--format", "json",
                          "--expect", tmp_path / "rules.json")
        answers = json.loads(checked.stdout)["rules"]
        assert not [one for one in answers if one["status"] == "failed"]
        passed += sum(one["status"] == "passed" for one in answers)
    assert passed >= 20


def test_differences_are_found(sample):
    """The comparison detects a lost frame, a wrong frame and a missing mark."""
    reports, stops, names = sample.reports, sample.stops, sample.names
    case = "conv2d"
    points = sample.points[case]
    changed = json.loads(json.dumps(stops[case]))
    del changed[0]["frames"][3]
    changed[-1]["frames"][2][0] = "another_function"
    *_, differences = compare_frames.compare(reports[case], points, changed, names)
    assert len(differences) == 2, differences

    with_marks = next(case for case in SAMPLE if any(
        left_out for _, _, _, left_out in compare_frames.native_chains(reports[case])))
    unmarked = json.loads(json.dumps(reports[with_marks]).replace('"tail_call": true', '"x": 1'))
    *_, differences = compare_frames.compare(unmarked, sample.points[with_marks],
                                            stops[with_marks], names)
    assert differences
