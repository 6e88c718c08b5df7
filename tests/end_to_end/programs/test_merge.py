"""`optrace merge`: traces of the ranks of a job as one trace, which can be merged further."""
import itertools
import json

import pytest

from report_frames import frames

USAGE = 2
PROGRAM = """
import os, torch
rank = int(os.environ["RANK"])
for _ in range(10 + 2 * (rank == 1)):
    torch.sin(torch.ones(3))
if rank == 2:
    torch.cosh(torch.ones(3))
torch.nn.Linear(4, 4)(torch.ones(4)).sum().backward()
"""


@pytest.fixture(scope="module")
def traces(optrace, python, tmp_path_factory):
    """The traces of three ranks of a job."""
    folder = tmp_path_factory.mktemp("ranks")
    files = [folder / f"job.rank{rank}.trace" for rank in range(3)]
    for rank in range(3):
        result = optrace("run", "--python", python, "--trace", folder / "job.trace",
                         "-o", folder / "report", "-c", PROGRAM, environment={"RANK": rank})
        assert result.returncode == 0, result.stderr
    return files


@pytest.fixture
def merge(optrace, tmp_path):
    """merge(*traces) -> the file with the merged trace."""
    names = itertools.count()

    def merge(*traces):
        file = tmp_path / f"merged{next(names)}.trace"
        result = optrace("merge", *traces, "-o", file)
        assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
        return file
    return merge


def test_order_and_grouping_have_no_effect(merge, traces):
    a, b, c = traces
    expected = merge(a, b, c).read_bytes()
    for order in itertools.permutations(traces):
        assert merge(*order).read_bytes() == expected
    assert merge(a, merge(b, c)).read_bytes() == expected
    assert merge(merge(b, a), c).read_bytes() == expected
    assert merge(b, merge(c, a)).read_bytes() == expected
    assert merge(merge(a, b, c)).read_bytes() == expected
    assert merge(merge(c), merge(a), merge(b)).read_bytes() == expected


@pytest.mark.parametrize("options", [["--format", "text"], ["--all", "--times"], ["--why"],
                                     ["--format", "json"]], ids=" ".join)
def test_the_report_is_that_of_the_traces(optrace, merge, traces, options):
    of_traces = optrace("report", *traces, *options)
    of_merged = optrace("report", merge(*reversed(traces)), *options)
    assert of_traces.returncode == of_merged.returncode == 0, of_traces.stderr
    assert of_merged.stdout == of_traces.stdout


def test_ranks_that_differ_are_named(optrace, merge, traces, validate):
    merged = merge(*traces)
    shown = optrace("report", merged).stdout
    assert "ranks       0, 1, 2\n" in shown
    assert "only rank 2 took " in shown
    assert ": rank 1 took it 12 times, the others 10 times" in shown
    report = json.loads(optrace("report", "--format", "json", merged).stdout)
    validate(report, "report")
    assert [process["rank"] for process in report["processes"]] == [0, 1, 2]
    sine, = [frame for frame in frames(report)
             if frame["op"] == "aten::sin" and (frame["detail"] or {}).get("step") == "call"]
    assert sine["calls"] == 32
    assert sine["detail"]["calls_by_rank"] == [{"calls": 12, "ranks": [1]}]
    linear, = [frame for frame in frames(report)
               if frame["op"] == "aten::addmm"
                   and (frame["detail"] or {}).get("step") == "call"]
    assert linear["calls"] == 3 and "calls_by_rank" not in linear["detail"]


def test_a_rule_for_all_ranks(optrace, merge, traces):
    result = optrace("check", merge(*traces), "--expect", "calls aten::sin <= 32",
                     "--expect", "calls aten::cosh")
    assert "2 of 2 rules passed" in result.stdout, result.stdout + result.stderr


def test_wrong_input(optrace, merge, traces, tmp_path):
    file = tmp_path / "job.trace"

    def refused(*arguments):
        result = optrace("merge", *arguments, "-o", file)
        assert result.returncode == USAGE and not file.exists()
        assert not list(tmp_path.glob("job.trace*"))
        return result.stderr

    assert "the trace of rank 0 is given twice" in refused(traces[0], traces[0])
    assert "the trace of rank 1 is given twice" in refused(merge(*traces), traces[1])
    assert "cannot read" in refused(traces[0], tmp_path / "missing")
    (tmp_path / "text").write_text("no trace")
    assert "it is not an optrace trace" in refused(tmp_path / "text", traces[0])
    assert optrace("merge", traces[0]).returncode == USAGE
    assert optrace("merge", "-o", file).returncode == USAGE
    result = optrace("merge", *traces, "-o", tmp_path / "missing" / "job.trace")
    assert result.returncode == USAGE and "missing" in result.stderr

