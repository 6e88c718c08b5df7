"""`optrace source coverage`: measures how complete the shipped index is, and can fail."""
import json
import re

import pytest

DIFFERS, USAGE = 1, 2


@pytest.fixture(scope="module")
def measured(optrace, python):
    """The result for the shipped index, which lacks a few functions."""
    return optrace("source", "coverage", "--format", "json", "--python", python, "--fail-under",
                   "100")


@pytest.fixture(scope="module")
def coverage(measured):
    return json.loads(measured.stdout)


@pytest.fixture(scope="module")
def library_names(run_program, torch_folder):
    """library -> the mangled names of the functions that it defines."""

    def names(library):
        listed = run_program(["nm", "--defined-only", torch_folder / "lib" / library], timeout=300)
        assert listed.returncode == 0, listed.stderr
        return {fields[2] for line in listed.stdout.splitlines()
                if len(fields := line.split(" ")) == 3 and fields[1] in "tTwW"}

    return names


def test_every_kernel_of_the_yaml_has_its_definition(coverage):
    kernels = coverage["kernels"]
    assert kernels["missing"] == []
    assert kernels["available"]["all"] > 4500
    assert kernels["by_registration"] > 0.95 * kernels["available"]["known"]
    not_built = {of["key"] for of in kernels["not_built"]}
    assert not_built <= {"MPS", "XPU", "SparseXPU", "NestedTensorXPU"}


def test_the_functions_of_each_library_are_known(coverage):
    shares = {of["library"]: of["functions"] for of in coverage["libraries"]}
    assert set(shares) == {"libtorch_cpu.so", "libtorch_cuda.so", "libtorch_cuda_linalg.so",
                           "libtorch_python.so"}
    for library, share in shares.items():
        assert share["percent"] >= 99.5, (library, share)
        assert share["all"] >= 50


def test_nothing_is_left_out_of_the_count(coverage, library_names):
    """All of at::_ops is counted: it has no template and no lambda, so nm's count is right."""
    names = {re.sub(r"\.(cold|isra|part|constprop).*", "", name)
             for name in library_names("libtorch_cpu.so") if name.startswith("_ZN2at4_ops")}
    library = next(of for of in coverage["libraries"] if of["library"] == "libtorch_cpu.so")
    counted = next(of for of in library["classes"] if of["name"] == "at::_ops")
    assert counted["functions"]["all"] == len(names)


def test_it_can_fail(measured):
    assert measured.returncode == DIFFERS, measured.stderr
    assert "--fail-under" in measured.stderr


@pytest.mark.verify
def test_it_fails_for_another_version(optrace, newest_python):
    """The index of one version doesn't have all functions of another, so the share is too small."""
    result = optrace("source", "coverage", "--python", newest_python, "--fail-under", "99.5")
    assert result.returncode == DIFFERS, result.stderr
    assert "--fail-under" in result.stderr
    assert re.search(r"libtorch_cpu\.so.*\n +all +\d+ of +\d+", result.stdout)


def test_the_text_says_what_is_missing(optrace, python):
    result = optrace("source", "coverage", "--python", python, "--all")
    assert result.returncode == 0, result.stderr
    assert re.search(r"with their definition +(\d+) of +\1 +100\.00 %", result.stdout)
    assert "for MPS: its sources are not part of any Linux x86-64 build" in result.stdout
    assert "_ZN" not in result.stdout


@pytest.mark.parametrize("arguments, word", [
    (["--index", "{folder}/absent.index"], "absent.index"),
    (["--fail-under", "101"], "fail-under"),
    (["--format", "yaml"], "yaml"),
    (["-o", "/proc/x"], "/proc/x"),
    (["--python", "{folder}/python"], "python"),
])
def test_bad_input(optrace, tmp_path, arguments, word):
    result = optrace("source", "coverage", *[part.format(folder=tmp_path) for part in arguments])
    assert result.returncode == USAGE, result.stderr
    assert word in result.stderr and len(result.stderr.splitlines()) >= 2
    assert result.stdout == ""
