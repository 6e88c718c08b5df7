"""The kinds of graph breaks and recompilations, with the program's lines and the guards."""
import json
import re
import textwrap

import pytest

PROGRAM = """
import torch

@torch.compiler.disable
def not_compiled(x):
    return x + 1

class Held:
    number = 1

held = Held()

def compiled(function):
    return torch.compile(function, backend="eager", dynamic=False)

@compiled
def with_breaks(x):
    x = x + 1
    print("in Python")  # break: print|builtin
    x = x * 2
    torch._dynamo.graph_break()  # break: graph_break
    x = x - 1
    if x.sum() > 0:  # break: [Dd]ata.dependent|generic_jump
        x = x + 2
    x = not_compiled(x)  # break: disable|skip
    x = x.relu()
    number = x.sum().item()  # break: item|scalar
    return x * number

@compiled
def of_shape(x):  # guard: size mismatch|expected 4
    return x + 1

@compiled
def of_dtype(x):  # guard: dtype
    return x + 1

@compiled
def of_gradient(x):  # guard: requires_grad
    return x + 1

@compiled
def of_value(x, number):  # guard: number
    return x + number

@compiled
def of_attribute(x):  # guard: held
    return x + held.number

@compiled
def too_often(x, number):  # guard: number
    return x + number

x = torch.ones(4)
with_breaks(x)
for number in range(2, 12):
    too_often(x, number)
for function, other in [(of_shape, torch.ones(3)), (of_dtype, x.double()),
                        (of_gradient, torch.ones(4, requires_grad=True))]:
    function(x)
    function(other)
of_value(x, True)
of_value(x, False)
of_attribute(x)
held.number = 2
of_attribute(x)
"""


def marked(program, kind):
    """Returns the lines that are marked with this kind of event, and the words to expect."""
    marks = {}
    for number, line in enumerate(program.read_text().splitlines(), 1):
        if found := re.search(f"# {kind}: (.+)", line):
            marks[number] = found.group(1)
    return marks


@pytest.mark.parametrize("which", ["python", "newest_python"])
def test_kinds(optrace, request, tmp_path, which):
    program, trace = tmp_path / "kinds.py", tmp_path / "kinds.trace"
    program.write_text(textwrap.dedent(PROGRAM))
    result = optrace("run", "--python", request.getfixturevalue(which), "--trace", trace, program,
                     timeout=300)
    assert result.returncode == 0 and result.stdout == "in Python\n", result.stderr
    report = json.loads(optrace("report", trace, "--format", "json").stdout)

    breaks = {broken["line"]: broken["reason"] for one in report["compilations"]
              for broken in one["breaks"] if broken["file"] == str(program)}
    expected = marked(program, "break")
    assert breaks.keys() == expected.keys()
    for line, words in expected.items():
        assert re.search(words, breaks[line]), breaks[line]

    # The line of a function is that of its first decorator.
    again = {one["line"] + 1: one["recompile_reasons"][0] for one in report["compilations"]
             if one["recompile_reasons"]}
    expected = marked(program, "guard")
    assert again.keys() == expected.keys()
    for line, words in expected.items():
        assert re.search(words, again[line]), again[line]

    # PyTorch's limit is 8 compilations of a function.
    last = [one for one in report["compilations"] if one["function"] == "too_often"][-1]
    assert [one for one in report["compilations"] if "recompile_limit" in one] == [last]
    assert last["id"].endswith("/7")
    assert "PyTorch reached its limit of recompilations, after compiling it 8 times" in optrace(
        "findings", trace).stdout

    rules = ["--expect", "no graph break", "--expect", "recompiles <= 11"]
    refused = optrace("check", trace, *rules)
    assert refused.returncode == 1, refused.stdout + refused.stderr
    # A later version starts another process, in which there may be more.
    undecided = any(one["kind"] == "untraced_children" for one in report["shortfalls"])
    assert optrace("check", trace, "--expect", "recompiles <= 12").returncode == 2 * undecided
