"""The file that --format html writes: its policy, and the data in it (docs/html-page.md)."""
import base64
import hashlib
import os
import re
import textwrap

import pytest

from page_data import column_texts, page_data

PROGRAM = """
import torch

weights = torch.ones(8, 8, requires_grad=True)
def step(x):
    return torch.nn.functional.relu(x @ weights).sum()
for turn in range(20):
    step(torch.ones(2, 8)).backward()
# Without oneDNN, which has no float64.
torch.conv2d(torch.ones(1, 2, 4, 4).double(), torch.ones(2, 2, 3, 3).double())
"""
PASSED, DIFFERS, USAGE = 0, 1, 2


@pytest.fixture(scope="module")
def program(optrace, python, tmp_path_factory):
    """The folder with train.py, and train.trace with a call of it."""
    folder = tmp_path_factory.mktemp("page")
    (folder / "train.py").write_text(textwrap.dedent(PROGRAM))
    traced = optrace("run", "--python", python, "--trace", "train.trace", "-o", os.devnull,
                     "train.py", cwd=folder)
    assert traced.returncode == PASSED, traced.stderr
    return folder


@pytest.fixture(scope="module")
def page(optrace, program, tmp_path_factory):
    """The page, with an empty cache: no source tree of torch is known."""
    result = optrace("report", "train.trace", "--format", "html", cwd=program,
                     environment={"XDG_CACHE_HOME": tmp_path_factory.mktemp("cache")})
    assert result.returncode == PASSED, result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def data(page):
    return page_data(page)


def test_the_policy_permits_nothing_but_the_page(page):
    """The hashes are computed here from the parts of the page, as a browser does."""
    policy, = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    style, = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    script, = re.findall(r'<script type="module">(.*?)</script>', page, re.DOTALL)
    style, script = (base64.b64encode(hashlib.sha256(part.encode()).digest()).decode()
                     for part in (style, script))
    assert policy == (f"default-src 'none'; script-src 'sha256-{script}'; "
                      f"style-src 'sha256-{style}'; base-uri 'none'; form-action 'none'")
    assert not re.search(r"<(link|img|iframe|object|embed|base)\b|\b(src|href|on\w+)=",
                         re.sub(r"<(style|script).*?</\1>", "", page, flags=re.DOTALL))


def test_frames(data):
    columns = data["frames"]
    rows = len(columns["up"])
    assert all(len(values) in (0, rows) for values in columns.values())
    assert all(up <= row for row, up in enumerate(columns["up"]))
    labels = column_texts(data, "label")
    nodes = [row for row, label in enumerate(labels) if label == "MmBackward0"]
    assert nodes and {data["layers"][columns["layer"][row]] for row in nodes} == {"autograd"}
    assert max(columns["calls"]) >= 20
    chosen = {text for label, text in zip(labels, column_texts(data, "choice"), strict=True)
              if label == "aten::mm"}
    assert any("CPU" in text for text in chosen), chosen
    own = {label for label, own in zip(labels, columns["own_code"], strict=True) if own}
    assert own == {"<module>", "step"}


def lines_at(data, column, row):
    """The numbered lines of a row's excerpt."""
    number = data["frames"][column][row]
    if number == 0:
        return {}
    excerpt = data["excerpts"][number - 1]
    return dict(enumerate(excerpt["lines"], excerpt["first"]))


def test_source(data):
    columns, labels = data["frames"], column_texts(data, "label")
    step = labels.index("step")
    assert lines_at(data, "excerpt", step)[columns["line"][step]] == "def step(x):"
    assert lines_at(data, "call_excerpt", step)[columns["call_line"][step]] == (
        "    step(torch.ones(2, 8)).backward()")
    relu = labels.index("relu")
    assert lines_at(data, "excerpt", relu)[columns["line"][relu]].startswith("def relu(")
    headers = {file for file, number in zip(column_texts(data, "file"), columns["excerpt"],
                                            strict=True) if number and file.endswith(".h")}
    assert headers, "the wheel has headers"


def test_summary_and_findings(data):
    ops = {op["op"]: op for op in data["summary"]["ops"]}
    assert ops["aten::mm"]["calls"] == 40  # Forward, and for the gradient of the weights.
    # As in native_functions.yaml and in REGISTER_DISPATCH of PyTorch's source.
    assert ops["aten::mm"]["work"] == "sgemm_"
    assert ops["aten::relu"]["work"] == "at::native::relu"
    assert ops["aten::clamp_min"]["work"] == "at::native::clamp_min_scalar_kernel_impl"
    slow, = data["findings"]
    assert slow["rule"] == "slow-kernel" and slow["line"] == 10
    assert "no convolution of float64" in slow["reason"] and 0 < slow["share"] < 1
    labels = column_texts(data, "label")
    assert "aten::_slow_conv2d_forward" in {labels[row] for row in slow["frames"]}
    facts = data["op_facts"]["aten::mm"]
    assert facts["schema"].startswith("mm(Tensor self, Tensor mat2)")
    assert {"arguments": ["self"], "formula": "mm_mat1_backward(grad, mat2, self.sym_sizes(), "
            "self.sym_strides(), self.layout(), 1)"} in facts["derivatives"][0]["formulas"]


def test_a_page_without_source(optrace, program):
    result = optrace("report", "train.trace", "--format", "html", "--no-source", cwd=program)
    assert result.returncode == PASSED, result.stderr
    data = page_data(result.stdout)
    assert data["excerpts"] == [] and "x @ weights" not in str(data)
    assert data["frames"]["line"] and not data["frames"]["excerpt"]


def test_a_program_that_changed_since_has_no_lines(optrace, program):
    (program / "train.py").write_text("# Another program.\n" * 20)
    data = page_data(optrace("report", "train.trace", "--format", "html", cwd=program).stdout)
    (program / "train.py").write_text(textwrap.dedent(PROGRAM))
    assert "Another program" not in str(data)
    assert not lines_at(data, "excerpt", column_texts(data, "label").index("step"))


def test_lines_of_an_indexed_source_tree(optrace, data, program, torch_folder, tmp_path):
    """The tree stands for one that `optrace source add` read: a folder in the cache names it."""
    tree, work = tmp_path / "pytorch", tmp_path / "cache/optrace/source/work"
    files = {file for file in column_texts(data, "file") if file.startswith("aten/src/ATen/native/")
             and file.endswith(".cpp")}
    for file in (*files, "aten/src/ATen/native/native_functions.yaml", "torchgen/gen.py",
                 "tools/setup_helpers/generate_code.py", "c10/core/TensorImpl.h"):
        (tree / file).parent.mkdir(parents=True, exist_ok=True)
        (tree / file).write_text("".join(f"line {line} of {file}\n" for line in range(1, 9000)))
    (tree / "version.txt").write_text("2.6.0\n")
    work.mkdir(parents=True)
    (work / "about").write_text(f"{tree}\n{torch_folder}\n")
    result = optrace("report", "train.trace", "--format", "html", cwd=program,
                     environment={"XDG_CACHE_HOME": tmp_path / "cache"})
    shown = page_data(result.stdout)
    rows = [row for row, file in enumerate(column_texts(shown, "file")) if file in files]
    assert rows
    for row in rows:
        line = shown["frames"]["line"][row]
        file = column_texts(shown, "file")[row]
        assert lines_at(shown, "excerpt", row)[line] == f"line {line} of {file}"
    assert not any(lines_at(data, "excerpt", row) for row in rows), "the wheel has no C++ files"


def test_a_part_of_a_report(optrace, program):
    result = optrace("report", "train.trace", "--format", "html", "--under", "aten::relu",
                     cwd=program)
    labels = set(column_texts(page_data(result.stdout), "label"))
    assert "aten::relu" in labels and "aten::mm" not in labels


def test_a_comparison(optrace, program):
    result = optrace("compare", "train.trace", "train.trace", "--format", "html", cwd=program)
    assert result.returncode == PASSED, result.stderr
    same = page_data(result.stdout)
    assert same["comparison"]["changes"] == [] and same["frames"]["side"] == []
    assert same["frames"]["calls"] == same["frames"]["calls_b"]
    result = optrace("compare", "train.trace", "relu", "--format", "html", "-o", "differs.html",
                     cwd=program)
    assert result.returncode == DIFFERS, result.stderr
    data = page_data((program / "differs.html").read_text(encoding="utf-8"))
    assert data["mode"] == "compare" and data["comparison"]["second"] == "relu"
    assert {1, 2} <= set(data["frames"]["side"])
    gone = [change for change in data["comparison"]["changes"] if change["kind"] == "vanished"]
    assert {data["frames"]["side"][change["row"]] for change in gone} == {1}


def test_a_page_is_not_written_among_messages(optrace, python, program):
    result = optrace("run", "--python", python, "--format", "html", "train.py", cwd=program)
    assert result.returncode == USAGE
    assert "-o FILE" in result.stderr and "<html" not in result.stderr
