"""`optrace source add --wheel`: an index of the newest torch, made from its wheel alone.

`make release-tests` makes one, and `make test` asks the one that comes with optrace.
"""
import json
import os
import pathlib
import re
import subprocess

import pytest

from attach_target import wait_until
from report_frames import frames

USAGE = 2


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """The environment with folders of its own, and these folders."""
    folder = tmp_path_factory.mktemp("wheel")
    (folder / "indexes").mkdir()
    return {"OPTRACE_INDEX_DIR": str(folder / "indexes"),
            "OPTRACE_CACHE_DIR": str(folder / "cache"), "OPTRACE_BACKGROUND": "0"}


@pytest.fixture(scope="module")
def made(optrace, newest_python, folders):
    """What the command said, and the folder of the code that it generated."""
    result = optrace("source", "add", "--wheel", "--python", newest_python, environment=folders,
                     timeout=900)
    assert result.returncode == 0, result.stderr
    (generated,) = pathlib.Path(folders["OPTRACE_CACHE_DIR"]).glob("source/*/generated")
    return result, generated


@pytest.fixture(scope="module", params=[
    "shipped", pytest.param("made", marks=pytest.mark.release)])
def index(request, tmp_path_factory):
    """(the environment in which the index is used, the folder of the code generated for it, if it
    was made here)"""
    if request.param == "made":
        return request.getfixturevalue("folders"), request.getfixturevalue("made")[1]
    return {"OPTRACE_INDEX_DIR": str(tmp_path_factory.mktemp("none")),
            "OPTRACE_BACKGROUND": "0"}, None


@pytest.fixture(scope="module")
def newest_facts(run_program, newest_python):
    """What the newest torch tells about itself."""
    script = """if 1:
        import json, re, torch
        registered = set()
        for name in ("aten::add.Tensor", "aten::convolution", "aten::mm", "aten::relu_"):
            registered |= set(re.findall(r"/(build/aten/src/ATen/Register\\w+\\.cpp):(\\d+)",
                                         torch._C._dispatch_dump(name)))
            registered |= set(re.findall(r"/(torch/csrc/autograd/generated/\\w+\\.cpp):(\\d+)",
                                         torch._C._dispatch_dump(name)))
        print(json.dumps({"version": torch.__version__.split("+")[0], "folder": torch.__path__[0],
                          "registered": sorted(registered),
                          "ops": [name for name in torch._C._dispatch_get_all_op_names()
                                  if name.startswith("aten::")]}))
        """
    result = run_program([newest_python, "-c", script])
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def located(optrace, python, folders, name):
    result = optrace("locate", name, "--python", python, "--format", "json", environment=folders)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.release
def test_it_says_what_it_made(made, newest_facts):
    assert made[0].stdout.startswith(f"torch {newest_facts['version']}: ")
    assert "not indexed: " not in made[0].stdout


@pytest.mark.release
def test_generated_code_is_what_the_wheel_was_built_from(made, newest_facts):
    """The dispatcher of the wheel knows in which line of which file a kernel was registered."""
    checked = 0
    for file, line in newest_facts["registered"]:
        path = made[1] / file
        if path.exists():
            checked += 1
            text = path.read_text().splitlines()[int(line) - 1]
            assert "TORCH_LIBRARY" in text, (file, line, text)
    assert checked > 8


def test_a_report_marks_the_lines_that_are_not_exact(optrace, newest_python, index, tmp_path):
    environment, generated_code = index
    trace = tmp_path / "conv2d.trace"
    result = optrace("conv2d", "--python", newest_python, "--format", "json", "--trace", trace,
                     environment=environment)
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert report["source"]["made_from"] == "wheel" and report["source"]["exact"] is False
    native = [frame["source"] for frame in frames(report)
              if frame["symbol"] and frame["source"] and frame["source"]["file"]]
    exact = [source for source in native if source["exact"]]
    assert len(exact) > 0.4 * len(native)
    for source in exact:
        generated = generated_code and generated_code / source["file"]
        if generated and generated.exists():
            assert generated.read_text().count("\n") >= source["line"]
    bounded = [source for source in native if not source["exact"] and source.get("interval")]
    assert bounded
    assert all(low <= source["line"] <= high for source in bounded
               for low, high in [source["interval"]])
    text = optrace("report", trace, environment=environment).stdout
    assert "from the wheel; ~ marks approximate ones" in text
    assert re.search(r":~\d", text) and re.search(r"Operators_\d\.cpp:\d", text)


def test_lines_of_headers_are_those_of_the_source(optrace, newest_python, index, newest_facts):
    """Wheels have a line before some headers that the source does not have."""
    for name, file in (("c10::DispatchKeySet::highestPriorityTypeId", "c10/core/DispatchKeySet.h"),
                       ("at::TensorIteratorBase::ntensors", "aten/src/ATen/TensorIterator.h")):
        (place,) = [answer["source"] for answer in
                    located(optrace, newest_python, index[0], name)["answers"]
                    if answer["source"]["file"] == file]
        lines = (pathlib.Path(newest_facts["folder"]) / "include" /
                 file.replace("aten/src/", "")).read_text().splitlines()
        added = lines[0].startswith("#if !defined(TORCH_STABLE_ONLY)")
        assert place["exact"], place
        assert name.split("::")[-1] in lines[place["line"] - 1 + added], place


@pytest.fixture(scope="module")
def reference_ops(run_program, python):
    script = "import torch; print(*torch._C._dispatch_get_all_op_names())"
    result = run_program([python, "-c", script])
    assert result.returncode == 0, result.stderr
    return {name for name in result.stdout.split() if name.startswith("aten::")}


@pytest.mark.release
def test_ops_are_those_of_the_wheel(optrace, newest_python, folders, made, newest_facts,
                                    reference_ops):
    """Ops that 2.6.0 lacks are found, and those that are gone are not."""
    newest = set(newest_facts["ops"])
    facts = [json.loads(line) for line in
             next(pathlib.Path(folders["OPTRACE_CACHE_DIR"]).glob("source/*/ops")).open()]
    known = {fact["name"] for fact in facts}
    added = sorted(name for name in known & newest - reference_ops if "." not in name)
    removed = sorted(name for name in reference_ops - newest if "." not in name)
    assert added and removed
    found = optrace("explain", added[0], "--python", newest_python, "--format", "json",
                    environment=folders)
    assert found.returncode == 0, found.stderr
    assert added[0] in found.stdout
    gone = optrace("explain", removed[0], "--python", newest_python, environment=folders)
    assert gone.returncode == USAGE, gone.stdout


@pytest.mark.release
def test_lines_that_are_called_exact_are_right(build, run_program, torch_folder, newest_facts):
    """Predicts the line of each anchor of the newest wheel from the others and from 2.6.0."""
    result = run_program([build / "tests/truth/carried_lines", torch_folder,
                          newest_facts["folder"]], timeout=300)
    assert result.returncode == 0, result.stderr
    counts = json.loads(result.stdout)
    assert counts["lines"] > 3000
    assert counts["exact_wrong"] <= 0.005 * counts["exact"], counts
    assert counts["bounded_wrong"] <= 0.15 * counts["bounded"], counts


@pytest.mark.parametrize("arguments, said", [
    (["--wheel", "somewhere"], "excludes"),
    (["--wheel", "--on-demand"], "excludes"),
    ([], "neither a source tree nor --wheel is given")])
def test_options_that_contradict_each_other(optrace, arguments, said):
    result = optrace("source", "add", *arguments)
    assert result.returncode == USAGE
    assert said in result.stderr


@pytest.fixture
def unknown_torch(tmp_path, newest_facts):
    """A folder with a torch of a version that no index is of, whose libraries are stripped."""
    packages = tmp_path / "packages"
    (packages / "torch/lib").mkdir(parents=True)
    torch = pathlib.Path(newest_facts["folder"])
    os.symlink(torch / "__init__.py", packages / "torch/__init__.py")
    os.symlink(torch.parent / "torchgen", packages / "torchgen")
    (packages / "torch/version.py").write_text("__version__ = '2.99.0'\n")
    subprocess.run(["strip", "-o", packages / "torch/lib/libc10.so", torch / "lib/libc10.so"],
                   check=True)
    return packages


def test_an_index_is_made_in_the_background(optrace, newest_python, tmp_path, unknown_torch):
    """Here it fails at once. The first answer doesn't wait; the next one says that it failed."""
    environment = {"OPTRACE_INDEX_DIR": tmp_path, "OPTRACE_CACHE_DIR": tmp_path / "cache",
                   "PYTHONPATH": unknown_torch, "CI": None}
    arguments = ["locate", "at::native::conv2d_symint", "--python", newest_python]
    first = optrace(*arguments, environment=environment)
    assert "Convolution.cpp:~" in first.stdout
    assert "there is no index of torch 2.99.0" in first.stderr
    assert "is being made from the wheel, in the background" in first.stderr
    wait_until(lambda: "is being made" not in optrace(*arguments, environment=environment).stderr,
               "the index is no longer being made")
    second = optrace(*arguments, environment=environment)
    assert "An index of it could not be made; `optrace source add --wheel` shows" in second.stderr
    (log,) = (tmp_path / "cache").glob("source/*/background.log")
    assert "has no symbol table" in log.read_text()
    assert log.stat().st_mode & 0o777 == 0o600
    assert not list(tmp_path.glob("*.index"))


@pytest.mark.parametrize("variables", [{"OPTRACE_BACKGROUND": "0"}, {"CI": "true"}])
def test_nothing_is_made_in_the_background_unasked(optrace, newest_python, tmp_path, unknown_torch,
                                                   variables):
    result = optrace("locate", "at::native::conv2d_symint", "--python", newest_python,
                     environment={"OPTRACE_INDEX_DIR": tmp_path, "PYTHONPATH": unknown_torch,
                                  "OPTRACE_CACHE_DIR": tmp_path / "cache", "CI": None,
                                  **variables})
    assert "(`optrace source add --wheel` makes an index of the installed torch)" in result.stderr
    assert not list((tmp_path / "cache").glob("source/*/background.log"))


def test_a_torch_without_its_generators_is_refused(optrace, tmp_path, folders, newest_facts,
                                                   newest_python):
    """Such as a package of a distribution."""
    packages = tmp_path / "packages"
    (packages / "torch").mkdir(parents=True)
    torch = pathlib.Path(newest_facts["folder"])
    for name in ("version.py", "__init__.py", "lib", "include"):
        os.symlink(torch / name, packages / "torch" / name)
    result = optrace("source", "add", "--wheel", "--python", newest_python,
                     environment={**folders, "PYTHONPATH": str(packages)})
    assert result.returncode == USAGE, result.stderr
    assert "has no torchgen/packaged" in result.stderr
    assert not list(pathlib.Path(folders["OPTRACE_INDEX_DIR"]).glob("*half*"))
