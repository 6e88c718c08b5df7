"""The tree's native frames are what gdb prints, name by name, on the same wheel without probes."""
import collections
import json
import pathlib
import shutil
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "truth"))

import compare_frames  # noqa: E402  (tests/truth is no package)

OPS = ("conv2d", "linear", "matmul", "add", "relu", "softmax", "layer_norm", "batch_norm",
       "embedding", "max_pool2d", "cross_entropy", "scaled_dot_product_attention")
CASES = [op + direction for op in OPS for direction in ("", "+backward")]
# Regular expressions of the files whose symbols gdb reads. The rest of CUDA takes it a minute.
LIBRARIES = ("libtorch_cpu", "libtorch_python", r"torch/lib/libtorch\.so", "libc10", "libgomp",
             "libpython", "/python", r"libc\.so", "_ctypes", "libffi", r"libstdc", "libgdb_markers")
# One thread, so that the stops have an order, and the same choices in both runs.
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


@pytest.fixture(scope="module")
def reports(optrace, python):
    """Each case's report, with every frame."""
    made = {}
    for case in CASES:
        op, _, backward = case.partition("+")
        run = optrace(op, *(["--backward"] if backward else []), "--all", "--format", "json",
                      environment={**ENVIRONMENT, "OPTRACE_PYTHON": python})
        assert run.returncode == 0, run.stderr
        made[case] = json.loads(run.stdout)
    return made


@pytest.fixture(scope="module")
def names(python, run_program):
    return compare_frames.Names(run_program([python, "-c", FILES]).stdout.splitlines())


@pytest.fixture(scope="module")
def stops(reports, names, python, repository, build, run_program, tmp_path_factory):
    """Where gdb stopped in each case: one run of gdb for all of them."""
    assert shutil.which("gdb"), "gdb is missing; `make setup` installs it"
    folder = tmp_path_factory.mktemp("gdb")
    request, answer = folder / "request.json", folder / "answer.json"
    cases = [sorted({(library, address)
                     for symbol, library in compare_frames.end_points(reports[case])
                     for address in names.symbols(library).addresses[symbol]}) for case in CASES]
    request.write_text(json.dumps({"libraries": LIBRARIES, "cases": cases, "answer": str(answer)}))
    truth = repository / "tests/truth"
    run = run_program(
        ["env", *(f"{name}={value}" for name, value in ENVIRONMENT.items()),
         f"OPTRACE_TRUTH_REQUEST={request}",
         "gdb", "-nx", "-batch", "-iex", "set auto-load off", "-x", str(truth / "gdb_session.py"),
         "--args", python, "-B", str(truth / "gdb_target"), str(repository / "tracer/target"),
         str(repository / "fixtures/samples"), str(build / "tests/truth/libgdb_markers.so"),
         *CASES], timeout=600)
    assert run.returncode == 0 and answer.exists(), run.stdout[-4000:] + run.stderr[-4000:]
    return dict(zip(CASES, json.loads(answer.read_text())))


@pytest.mark.parametrize("case", CASES)
def test_frames_are_gdbs(case, reports, stops, names):
    report = reports[case]
    points = compare_frames.end_points(report)
    same, tail_callers, differences = compare_frames.compare(report, points, stops[case], names)
    classes = collections.Counter(difference.kind for difference in differences)
    text = "\n".join(f"{difference.kind}: {difference.detail}\n    at {difference.chain[0][0]}"
                     for difference in differences)
    print(f"{case}: {same} chains at {len(points)} functions are the same; {tail_callers} "
          f"tail-callers in them that gdb can't see; differences: {dict(classes) or 'none'}")
    assert not differences, text
    assert same >= 1 and points


def test_libraries_are_reached(reports):
    """The comparison has library calls to compare, not only leaves of ATen."""
    reached = {frame["name"] for report in reports.values()
               for frame, *_ in compare_frames.native_chains(report) if frame["layer"] == "library"}
    assert any("dnnl" in name for name in reached), reached
    assert any("gemm" in name for name in reached), reached


def test_differences_are_found(reports, stops, names):
    """Neither a lost frame, nor a wrong one, nor a mark that is missing may pass."""
    case = "conv2d"
    points = compare_frames.end_points(reports[case])
    changed = json.loads(json.dumps(stops[case]))
    del changed[0][3]
    changed[-1][2][0] = "another_function"
    _, _, differences = compare_frames.compare(reports[case], points, changed, names)
    assert len(differences) == 2, differences

    with_marks = next(case for case in CASES if any(
        left_out for _, _, _, left_out in compare_frames.native_chains(reports[case])))
    unmarked = json.loads(json.dumps(reports[with_marks]).replace('"tail_call": true', '"x": 1'))
    points = compare_frames.end_points(reports[with_marks])
    _, _, differences = compare_frames.compare(unmarked, points, stops[with_marks], names)
    assert differences
