"""`optrace source compare` on the shipped index, the indexes of an extension, and wrong input."""
import json
import pathlib

import pytest

DIFFERS, USAGE = 1, 2


@pytest.fixture(scope="module")
def compare(optrace):
    """compare(A, B, ...): the result of `optrace source compare`."""
    return lambda *arguments, **options: optrace("source", "compare", *arguments, **options)


@pytest.fixture(scope="module")
def shipped(build):
    """The index that comes with optrace."""
    return build / "share/optrace/indexes/torch-2.6.0.index"


EXTENSION = """#include <torch/library.h>

namespace soft_clamp {
namespace {

at::Tensor soft_clamp_cpu(const at::Tensor& self, double limit) { return self; }

}  // namespace
}  // namespace soft_clamp

TORCH_LIBRARY(soft_clamp, m) {
  m.def("soft_clamp(Tensor self, float limit=1.0) -> Tensor");
  m.def("soft_clamp_backward(Tensor grad, Tensor self, float limit) -> Tensor");
}

TORCH_LIBRARY_IMPL(soft_clamp, CPU, m) {
  m.impl("soft_clamp", soft_clamp::soft_clamp_cpu);
}
"""


@pytest.fixture(scope="module")
def extensions(optrace, python, tmp_path_factory):
    """The indexes of an extension before and after a change of its source."""
    folder = tmp_path_factory.mktemp("extensions")
    indexes = []
    for version in ("before", "after"):
        project = folder / version
        (project / "csrc").mkdir(parents=True)
        text = EXTENSION
        if version == "after":
            for old, new in [("float limit=1.0)", "float limit=2.0)"),
                             ("soft_clamp_backward(Tensor grad", "soft_clamp_grad(Tensor grad"),
                             ("TORCH_LIBRARY_IMPL(soft_clamp, CPU, m)",
                              "TORCH_LIBRARY_IMPL(soft_clamp, CUDA, m)")]:
                assert old in text, old
                text = text.replace(old, new)
        (project / "csrc/soft_clamp.cpp").write_text(text)
        indexes.append(folder / f"{version}.index")
        made = optrace("source", "add", project, "--project", "--python", python, "-o", indexes[-1],
                       environment={"OPTRACE_CACHE_DIR": folder / "cache",
                                    "OPTRACE_INDEX_DIR": folder / "indexes"}, timeout=300)
        assert made.returncode == 0, made.stderr
    return indexes


def test_a_version_does_not_differ_from_itself(compare, shipped, python):
    same = compare("2.6.0", shipped)
    assert same.returncode == 0, same.stderr
    assert "No difference." in same.stdout and same.stdout.count("torch 2.6.0") == 2
    environment = pathlib.Path(python).parent.parent
    for operand in (python, environment):
        same = compare(operand, "2.6.0", "--ops", "conv*")
        assert same.returncode == 0, same.stderr


def test_the_changes_of_an_extension(compare, extensions, validate):
    before, after = extensions
    shown = compare(before, after, "--format", "json")
    assert shown.returncode == DIFFERS, shown.stderr
    comparison = json.loads(shown.stdout)
    validate(comparison, "source_comparison")
    assert comparison["first"]["index"] == str(before)
    assert comparison["second"]["torch"] == "2.6.0"
    ops = comparison["ops"]
    assert [op["op"] for op in ops["added"]] == ["soft_clamp::soft_clamp_grad"]
    assert [op["op"] for op in ops["removed"]] == ["soft_clamp::soft_clamp_backward"]
    assert ops["removed"][0]["source"]["file"] == "csrc/soft_clamp.cpp"
    changed, = ops["changed"]
    assert changed["op"] == "soft_clamp::soft_clamp"
    schema, *registrations = changed["changes"]
    assert (schema["kind"], "limit=1.0" in schema["before"], "limit=2.0" in schema["after"]) == (
        "schema", True, True)
    kernel = "soft_clamp::(anonymous namespace)::soft_clamp_cpu"
    assert [(one["kind"], one["key"], one["before"], one["after"]) for one in registrations] == [
        ("registration", "CPU", kernel, None), ("registration", "CUDA", None, kernel)]


def test_text(compare, extensions):
    text = compare(*extensions)
    assert text.returncode == DIFFERS, text.stderr
    for expected in ("Ops added: 1", "Ops removed: 1", "Ops changed: 1",
                     "1 added, 1 removed, 1 changed.", "  + soft_clamp::soft_clamp_grad(Tensor"):
        assert expected in text.stdout, text.stdout


def test_patterns(compare, extensions):
    none = compare(*extensions, "--ops", "*relu*")
    assert (none.returncode, "No difference." in none.stdout) == (0, True)
    of_key = compare(*extensions, "--ops", "soft_clamp", "--key", "CU*", "--format", "json")
    changed, = json.loads(of_key.stdout)["ops"]["changed"]
    assert [one["key"] for one in changed["changes"]] == ["CUDA"]


@pytest.mark.parametrize("operand, expected", [
    ("1.2.3", ("no index of torch 1.2.3", "There are indexes of: ", "2.6.0")),
    ("", ("no index of torch", "2.6.0")),
    ("./absent", ("./absent does not exist", "an index file")),
    ("/usr/bin/env", ("/usr/bin/env has no torch", "Name a Python with torch"))])
def test_an_operand_that_names_no_index(compare, operand, expected):
    refused = compare("2.6.0", operand)
    assert refused.returncode == USAGE
    for text in expected:
        assert text in refused.stderr, refused.stderr


def test_files_and_folders_that_are_no_index(compare, tmp_path):
    wheel = tmp_path / "torch-2.6.0-cp311-cp311-linux_x86_64.whl"
    wheel.write_bytes(b"PK")
    text = tmp_path / "text"
    text.write_text("nothing")
    for operand, expected in [(wheel, "is not installed"), (text, "not an optrace index"),
                              (tmp_path, "not a complete PyTorch source tree")]:
        refused = compare("2.6.0", operand)
        assert refused.returncode == USAGE and expected in refused.stderr, refused.stderr


def test_a_source_tree_needs_an_index_of_its_version(compare, tmp_path, source):
    same = compare(source, "2.6.0", "--ops", "relu")
    assert same.returncode == 0, same.stderr
