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
for rows in map(int, sys.argv[2:]):
    step(torch.ones(rows, 8), weights).backward()
print(json.dumps({name: counts for name, counts in counters.items()}))
print(weights.grad.tolist())
"""
LINE = {"step": 8, "break": 11}  # From 1, with the empty first line.
PASSED = 0


def run(command, program, backend, *sizes, **options):
    """Runs the program with an empty cache. Returns the result, and the generated code by name."""
    cache = program.parent / "inductor"  # Generated code contains this path.
    result = command(program, backend, *sizes, environment={"TORCHINDUCTOR_CACHE_DIR": cache},
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


def traced(optrace, python, program, backend, *sizes):
    report = program.with_suffix(".json")

    def command(*arguments, **options):
        return optrace("run", "--python", python, "--format", "json", "-o", report, *arguments,
                       **options)

    result, generated = run(command, program, backend, *sizes)
    return result, generated, json.loads(report.read_text())


def frames_of(report):
    pending = list(report["roots"])
    while pending:
        frame = pending.pop()
        yield frame
        pending += frame["children"]


def assert_told(report, program, sizes):
    found = report["compilations"]
    assert [(one["id"], one["function"]) for one in found] == [
        (f"{function}/{size}", name) for size in range(sizes) for function, name in enumerate(
            ["step", f"torch_dynamo_resume_in_step_at_{LINE['break']}"])]
    assert {one["file"] for one in found} == {str(program)}
    assert {one["line"] for one in found[::2]} == {LINE["step"]}
    assert [one["recompile_reasons"] for one in found[:2]] == [[], []]
    assert all("expected 4, actual 2" in one["recompile_reasons"][0] for one in found[2:])
    for one in found[::2]:
        broken, = one["breaks"]
        assert (broken["file"], broken["line"]) == (str(program), LINE["break"])
        assert "graph_break" in broken["reason"]
    for one in found:
        assert one["time"] > one["backend_time"] > 0 and one["graph_ops"] >= 2
        assert one["called_from"]["file"] == str(program)
    # What happens inside of a compilation is left out.
    compiling = [frame for frame in frames_of(report) if frame["layer"] == "compiler"]
    assert not any(frame["children"] for frame in compiling)
    told = [one for frame in compiling for one in (frame["detail"] or {}).get("compilations", [])]
    assert sorted(told) == sorted(one["id"] for one in found)


def test_with_inductor(optrace, python, run_program, program):
    """The same graphs, breaks, cached and generated code, and results as untraced."""

    def untraced(*arguments, environment, **options):
        variables = {name: str(value) for name, value in environment.items()}
        return run_program([python, *map(str, arguments)], env={**os.environ, **variables},
                           **options)

    alone, code_alone = run(untraced, program, "inductor", 4)
    result, code, report = traced(optrace, python, program, "inductor", 4)
    assert result.stdout == alone.stdout
    assert code == code_alone and any("kernel" in text for text in code.values())
    assert_told(report, program, 1)
    assert {one["cache"] for one in report["compilations"]} == {"miss"}
    for one in report["compilations"]:
        assert one["backend_time"] > one["inductor_time"] > one["code_generation_time"] > 0
        assert one["backward"]["inductor_time"] > 0
    # Kernels have the names by which generated code calls them, and come from lines of the program.
    kernels = {(frame["name"], frame["detail"]["origins"][0]["line"])
               for frame in frames_of(report)
               if frame["layer"] == "kernel" and "origins" in (frame["detail"] or {})}
    assert any("relu" in name and line == LINE["break"] - 1 for name, line in kernels)
    assert any("softmax" in name and line == LINE["break"] + 1 for name, line in kernels)
    assert all(f"{name} = " in "".join(code.values()) for name, _ in kernels)


def test_the_newest_torch(optrace, newest_python, program):
    _, _, report = traced(optrace, newest_python, program, "aot_eager", 4, 4, 2)
    assert_told(report, program, 2)


def test_findings_have_the_reasons(optrace, python, program):
    trace = program.with_suffix(".trace")
    result = optrace("run", "--python", python, "--trace", trace, program, "eager", 4, 4, 2,
                     timeout=400)
    assert "compiled    4 graphs in " in result.stderr
    assert "; 2 again, for a failed guard; graph breaks at 1 line\n" in result.stderr
    text = optrace("findings", trace).stdout
    assert "breaks the graph of torch.compile here: " in text
    assert "graph_break" in text

