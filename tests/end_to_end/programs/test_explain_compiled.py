"""`optrace explain --compiled`: its command line, and programs that fail. test_compile.py compares
its answers with reports."""
import json
import re
import textwrap

import pytest

PASSED = 0
WRONG_USAGE = 2
FAILED = 3
INTERRUPTED = 130

PROGRAM = """
import sys
import torch

@torch.compile(backend="eager")
def step(rows):
    hidden = rows + 1
    print("printed")
    return hidden * 2

step(torch.ones(2))
exec(sys.argv[1])
"""


@pytest.fixture
def program(tmp_path):
    file = tmp_path / "program.py"
    file.write_text(textwrap.dedent(PROGRAM))
    return file


@pytest.fixture
def explain(optrace, python):
    return lambda *arguments, **options: optrace(
        "explain", *arguments, environment={"OPTRACE_PYTHON": python}, **options)


def test_the_text_is_alone_on_standard_output(explain, program):
    result = explain("--compiled", program, "")
    assert result.returncode == PASSED, result.stderr
    assert result.stderr == "printed\n"
    text = result.stdout
    assert text.startswith(f"python {program} ''\n")
    assert re.search(r"^compiled    2 graphs in .*; graph breaks at 1 line$", text, re.MULTILINE)
    assert re.search(r"^0/0  step  program\.py:5\n  called at   program\.py:11$", text,
                     re.MULTILINE)
    assert re.search(r"^  breaks at   program\.py:8: .*print", text, re.MULTILINE)
    assert re.search(r"^1/0  torch_dynamo_resume_in_step_at_8  program\.py:8$", text, re.MULTILINE)
    assert "\n  continues   step after a graph break\n" in text
    assert "source" not in text and "warning" not in text and "\x1b" not in text


def test_a_program_that_fails(explain, program):
    result = explain("--compiled", "--format", "json", program, "raise ValueError('no')")
    assert result.returncode == FAILED
    assert "ValueError: no" in result.stderr
    answer = json.loads(result.stdout)
    assert answer["exit_status"] == 1
    assert [one["id"] for one in answer["compilations"]] == ["0/0", "1/0"]


@pytest.mark.parametrize("arguments, words", [
    (["-c", "print(1)"], ["the program never imported torch", "Give a program"]),
    (["-c", "import os; os.kill(os.getpid(), 9)"],
     ["the program failed (killed by SIGKILL", "before it imported torch"]),
    (["-m", "missing_module"], ["No module named missing_module",
                                "the program failed (exit status 1) before it imported torch"]),
    (["-c", "import os, torch; os._exit(0)"], ["what torch.compile did is unknown", "os._exit()"]),
    (["-c", "import subprocess, sys; subprocess.run([sys.executable, '-c', ''])"],
     ["never imported torch", "It started other processes"])])
def test_no_answer(explain, arguments, words):
    result = explain("--compiled", *arguments)
    assert result.returncode == FAILED and result.stdout == ""
    for word in words:
        assert word in result.stderr


def test_nothing_compiled(explain):
    result = explain("--compiled", "-c", "import torch; print(torch.ones(1).tolist())")
    assert result.returncode == PASSED
    assert result.stdout.endswith("\n\ntorch.compile compiled nothing.\n")
    assert result.stderr == "[1.0]\n"


@pytest.mark.parametrize("arguments, words", [
    (["--compiled"], ["no program given", "optrace explain --compiled train.py"]),
    (["--compiled", "-m"], ["-m needs a module"]),
    (["--compiled", "missing.py"], ["no such file: missing.py"]),
    (["train.py", "--compiled"], ["--compiled comes before the program"]),
    (["--compiled", "--device", "cpu", "-c", ""], ["--device is for ops"]),
    (["--all", "--compiled", "-c", ""], ["--all is for ops"]),
    (["--compiled", "--dry-run=sm_1", "-c", ""], ["no GPU model sm_1"]),
    (["--dry-run", "conv2d"], ["--dry-run is for programs"]),
    (["--compiled", "-o", "/no/such/folder/x", "-c", ""], ["/no/such/folder"])])
def test_wrong_usage(explain, arguments, words):
    result = explain(*arguments)
    assert result.returncode == WRONG_USAGE and result.stdout == ""
    assert result.stderr.startswith("optrace: ") and len(result.stderr.splitlines()) > 1
    for word in words:
        assert word in result.stderr


def test_ctrl_c_ends_the_program_and_gives_the_answer(start_optrace, press_ctrl_c, python, program,
                                                      tmp_path):
    begun = tmp_path / "begun"
    explaining = start_optrace(
        "explain", "--compiled", "--python", python, program,
        f"import pathlib, time; pathlib.Path({str(begun)!r}).touch(); time.sleep(600)")
    text, errors = press_ctrl_c(explaining, begun)
    assert explaining.returncode == INTERRUPTED, errors
    assert "KeyboardInterrupt" in errors and "optrace: " not in errors
    assert "The program failed with exit status 130." in text and "0/0  step" in text


def test_a_dry_run_has_the_kernels_of_the_gpu(optrace, python, tmp_path, validate):
    program = tmp_path / "relu.py"
    program.write_text("import torch\n"
                       "relu = torch.compile(lambda rows: torch.relu(rows + 1))\n"
                       "relu(torch.ones(8, device='cuda'))\n")
    result = optrace("explain", "--compiled", "--dry-run=sm_80", "--python", python, "--format",
                     "json", program, timeout=400,
                     environment={"TORCHINDUCTOR_CACHE_DIR": tmp_path / "inductor"})
    assert result.returncode == PASSED, result.stderr
    answer = json.loads(result.stdout)
    validate(answer, "compiled")
    assert answer["device"] == "cuda" and answer["dry_run"]["arch"] == "sm_80"
    compiled, = answer["compilations"]
    kernel, = compiled["kernels"]
    assert kernel["name"] == "triton_poi_fused_add_relu_0"
    assert [(origin["op"], origin["line"]) for origin in kernel["origins"]] == [
        ("aten::add.Tensor", 2), ("aten::relu", 2)]
    with open(kernel["source"]["file"]) as source:
        line = source.read().splitlines()[kernel["source"]["line"] - 1]
    assert line.startswith(f"{kernel['name']} = ")
