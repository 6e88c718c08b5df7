"""The commands of examples/, as the beginning of each file has them."""
import os
import re
import shlex
import shutil
import subprocess

import pytest

from attach_target import SOON

DIFFERS = 1
# Commands in the comment or docstring at the beginning of an example.
COMMAND = re.compile(r"^(?:# )?    (\S.*)$", re.MULTILINE)


def commands_of(example):
    """The commands in the first comment or docstring of an example."""
    text = example.read_text()
    if example.suffix == ".py":
        text = text.split('"""')[1]
    else:
        text = "".join(line for line in text.splitlines(keepends=True) if line.startswith("#"))
    return COMMAND.findall(text)


@pytest.fixture
def examples(repository, tmp_path):
    """A copy of examples/, since they write files beside themselves."""
    return shutil.copytree(repository / "examples", tmp_path / "examples")


@pytest.fixture
def environment(build, optrace, python, tmp_path):
    """An environment in which `optrace` and `python` are those to test."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, command in (("optrace", optrace.command), ("python", [python, "-B"])):
        (folder / name).write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
        (folder / name).chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "OPTRACE_PYTHON": python,
            "PYTHONPATH": str(build / "python"), "COLUMNS": "200",
            "PYTEST_ADDOPTS": "-p optrace.pytest_plugin -p no:cacheprovider"}


@pytest.fixture
def run(examples, environment, run_program):
    """run(command) -> CompletedProcess of a command in the folder of the examples."""
    def run(command):
        return run_program(["bash", "-euc", command], cwd=examples, env=environment, timeout=300)
    return run


@pytest.fixture
def output(examples, run):
    """output(name) -> the output of an example's commands, which must succeed."""
    def output(name):
        commands = commands_of(examples / name)
        assert commands, f"{name} names no command"
        ended = run("\n".join(commands))
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout
    return output


def line_with(text, example):
    return next(number for number, line in enumerate(example.read_text().splitlines(), 1)
                if text in line)


def test_a_function(examples, output):
    found = output("library_calls.py")
    file = examples / "library_calls.py"
    assert f"line {line_with('torch.conv2d(', file)}: dnnl_primitive_execute" in found
    assert re.search(rf"line {line_with('@ matrix', file)}: \S+, 1 ×", found)


def test_pytest(output):
    assert "4 passed" in output("test_model.py")


def test_a_program_and_its_report(output):
    counted = re.findall(r"^ +(\d+)  (\S+)$", output("read_report.py"), re.MULTILINE)
    assert {("3", "aten::conv2d"), ("3", "aten::convolution_backward")} <= set(counted)


def test_rules(examples, output, run):
    assert "4 of 4 rules passed" in output("rules.yaml")
    # Makes the step break two of the rules.
    step = examples / "training_step.py"
    step.write_text(step.read_text().replace(".to(device)", ".to(device).double()")
                    .replace("device=device)\nlabels", "device=device).double()\nlabels"))
    trace, check = commands_of(examples / "rules.yaml")
    broken = run(f"{trace}\n{check}")
    assert broken.returncode == 1, broken.stdout + broken.stderr
    assert "failed  no kernel of dtype float64" in broken.stdout


def test_a_baseline(examples, output, run):
    assert "No difference." in output("compare_with_baseline.sh")
    step = examples / "training_step.py"
    step.write_text(step.read_text().replace("ReLU", "GELU"))
    changed = run("./compare_with_baseline.sh")
    assert changed.returncode == DIFFERS, changed.stdout + changed.stderr
    assert "activation.GELU" in changed.stdout


def test_a_dry_run(output):
    assert "4 of 4 rules passed" in output("dry_run.sh")


@pytest.mark.verify
def test_a_cluster(examples, environment, output, run, python, run_program):
    if run_program([python, "-c", "import ray"]).returncode != 0:
        pytest.skip(f"{python} has no ray; install it with `make setup`")
    environment.update(RAY_USAGE_STATS_ENABLED="0", RAY_ENABLE_UV_RUN_RUNTIME_ENV="0")
    assert "ranks       0, 1\n" in output("merge_with_ray.py")
    merged = run("optrace merge step.rank*.trace -o together.trace; cmp step.trace together.trace")
    assert merged.returncode == 0, merged.stdout + merged.stderr


def test_a_process_that_listens(examples, environment, run):
    command, = commands_of(examples / "listening_worker.py")
    with subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *shlex.split(command)], cwd=examples,
                          env=environment, stdout=subprocess.PIPE, text=True) as worker:
        try:
            ended = run(worker.stdout.readline())
            assert ended.returncode == 0, ended.stderr
            assert "aten::linear" in ended.stdout and worker.poll() is None
        finally:
            worker.kill()
            worker.wait(timeout=SOON)


def test_the_list_is_complete(examples):
    listed = set(re.findall(r"\| \[([^]]+)\]\(\1\)", (examples / "README.md").read_text()))
    assert listed == {file.name for file in examples.iterdir()} - {"README.md", "__pycache__"}
    assert all(commands_of(examples / name) for name in listed)
