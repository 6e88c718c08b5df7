"""Ops of TorchScript, exported programs and function transforms have the user's lines."""
import json
import textwrap

import pytest

from report_frames import frames_with_way

PROGRAM = """
import io
import torch

@torch.jit.script
def scripted(x):
    y = torch.relu(x)  # aten::relu
    return y @ x  # aten::matmul

def sigmoid(x):
    return torch.sigmoid(x)  # aten::sigmoid

class Module(torch.nn.Module):
    def forward(self, x):
        y = torch.cos(x)  # aten::cos
        return torch.atan(y)  # aten::atan

class Saved(torch.nn.Module):
    def forward(self, x):
        return torch.tanh(x)  # aten::tanh

def of_a_transform(x):
    y = torch.sin(x)  # aten::sin
    return y.prod()  # aten::prod

x = torch.ones(4, 4)
traced = torch.jit.trace(sigmoid, x)
exported = torch.export.export(Module(), (x,)).module()
buffer = io.BytesIO()
torch.jit.save(torch.jit.script(Saved()), buffer)
buffer.seek(0)
loaded = torch.jit.load(buffer)
for _ in range(3):
    scripted(x), traced(x), exported(x), loaded(x)
torch.func.grad(of_a_transform)(x)
print(torch.func.vmap(torch.exp)(x).sum().item())
"""


def lines_of(program):
    return {line.partition("# ")[2]: number for number, line in
            enumerate(program.read_text().splitlines(), 1) if "# aten::" in line}


def calls_of_ops(report):
    """Yields each call of an op with its path: the frames that lead to it, and it."""
    return ((*way, frame) for frame, way in frames_with_way(report)
            if (frame["detail"] or {}).get("step") == "call")


def is_called_at(path, program, line):
    """True if a function of the program calls the op, or what leads to it, at the line."""
    return any(caller["source"]["file"] == str(program) and called["source"]["call_line"] == line
               for caller, called in zip(path, path[1:]) if caller["source"] and called["source"])


@pytest.mark.parametrize("which", ["reference", "newest"])
def test_lines(optrace, request, tmp_path, which):
    python = request.getfixturevalue("python" if which == "reference" else "newest_python")
    program, report = tmp_path / "front_ends.py", tmp_path / "report.json"
    program.write_text(textwrap.dedent(PROGRAM))
    result = optrace("run", "--python", python, "--format", "json", "-o", report, program,
                     timeout=300)
    assert result.returncode == 0, result.stderr
    assert float(result.stdout) == pytest.approx(16 * 2.718281828)
    lines, found = lines_of(program), {}
    for path in calls_of_ops(json.loads(report.read_text())):
        op = path[-1]["op"]
        places = {(origin["file"], origin["line"]) for frame in path
                  for origin in (frame["detail"] or {}).get("origins", [])}
        if op in lines and places:
            assert places == {(str(program), lines[op])}, op
            found.setdefault(op, set()).add("origin")
        if op in lines and is_called_at(path, program, lines[op]):
            found.setdefault(op, set()).add("frame")
    # Tracing calls functions of the program as Python does, and so does exporting in some versions.
    for op in ("aten::cos", "aten::atan"):
        found[op].discard("frame")
    assert found == {"aten::relu": {"origin"}, "aten::matmul": {"origin"},
                     "aten::sigmoid": {"origin", "frame"}, "aten::cos": {"origin"},
                     "aten::atan": {"origin"}, "aten::tanh": {"origin"}, "aten::sin": {"frame"},
                     "aten::prod": {"frame"}}
