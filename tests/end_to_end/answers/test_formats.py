"""`--format`: files that other programs open, read by those or by Python's own readers."""
import csv
import io
import json
import pathlib
import re
import shlex
import stat
import subprocess

import pytest

from kept_traces import PLACE, without_place

USAGE = 2


@pytest.fixture(scope="module")
def trace(optrace, python, tmp_path_factory):
    """A trace of conv2d forward and backward."""
    file = tmp_path_factory.mktemp("formats") / "conv2d.trace"
    result = optrace("conv2d", "--backward", "--python", python, "--trace", file)
    assert result.returncode == 0, result.stderr
    return file


@pytest.fixture
def rendered(optrace, trace):
    """rendered(format) -> the report of the trace in this format."""

    def run(name):
        result = optrace("report", trace, "--format", name)
        assert result.returncode == 0, result.stderr
        return result.stdout

    return run


def test_flame_graphs_have_the_same_stacks(rendered):
    folded = [line.rpartition(" ") for line in rendered("folded").splitlines()]
    assert any(stack.endswith("dnnl_primitive_execute") for stack, _, _ in folded)
    speedscope = json.loads(rendered("speedscope"))
    names = [frame["name"] for frame in speedscope["shared"]["frames"]]
    sampled = []
    for profile in speedscope["profiles"]:
        assert profile["type"] == "sampled" and profile["unit"] == "nanoseconds"
        assert profile["endValue"] == sum(profile["weights"])
        sampled += [(";".join(names[frame] for frame in sample), weight)
                    for sample, weight in zip(profile["samples"], profile["weights"])]
    assert sorted(sampled) == sorted((stack, int(weight)) for stack, _, weight in folded)


def test_the_ops_as_a_table(rendered):
    rows = list(csv.DictReader(io.StringIO(rendered("csv"))))
    by_op = {row["op"]: row for row in rows}
    assert by_op["aten::conv2d"]["calls"] == "1"
    assert by_op["aten::convolution_backward"]["calls"] == "1"
    own = [int(row["own_ns"]) for row in rows]
    assert own == sorted(own, reverse=True)
    assert all(int(row["own_ns"]) <= int(row["total_ns"]) for row in rows)


TRAINING = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    loss = model(torch.ones(4, 8)).sum()
    loss.backward()
    optimizer.step()
"""


def test_a_program_is_shown_on_a_screen_and_its_trace_is_kept(optrace, python, tmp_path):
    (tmp_path / "train.py").write_text(TRAINING)
    result = optrace("run", "--python", python, "train.py", cwd=tmp_path)
    assert (result.returncode, result.stdout) == (0, "")
    lines = without_place(result.stderr).splitlines()
    assert len(lines) <= 60 and result.stderr.count("\n") == len(lines) + 1
    assert any(re.fullmatch(r"recorded    \S+ m?s, [\d,]+ events; optrace's own process used "
                            r"\S+ m?s of processor time", line) for line in lines)
    # The model's line also has the time of the derivatives, which backward() computes.
    for place, op in (("train.py:6 ", "aten::linear"), ("train.py:6 ", "AddmmBackward0"),
                      ("train.py:7 ", "aten::ones_like"), ("train.py:8 ", "aten::add_")):
        assert any(f"  {place}<module>" in line and op in line for line in lines), (place, lines)
    assert any(" aten::addmm  sgemm_  float32 " in line for line in lines)
    assert any("BLAS/LAPACK  sgemm_" in line for line in lines)

    kept = pathlib.Path(PLACE.search(result.stderr)[2])
    assert kept.name == "train.trace" and stat.S_IMODE(kept.parent.stat().st_mode) == 0o700
    summary = optrace("report", kept).stdout.splitlines()
    assert summary == lines
    suggested, = [line for line in lines if line.startswith("try ")]
    tree = optrace(*shlex.split(suggested.split("optrace", 1)[1])[:6]).stdout
    op = suggested.split(" --under ")[1].split()[0]
    assert f"shown       --under {op}\n" in tree
    assert re.search(rf"^dispatcher  .*{re.escape(op)}  call", tree, re.MULTILINE)


def test_a_part_of_a_program_is_shown_in_every_format(optrace, python, tmp_path):
    (tmp_path / "train.py").write_text(TRAINING)
    made = optrace("run", "--python", python, "--trace", "t.trace", "train.py", cwd=tmp_path)
    assert made.returncode == 0 and "the trace is in" not in made.stderr

    def ops(*options):
        result = optrace("report", tmp_path / "t.trace", "--format", "csv", *options)
        assert result.returncode == 0, result.stderr
        rows = csv.DictReader(io.StringIO(result.stdout))
        return {row["op"]: int(row["total_ns"]) for row in rows}

    everything = ops()
    step = ops("--under", "train.py:8")
    assert "aten::add_.Tensor" in step and "aten::addmm" in everything.keys() - step
    assert ops("--under", "aten::linear") == ops("--ops", "linear")
    below = ops("--under", "aten::linear")
    # The derivative, which uses mm, is below the op.
    assert {"aten::linear", "aten::addmm", "aten::mm"} <= below.keys()
    assert {"aten::tanh", "aten::sum"} & everything.keys() and "aten::tanh" not in below
    assert below["aten::linear"] == everything["aten::linear"]
    assert below.keys() > ops("--under", "aten::linear", "--depth", 2).keys()
    assert ops("--min-time", "1000s") == {} and ops("--min-time", "1ns") == everything
    assert len(ops("--top", 3)) < len(everything)
    for name in ("text", "summary", "json", "folded", "speedscope", "dot", "mermaid"):
        part = optrace("report", tmp_path / "t.trace", "--format", name, "--under", "train.py:8")
        assert part.returncode == 0 and "lerp" not in part.stdout and "addmm" not in part.stdout
    for options, complaint in ((["--under", "train.py:99"], "nothing in the trace matches"),
                               (["--ops", "nosuch"], "nothing in the trace matches"),
                               (["--depth", "0"], "--depth"), (["--top", "many"], "--top"),
                               (["--min-time", "5"], "5 is not a time"),
                               (["--min-time", "99999999999999999999s"], "--min-time")):
        refused = optrace("report", tmp_path / "t.trace", *options)
        assert refused.returncode == USAGE and complaint in refused.stderr, refused.stderr
        assert refused.stdout == ""


def test_graphviz_draws_the_calls(rendered):
    drawn = subprocess.run(["dot", "-Tplain"], input=rendered("dot"), capture_output=True,
                           text=True, check=True)
    assert not drawn.stderr
    assert "dnnl_primitive_execute" in drawn.stdout
    nodes = [line for line in drawn.stdout.splitlines() if line.startswith("node ")]
    edges = [line for line in drawn.stdout.splitlines() if line.startswith("edge ")]
    mermaid = rendered("mermaid").splitlines()
    assert mermaid[0] == "flowchart TD"
    assert sum(":::" in line for line in mermaid) == len(nodes)
    assert sum("-->" in line for line in mermaid) == len(edges)


def test_an_unknown_format(optrace, trace):
    result = optrace("report", trace, "--format", "svg")
    assert result.returncode == USAGE
    assert "svg" in result.stderr and "speedscope" in result.stderr
