"""`optrace compare`: the differences between two traces or reports."""
import json
import os
import pathlib
import re

import pytest

DIFFERS, USAGE, FAILED = 1, 2, 3


@pytest.fixture(scope="module")
def traces(optrace, python, tmp_path_factory):
    """traces("linear", "--dtype", "float64") -> (trace, JSON report) of a call, kept."""
    folder = tmp_path_factory.mktemp("traces")
    kept = {}

    def trace(*arguments):
        if arguments not in kept:
            path = folder / f"{len(kept)}.trace"
            report = path.with_suffix(".json")
            result = optrace(*arguments, "--python", python, "--trace", path, "--format", "json",
                             "-o", report, timeout=300)
            assert result.returncode == 0, result.stderr
            kept[arguments] = path, report
        return kept[arguments]

    return trace


@pytest.fixture(scope="module")
def compare(optrace, validate):
    """compare(A, B) -> the comparison, validated against its schema."""

    def run(first, second):
        result = optrace("compare", first, second, "--format", "json")
        assert result.returncode in (0, DIFFERS), result.stderr
        comparison = json.loads(result.stdout)
        validate(comparison, "comparison")
        assert (result.returncode == DIFFERS) == bool(comparison["differences"])
        return comparison

    return run


def test_a_trace_and_its_report_are_the_same(compare, traces):
    trace, report = traces("linear")
    assert compare(trace, trace)["differences"] == []
    assert compare(trace, report)["differences"] == []


CHILD = """
import os, sys, torch
torch.neg(torch.ones(2))
if os.fork() == 0:
    for _ in range(int(sys.argv[1])):
        torch.sin(torch.ones(2))
    sys.exit()
os.wait()
"""


def test_all_processes_of_a_job_are_compared(compare, optrace, python, tmp_path):
    (tmp_path / "job.py").write_text(CHILD)
    for calls in ("3", "5"):
        result = optrace("run", "--children", "--python", python, "--trace", f"{calls}.trace",
                         "-o", os.devnull, "job.py", calls, cwd=tmp_path)
        assert result.returncode == 0, result.stderr
    first, second = tmp_path / "3.trace", tmp_path / "5.trace"
    assert compare(first, first)["differences"] == []
    differences = compare(first, second)["differences"]
    assert any("aten::sin" in str(one) for one in differences)
    assert not any("aten::neg" in str(one) for one in differences)
    other, = tmp_path.glob("3.*.trace")
    other.unlink()
    missing = optrace("compare", first, second)
    assert missing.returncode == USAGE and "the trace of another process" in missing.stderr


def test_another_dtype_takes_another_way(compare, traces):
    """bfloat16 is multiplied by another BLAS function than float32, or by oneDNN.

    The test uses `linear` because not every processor has a oneDNN convolution in half precision.
    """
    differences = compare(traces("linear")[0], traces("linear", "--dtype", "bfloat16")[0])
    kinds = {difference["kind"] for difference in differences["differences"]}
    assert {"vanished", "appeared"} & kinds or "changed" in kinds
    assert all(difference["path"] for difference in differences["differences"])


def test_what_functions_returned(compare, traces):
    """A small image is not worth oneDNN."""
    small, large = (traces("conv2d", "--shape", shape)[0] for shape in ("1x3x8x8", "4x3x56x56"))
    changed = {re.sub("<.*>", "", one["path"][-1]): (one["before"], one["after"])
               for one in compare(small, large)["differences"] if one.get("what") == "returned"}
    assert changed["at::native::ConvParams::use_mkldnn"] == ("false", "true")
    assert changed["at::native::_select_conv_backend"] == (
        "ConvBackend::Slow2d", "ConvBackend::Mkldnn")


def test_cpu_and_dry_gpu(compare, traces, optrace):
    first, second = traces("relu")[0], traces("relu", "--dry-run=sm_90")[0]
    comparison = compare(first, second)
    assert comparison["first"]["dry_run"] is None
    assert comparison["second"]["dry_run"]["arch"] == "sm_90"
    appeared = [difference for difference in comparison["differences"]
                if difference["kind"] == "appeared"]
    assert any("_kernel<" in reached for difference in appeared
               for reached in difference["reaches"])
    changed = [(difference["what"], difference["before"], difference["after"])
               for difference in comparison["differences"] if difference["kind"] == "changed"]
    assert ("dispatch_key", "CPU", "CUDA") in changed
    text = optrace("compare", first, second)
    assert text.returncode == DIFFERS
    assert "dispatch_key: CPU → CUDA" in text.stdout and "sm_90" in text.stdout


def test_parts_of_a_gpu(compare, traces):
    """Half-precision attention uses another kernel on older GPUs."""
    call = ["F.scaled_dot_product_attention", "--dtype", "float16"]
    first, second = (traces(*call, f"--dry-run={part}")[1] for part in ("sm_75", "sm_80"))
    differences = compare(first, second)["differences"]
    for kind, word in (("vanished", "efficient_attention"), ("appeared", "flash_attention")):
        assert any(difference["kind"] == kind and word in difference["path"][-1]
                   for difference in differences), (kind, word)


def test_commands_are_traced(optrace, python, traces):
    """Operands can be commands, which are traced: an equal one has no difference."""
    environment = {"OPTRACE_PYTHON": python}
    same = optrace("compare", traces("linear")[0], "optrace 'linear'", environment=environment)
    assert same.returncode == 0 and same.stdout.endswith("No difference.\n"), same.stderr
    other = optrace("compare", "relu", "run -c 'import torch; print(7); torch.relu(torch.ones(2))'",
                    environment=environment)
    assert other.returncode == DIFFERS
    assert other.stdout.startswith("-         relu: torch ") and "7\n" in other.stderr
    assert "differences\n" in other.stdout


@pytest.mark.parametrize("wrong, message", [
    ("no_op_of_this_name", "no_op_of_this_name"),
    (" ", "the command is empty"),
    ("locate relu", "the command `locate relu` traces nothing"),
    ("relu --format json", "not expected"),
    ("relu -o x", "not expected"),
    ("relu --trace x", "not expected"),
    ("relu --help", "traces nothing"),
    ("relu 'x", "a quote that is not closed"),
    ("run", "no program given"),
    ("run absent.py", "no such file: absent.py"),
    ("./relu", "./relu"),
    ("run -c 'raise SystemExit(5)'", "ended with exit status 5"),
    ("run -c pass", "the program never imported torch"),
])
def test_inputs_that_are_wrong(optrace, traces, python, tmp_path, wrong, message):
    result = optrace("compare", wrong, traces("linear")[0], cwd=tmp_path,
                     environment={"OPTRACE_PYTHON": python})
    assert result.returncode in (USAGE, FAILED) and result.stdout == ""
    assert message in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_baseline(optrace, traces, tmp_path):
    trace, report = traces("linear")
    other, _ = traces("linear", "--dtype", "float64")
    baseline = tmp_path / "baseline.json"
    absent = optrace("compare", trace, "--baseline", baseline)
    assert absent.returncode == USAGE and "Create it with --update." in absent.stderr
    made = optrace("compare", trace, "--baseline", baseline, "--update")
    assert made.returncode == 0 and f"{baseline} was created" in made.stderr and made.stdout == ""
    kept, time = baseline.read_bytes(), baseline.stat().st_mtime_ns
    assert len(kept) < report.stat().st_size / 2
    assert str(json.loads(kept)).count("linear.py") == 0
    same = optrace("compare", report, "--baseline", baseline, "--update")
    assert same.returncode == 0 and "is unchanged" in same.stderr
    assert baseline.stat().st_mtime_ns == time
    differs = optrace("compare", other, "--baseline", baseline, "--format", "json")
    assert differs.returncode == DIFFERS and json.loads(differs.stdout)["differences"]
    assert baseline.read_bytes() == kept
    updated = optrace("compare", other, "--baseline", baseline, "--update")
    assert updated.returncode == 0 and "was updated" in updated.stderr
    assert "difference" in updated.stdout and baseline.read_bytes() != kept
    assert optrace("compare", other, "--baseline", baseline).returncode == 0
    assert [path.name for path in tmp_path.iterdir()] == ["baseline.json"]


def test_baselines_that_are_none(optrace, traces, tmp_path):
    trace, report = traces("linear")
    pipe, folder, cut, later = (tmp_path / name for name in ("pipe", "folder", "cut", "later"))
    os.mkfifo(pipe)
    folder.mkdir()
    cut.write_bytes(pathlib.Path(report).read_bytes()[:2000])
    later.write_text('{"schema": "optrace.report/2", "roots": []}')
    huge = tmp_path / "huge"
    with huge.open("wb") as file:
        file.write(b"{")
        file.truncate(2 << 30)
    for path, message in [(pipe, "not a regular file"), (folder, str(folder)),
                          (cut, "not a JSON object"), (later, "its schema is optrace.report/2"),
                          (huge, "larger than a GiB")]:
        for options in ([], ["--update"]):
            result = optrace("compare", trace, "--baseline", path, *options, timeout=600)
            assert result.returncode == USAGE and message in result.stderr, (path, result.stderr)
    assert cut.stat().st_size == 2000
    for arguments in ([trace, trace, "--baseline", later], [trace, trace, "--update"],
                      [trace, "--baseline", later, "-o", later]):
        assert optrace("compare", *arguments).returncode == USAGE


@pytest.mark.parametrize("content", [b"", b"{}", b"OPTRACE\0", b"[1, 2]", b"{\"schema\": 1}",
                                     b"{\"schema\": \"optrace.report/9\", \"roots\": []}"])
def test_what_is_neither_is_refused(optrace, traces, tmp_path, content):
    path = tmp_path / "odd"
    path.write_bytes(content)
    result = optrace("compare", traces("linear")[0], path)
    assert result.returncode == USAGE and result.stdout == ""
    assert str(path) in result.stderr


def test_files_that_are_not_there(optrace, traces, tmp_path):
    for first, second in [(traces("linear")[0], tmp_path / "absent"), (tmp_path, tmp_path)]:
        result = optrace("compare", first, second)
        assert result.returncode == USAGE and str(second) in result.stderr
    result = optrace("compare", traces("linear")[0])
    assert result.returncode == USAGE


def test_the_output_goes_to_a_file(optrace, traces, tmp_path):
    trace, _ = traces("linear")
    path = tmp_path / "same"
    result = optrace("compare", trace, trace, "-o", path)
    assert result.returncode == 0 and result.stdout == ""
    assert path.read_text().endswith("No difference.\n")
