"""What a trace tells of torch.compile's work, and that this work is the same as without optrace."""
import json
import os
import shutil
import textwrap

import pytest

PROGRAM = """
import json
import sys

import torch
from torch._dynamo.utils import counters

@torch.compile(backend=sys.argv[1], dynamic=False)
def step(rows, weights):
    hidden = torch.relu(rows @ weights)
    torch._dynamo.graph_break()
    return torch.softmax(hidden + 1, -1).sum()

weights = torch.ones(8, 8, requires_grad=True)
for rows in (4, 4, 2):
    step(torch.ones(rows, 8), weights).backward()
print(json.dumps({name: counts for name, counts in counters.items()}))
print(weights.grad.tolist())
"""
LINE = {"step": 8, "break": 11}  # From 1, with the empty first line.
PASSED = 0


def run(command, program, backend, **options):
    """Runs the program with an empty cache. Returns the result, and the generated code by name."""
    cache = program.parent / "inductor"  # Generated code contains this path.
    result = command(program, backend, environment={"TORCHINDUCTOR_CACHE_DIR": cache},
                     timeout=400, **options)
    assert result.returncode == PASSED, result.stderr
    generated = {path.name: path.read_text() for path in cache.rglob("*.cpp")}
    generated |= {path.name: path.read_text() for path in cache.rglob("*.py")}
    shutil.rmtree(cache, ignore_errors=True)
    return result, generated


@pytest.fixture
def program(tmp_path):
    file = tmp_path / "compiled.py"
    file.write_text(textwrap.dedent(PROGRAM))
    return file


def traced(optrace, python, program, backend):
    report = program.with_suffix(".json")

    def command(*arguments, **options):
        return optrace("run", "--python", python, "--format", "json", "-o", report, *arguments,
                       **options)

    result, generated = run(command, program, backend)
    return result, generated, json.loads(report.read_text())


def assert_told(report, program):
    found = report["compilations"]
    assert [(one["id"], one["function"]) for one in found] == [
        ("0/0", "step"), ("1/0", f"torch_dynamo_resume_in_step_at_{LINE['break']}"),
        ("0/1", "step"), ("1/1", f"torch_dynamo_resume_in_step_at_{LINE['break']}")]
    assert {one["file"] for one in found} == {str(program)}
    assert [one["line"] for one in found[::2]] == [LINE["step"]] * 2
    for first, again in (found[0::2], found[1::2]):
        assert first["recompile_reasons"] == []
        assert "expected 4, actual 2" in again["recompile_reasons"][0]
    for one in found[::2]:
        broken, = one["breaks"]
        assert (broken["file"], broken["line"]) == (str(program), LINE["break"])
        assert "graph_break" in broken["reason"]
    for one in found:
        assert one["time"] > one["backend_time"] > 0 and one["graph_ops"] >= 2


def test_with_inductor(optrace, python, run_program, program):
    """The same graphs, breaks, cached and generated code, and results as untraced."""

    def untraced(*arguments, environment, **options):
        variables = {name: str(value) for name, value in environment.items()}
        return run_program([python, *map(str, arguments)], env={**os.environ, **variables},
                           **options)

    alone, code_alone = run(untraced, program, "inductor")
    result, code, report = traced(optrace, python, program, "inductor")
    assert result.stdout == alone.stdout
    assert code == code_alone and any("kernel" in text for text in code.values())
    assert_told(report, program)
    assert {one["cache"] for one in report["compilations"]} == {"miss"}
    for one in report["compilations"]:
        assert one["backend_time"] > one["inductor_time"] > one["code_generation_time"] > 0
        assert one["backward"]["inductor_time"] > 0


def test_the_newest_torch(optrace, newest_python, program):
    _, _, report = traced(optrace, newest_python, program, "aot_eager")
    assert_told(report, program)


def test_findings_have_the_reasons(optrace, python, program):
    trace = program.with_suffix(".trace")
    result = optrace("run", "--python", python, "--trace", trace, program, "eager", timeout=400)
    assert "compiled    4 graphs in " in result.stderr
    assert "; 2 again, for a failed guard; graph breaks at 1 line\n" in result.stderr
    text = optrace("findings", trace).stdout
    assert "breaks the graph of torch.compile here: " in text
    assert "graph_break" in text

