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
