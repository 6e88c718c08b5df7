"""`--format`: files that other programs open, read by those or by Python's own readers."""
import csv
import io
import json
import subprocess

import pytest

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


def test_a_summary_fits_on_a_screen(optrace, python, tmp_path):
    (tmp_path / "train.py").write_text(TRAINING)
    result = optrace("run", "--python", python, "--format", "summary", "-o", "summary.txt",
                     "train.py", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    lines = (tmp_path / "summary.txt").read_text().splitlines()
    assert len(lines) <= 60
    # The model's line also has the time of the derivatives, which backward() computes.
    for place, op in (("train.py:6 ", "aten::linear"), ("train.py:6 ", "AddmmBackward0"),
                      ("train.py:7 ", "aten::ones_like"), ("train.py:8 ", "aten::add_")):
        assert any(f"  {place}<module>" in line and op in line for line in lines), (place, lines)
    assert any(" aten::addmm  sgemm_  float32 " in line for line in lines)
    assert any("BLAS/LAPACK  sgemm_" in line for line in lines)


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
