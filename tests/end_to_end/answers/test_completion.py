"""Command lines are completed by the real shells, and the man page is one that man shows."""
import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from terminal import Terminal

# Words of a command line without the program's name, the last one being typed -> words that must be
# among the candidates, words that must not.
CASES = {
    ("conv",): ({"conv2d", "conv_transpose1d"}, {"nn.Conv2d"}),
    ("nn.Conv",): ({"nn.Conv2d", "nn.ConvTranspose3d"}, {"conv2d"}),
    ("F.relu",): ({"F.relu", "F.relu6"}, set()),
    ("torch.nn.functional.conv2",): ({"torch.nn.functional.conv2d"}, set()),
    ("re",): ({"report", "relu"}, {"real_"}),
    ("explain", "at"): ({"atan", "aten::"}, {"attach"}),
    ("explain", "aten::conv2"): ({"aten::conv2d", "aten::conv2d.padding"}, set()),
    ("locate", "Tensor.add"): ({"Tensor.add_"}, set()),
    ("report", "--form"): ({"--format"}, set()),
    ("report", "--format", "s"): ({"summary", "speedscope", "sqlite"}, {"json"}),
    ("report", "--format=j"): ({"--format=json"}, set()),
    ("conv2d", "--device", ""): ({"cpu", "cuda"}, {"conv2d", "mps"}),
    ("explain", "conv2d", "--device", "m"): ({"mps", "meta"}, {"cpu"}),
    ("explain", "conv2d", "--why-not", "c"): ({"cudnn", "cublas"}, {"conv2d"}),
    ("explain", "conv2d", "--why-not", "cudnn", "--call", "conv2"): ({"conv2d"}, {"cudnn"}),
    ("conv2d", "--dry-run=rtx-40"): ({"--dry-run=rtx-4090"}, set()),
    ("conv2d", "--hyperlink-format", "vs"): ({"vscode", "vscodium"}, set()),
    ("source", ""): ({"add", "fetch", "list", "coverage"}, {"report"}),
    ("report", "first.tr"): ({"first.trace"}, set()),
    ("conv2d", "-o", "first"): ({"first.trace"}, set()),
    ("run", "first"): ({"first.trace"}, set()),
    ("explain", "--compiled", "first"): ({"first.trace"}, set()),
    ("completions", ""): ({"bash", "zsh", "fish"}, set()),
}


@pytest.fixture(scope="module", params=["compiled", "wheel"])
def place(request, tmp_path_factory, optrace):
    """A folder with files, and the environment of a shell that finds optrace.

    The command is the compiled program, or the script of a wheel, which must not be started.
    """
    folder = tmp_path_factory.mktemp("completion")
    program = pathlib.Path(optrace.command[0]).absolute()
    (folder / "first.trace").touch()
    (folder / "second one.trace").touch()
    (folder / "bin").mkdir()
    if request.param == "compiled":
        (folder / "bin/optrace").symlink_to(program)
    else:
        script = folder / "bin/optrace"
        script.write_text(f"#!/bin/sh\n[ $1 != __complete ] && exec '{program}' \"$@\"\n")
        script.chmod(0o755)
        (folder / "bin/python").symlink_to(os.environ.get("OPTRACE_TEST_PYTHON", sys.executable))
        package = folder / "lib/python3.11/site-packages/optrace/bin"
        package.mkdir(parents=True)
        (package / "optrace").symlink_to(program)
    variables = {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
                 "HOME": str(folder)}
    return folder, variables


# test_bash runs in both by `make test`.
IN_BOTH_PLACES = pytest.mark.parametrize("place", [
    "compiled", pytest.param("wheel", marks=pytest.mark.verify)], indirect=True)


def shell(program):
    if not shutil.which(program):
        pytest.skip(f"cannot run here: {program} is not installed")
    return program


def completed(place, arguments):
    folder, variables = place
    return subprocess.run(arguments, cwd=folder, env=variables, check=True, timeout=600,
                          capture_output=True, text=True).stdout


def check_cases(results):
    for words, (expected, unexpected) in CASES.items():
        found = set(results[words])
        assert expected <= found and not unexpected & found, (words, sorted(found)[:20])


def test_bash(place):
    """Bash splits words at = and :, and replaces only what is behind them."""
    program = shell("bash")
    pieces: dict[tuple[str, ...], list[str]] = {
        ("explain", "aten::conv2"): ["explain", "aten", "::", "conv2"],
        ("report", "--format=j"): ["report", "--format", "=", "j"],
        ("conv2d", "--dry-run=rtx-40"): ["conv2d", "--dry-run", "=", "rtx-40"]}
    script = ["source <(optrace completions bash)"]
    for words in CASES:
        split = pieces.get(words, words)
        quoted = " ".join(f"'{word}'" for word in split)
        script += [f"COMP_WORDS=(optrace {quoted}) COMP_CWORD={len(split)}", "_optrace 2>/dev/null",
                   "printf '%s\\n' \"${COMPREPLY[@]}\" ---"]
    answers = completed(place, [program, "--norc", "-c", "\n".join(script)]).split("---\n")
    results = {}
    for words, answer in zip(CASES, answers):
        kept = words[-1][:-len(pieces[words][-1])] if words in pieces else ""
        results[words] = [kept + word for word in answer.splitlines()]
    check_cases(results)


@IN_BOTH_PLACES
def test_fish(place):
    program = shell("fish")
    script = ["optrace completions fish | source"]
    for words in CASES:
        script += [f"complete -C 'optrace {' '.join(words)}'", "echo ---"]
    answers = completed(place, [program, "--no-config", "-c", "\n".join(script)]).split("---\n")
    check_cases({words: [line.split("\t")[0] for line in answer.splitlines()]
                 for words, answer in zip(CASES, answers)})


@IN_BOTH_PLACES
def test_zsh_as_its_user_sees_it(place):
    program = shell("zsh")
    folder, variables = place
    with Terminal([program, "-f"], variables, size=(40, 120)) as terminal:
        terminal.type(f"cd {folder}; PS1='> '; bindkey -e; autoload -Uz compinit; compinit -u -D; "
                      "source <(optrace completions zsh); clear; echo rea''dy\n")
        terminal.wait_for("ready\n>")

        def type_and_see(keys, expected):
            terminal.type(keys)
            terminal.wait_for(expected)
            terminal.type("\x15clear\n")
            terminal.wait_for(lambda it: it.lines[0] == ">")

        type_and_see("optrace nn.Conv2\t", "> optrace nn.Conv2d")
        type_and_see("optrace explain aten::conv2d.p\t", "> optrace explain aten::conv2d.padding")
        type_and_see("optrace report --format=js\t", "> optrace report --format=json")
        type_and_see("optrace report --format spe\t", "> optrace report --format speedscope")
        type_and_see("optrace report fir\t", "> optrace report first.trace")
        type_and_see("optrace report sec\t", "> optrace report second\\ one.trace")
        type_and_see("optrace add --dry-run=rtx-4090-\t", "> optrace add --dry-run=rtx-4090-d")
        type_and_see("optrace rep\t", "report  -- Render a saved trace")
        type_and_see("optrace source \t", "coverage  -- Show how complete an index is")


def test_a_process_to_attach_to_is_offered(optrace, python):
    with subprocess.Popen([python, "-c", "input()"], stdin=subprocess.PIPE) as process:
        lines = optrace("__complete", "attach", "").stdout.splitlines()
        process.communicate(b"\n")
    offered = dict(line.split("\t") for line in lines)
    assert str(process.pid) in offered and "-c input()" in offered[str(process.pid)]


def test_completion_starts_no_python_and_does_without_an_index(optrace, build, run_program,
                                                               marked_python, tmp_path):
    program, mark = marked_python
    for words in (("conv",), ("nn.Co",), ("explain", "at"), ("locate", "torch.linalg.s"), ("re",)):
        offered = optrace("__complete", *words, environment={"OPTRACE_PYTHON": program})
        assert (offered.returncode, offered.stderr) == (0, "") and offered.stdout
    assert "report\t" in offered.stdout
    assert not mark.exists()
    nowhere = {"OPTRACE_PYTHON": "/nowhere", "PATH": "/nowhere"}
    # An installation without an index, which has the names of ops.
    (tmp_path / "share/optrace").mkdir(parents=True)
    for entry in (build / "share/optrace").iterdir():
        if entry.name != "indexes":
            (tmp_path / "share/optrace" / entry.name).symlink_to(entry)
    (tmp_path / "lib").symlink_to(build / "lib")
    bare = shutil.copy(optrace.command[0], tmp_path / "optrace")
    without = run_program([bare, "__complete", "re"], env={
        **os.environ, **nowhere, "OPTRACE_INDEX_DIR": "/nowhere"})
    assert (without.returncode, without.stderr) == (0, "") and "report\t" in without.stdout
    odd = optrace("__complete", "report", "--nonsense", "x\x1b", "", "--")
    assert odd.returncode == 0 and not odd.stderr


def test_no_command_has_the_name_of_an_op(optrace):
    commands = {one["name"] for one in json.loads(optrace("__describe").stdout)["commands"]}
    assert {"report", "completions"} <= commands
    plain = optrace("__complete", "explain", "c").stdout.splitlines()
    assert "cat" in plain
    for command in commands:
        assert command not in optrace("__complete", "explain", command).stdout.splitlines()


def test_the_man_page(build, optrace):
    page = build / "share/man/man1/optrace.1"
    lint = subprocess.run([shell("mandoc"), "-T", "lint", page], capture_output=True, text=True)
    assert (lint.returncode, lint.stdout) == (0, "")
    shown = subprocess.run(["man", "-l", page], capture_output=True, text=True, check=True,
                           env={**os.environ, "MANWIDTH": "100", "LC_ALL": "C.UTF-8"}).stdout
    words = " ".join(shown.replace("‐\n", "").split())

    def check(command, path):
        assert " ".join(["optrace", *path]) in words
        for option in command["options"]:
            for name in option["names"]:
                assert name in words, (path, name)
        for one in command["commands"]:
            check(one, [*path, one["name"]])

    check(json.loads(optrace("__describe").stdout), [])
    for part in ("EXIT STATUS", "130 Interrupted by Ctrl-C", "OPTRACE_HYPERLINK_FORMAT", "FILES",
                 "~/.cache/optrace/traces", "SCRIPT | -m MODULE"):
        assert part in words, part


def test_the_installed_files_are_those_that_the_command_prints(build, optrace):
    for shell_name, place in (("bash", "bash-completion/completions/optrace"),
                              ("zsh", "zsh/site-functions/_optrace"),
                              ("fish", "fish/vendor_completions.d/optrace.fish")):
        script = pathlib.Path(build / "share" / place).read_text()
        assert script == optrace("completions", shell_name).stdout
    assert optrace("completions", "tcsh").returncode == 2
