"""File names on a terminal are links (OSC 8) that open an editor, or GitHub at the exact commit."""
import os
import re
import subprocess

import pytest

from terminal import Terminal

PASSED, USAGE = 0, 2


@pytest.fixture(scope="module")
def conv2d(op_trace):
    """The trace of an op."""
    return op_trace("conv2d")


LINK = re.compile(r"\x1b]8;;([^\x1b]*)\x1b\\(.*?)\x1b]8;;\x1b\\")


def links(optrace, *arguments, **environment):
    """The links of an answer on a terminal: text -> URL."""
    command = [*optrace.command, *arguments, "--no-pager"]
    with Terminal(command, environment, size=(500, 200)) as terminal:
        terminal.wait_for_end()
        text = re.sub(r"\x1b\[[0-9;]*m", "", terminal.output.decode())
        return {shown: url for url, shown in LINK.findall(text)}


def test_file_names_are_links(optrace, conv2d, torch_folder, tmp_path):
    vscode = ("--hyperlink-format", "vscode")
    found = links(optrace, "report", conv2d, *vscode)
    forward = f"{torch_folder}/nn/modules/conv.py"
    assert found["torch/nn/modules/conv.py:553"] == f"vscode://file{forward}:553:1"
    assert found["called at :549"] == f"vscode://file{forward}:549:16"
    native = [url for shown, url in found.items() if shown.startswith("aten/src/ATen/native/Conv")]
    upstream = r"https://github\.com/pytorch/pytorch/blob/[0-9a-f]{40}/aten/src/ATen/native/\S+#L\d+"
    assert native and all(re.fullmatch(upstream, url) for url in native)
    generated = [url for shown, url in found.items()
                 if shown.startswith("build/aten/src/ATen/ops/")]
    headers = f"vscode://file{torch_folder}/include/ATen/ops/"
    assert generated and all(url.startswith(headers) for url in generated)
    assert links(optrace, "report", conv2d, "--hyperlink-format", "none") == {}
    assert links(optrace, "report", conv2d, "--colour", "never") == {}
    custom = links(optrace, "report", conv2d, OPTRACE_HYPERLINK_FORMAT="my-app:{line}@{path}")
    assert custom["torch/nn/modules/conv.py:553"] == f"my-app:553@{forward}"
    usual = links(optrace, "report", conv2d)["torch/nn/modules/conv.py:553"]
    assert usual == f"file://{os.uname().nodename}{forward}"

    assert links(optrace, "locate", "nn.Linear", *vscode)[
        "torch/nn/modules/linear.py:50"].startswith("vscode://file/")
    explained = links(optrace, "explain", "conv2d", *vscode)
    yaml = [url for shown, url in explained.items() if "native_functions.yaml" in shown]
    assert yaml and "github.com" in yaml[0]
    assert any("github.com" in url for url in links(optrace, "layers", *vscode).values())
    failed = links(optrace, "check", conv2d, "--expect", "ops <= 0", *vscode)
    assert failed["torch/nn/modules/conv.py:549"].startswith("vscode://file/")

    program = tmp_path / "a b.py"
    program.write_text("import torch\n"
                       "image, weight = torch.ones(2, 6, 6, 6), torch.ones(2, 6, 3, 3)\n"
                       "image, weight = image.double(), weight.double()\n"
                       "torch.nn.functional.conv2d(image, weight)  # A slow kernel.\n")
    traced = tmp_path / "program.trace"
    assert optrace("run", "--trace", traced, "-o", os.devnull, program).returncode == PASSED
    url = f"vscode://file{tmp_path}/a%20b.py:4:1"
    assert links(optrace, "report", traced, *vscode)["a b.py:4"] == url
    assert url in links(optrace, "findings", traced, *vscode).values()


def test_a_wrong_link_format_is_refused(optrace, conv2d):
    for wrong, reason in (("vim", "lacks the variable {path}"), ("{path}", "scheme"),
                          ("file://{path}{x}", "no variable 'x'")):
        refused = optrace("report", conv2d, "--hyperlink-format", wrong)
        assert refused.returncode == USAGE and reason in refused.stderr, refused.stderr
        assert "vscode-insiders" in refused.stderr
    refused = optrace("locate", "nn.Linear", environment={"OPTRACE_HYPERLINK_FORMAT": "vim"})
    assert refused.returncode == USAGE and "not a hyperlink format" in refused.stderr
    piped = subprocess.run([*optrace.command, "report", conv2d, "--colour", "always"],
                           capture_output=True, text=True)
    assert "\x1b[" in piped.stdout and "\x1b]8" not in piped.stdout
