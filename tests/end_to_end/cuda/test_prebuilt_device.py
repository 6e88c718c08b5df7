"""A dry run with prebuilt libraries: it needs neither a compiler nor CUDA's headers, and its report
is that of a dry run with libraries that were compiled for this torch."""
import json
import pathlib
import shutil

import pytest
from test_cuda_calls import PROGRAM

from report_frames import comparable, frames


@pytest.fixture(scope="module")
def packages(python, tmp_path_factory):
    """(the packages of the reference torch, a folder with links to all of them but those with the
    headers of CUDA's libraries)"""
    site = next(pathlib.Path(python).parents[1].glob("lib/python3*/site-packages"))
    folder = tmp_path_factory.mktemp("packages")
    for entry in site.iterdir():
        if entry.name not in ("nvidia", "cusparselt", "optrace"):
            (folder / entry.name).symlink_to(entry)
    return site, folder


@pytest.fixture(scope="module")
def traced(optrace, python, packages, tmp_path_factory):
    """traced(environment) -> (the report of a dry run of PROGRAM, the result)."""
    folder = tmp_path_factory.mktemp("traced")
    script, path = folder / "program.py", folder / "report.json"
    script.write_text(PROGRAM)

    def trace(environment):
        result = optrace("run", "--dry-run=sm_90", "--python", python, "--format", "json", "-o",
                         path, script, timeout=400,
                         environment={"PYTHONPATH": packages[1], **environment})
        return json.loads(path.read_text()) if result.returncode == 0 else None, result

    return trace


@pytest.fixture(scope="module")
def bare(packages, tmp_path_factory):
    """The environment of a machine without a compiler, with an empty cache; of NVIDIA's packages,
    torch has only the libraries."""
    site, folder = packages
    wheels = folder / "nvidia"
    for wheel in (site / "nvidia").iterdir():
        if (wheel / "lib").is_dir():
            (wheels / wheel.name).mkdir(parents=True)
            (wheels / wheel.name / "lib").symlink_to(wheel / "lib")
    nothing = tmp_path_factory.mktemp("nothing")
    return {"PATH": nothing, "CXX": None, "CUDA_HOME": nothing,
            "OPTRACE_CACHE_DIR": tmp_path_factory.mktemp("cache")}


@pytest.fixture(scope="module")
def ready_made(traced, bare):
    report, result = traced(bare)
    assert result.returncode == 0, result.stderr
    return report, result


def test_nothing_is_compiled(ready_made, bare):
    report, result = ready_made
    assert "compiling" not in result.stderr
    assert report["shortfalls"] == []
    assert {"op-agents", "emulated-devices"} <= {path.name
                                                 for path in bare["OPTRACE_CACHE_DIR"].iterdir()}
    assert list((bare["OPTRACE_CACHE_DIR"] / "emulated-devices").iterdir()) == []
    assert any(frame["op"] == "aten::mm" for frame in frames(report))


def test_the_headers_are_needed_otherwise(traced, bare):
    _, result = traced({**bare, "OPTRACE_PREBUILT": "0"})
    assert result.returncode == 2
    assert "cuda_runtime_api.h" in result.stderr and "pip install" in result.stderr


def test_doctor_says_that_it_is_prebuilt(optrace, python, packages, bare):
    result = optrace("doctor", "--python", python, "--json",
                     environment={"PYTHONPATH": packages[1], **bare})
    (check,) = [check for check in json.loads(result.stdout)["checks"] if check["id"] == "dry run"]
    assert check["status"] == "ok" and "prebuilt" in check["found"]


def test_results_are_those_of_compiled_libraries(ready_made, traced, packages):
    """The last test, because the headers are there again."""
    report, result = ready_made
    site, folder = packages
    shutil.rmtree(folder / "nvidia")
    for name in ("nvidia", "cusparselt"):
        (folder / name).symlink_to(site / name)
    compiled, other = traced({"OPTRACE_PREBUILT": "0"})
    assert other.returncode == 0, other.stderr
    assert other.stdout == result.stdout
    assert comparable(compiled) == comparable(report)
