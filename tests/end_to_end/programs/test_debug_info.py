"""The sources of a C++ extension's functions, from its debug info.

The extension is compiled several times from one source: with and without -g, and with the debug
info in a file of its own.
"""
import json
import pathlib
import re

import pytest

from report_frames import frames

# In this source, `half_sum` calls `at::add` through two inlined functions, at two lines.
SOURCE = """#include <ATen/core/Tensor.h>
#include <ATen/ops/add_ops.h>
#include <ATen/ops/mul_ops.h>
#include <torch/library.h>

namespace halves {
namespace {

inline __attribute__((always_inline)) at::Tensor add_up(const at::Tensor& a, const at::Tensor& b) {
  return at::_ops::add_Tensor::call(a, b, 1);
}

}  // namespace

inline __attribute__((always_inline)) at::Tensor twice(const at::Tensor& a) {
  at::Tensor sum = add_up(a, a);
  return sum;
}

at::Tensor half_sum(const at::Tensor& a, const at::Tensor& b) {
  at::Tensor double_a = twice(a);
  at::Tensor double_b = twice(b);
  at::Tensor all = add_up(double_a, double_b);
  return at::_ops::mul_Scalar::call(all, 0.25);
}

TORCH_LIBRARY(halves, m) {
  m.def("half_sum(Tensor a, Tensor b) -> Tensor", half_sum);
}

}  // namespace halves
"""
PROGRAM = """import torch
torch.ops.load_library({library!r})
x = torch.ones(4)
with torch.no_grad():
    print(torch.ops.halves.half_sum(x, x + 1))
"""


def line_of(text):
    """The number of the first line of the source that contains a text."""
    lines = SOURCE.splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


ADD_UP, TWICE, HALF_SUM = map(line_of, ("Tensor add_up(", "Tensor twice(", "Tensor half_sum("))


@pytest.fixture(scope="module")
def libraries(run_program, torch_folder, tmp_path_factory):
    """The extension by the way in which it was built."""
    folder = tmp_path_factory.mktemp("halves")
    source = folder / "halves.cpp"
    source.write_text(SOURCE)

    def run(*arguments):
        done = run_program([*map(str, arguments)], cwd=folder, timeout=300)
        assert done.returncode == 0, done.stderr

    run("g++", "-c", "-g", "-O2", "-fPIC", "-std=c++17", "-D_GLIBCXX_USE_CXX11_ABI=0",
        f"-I{torch_folder}/include", source, "-o", "halves.o")
    run("g++", "-shared", "-Wl,--build-id", "halves.o", "-o", "debug.so", f"-L{torch_folder}/lib",
        "-lc10", "-ltorch_cpu")
    run("g++", "-shared", f"-Wl,--build-id=0x{'12' * 20}", "halves.o", "-o", "other.so",
        f"-L{torch_folder}/lib", "-lc10", "-ltorch_cpu")
    run("objcopy", "--strip-debug", "debug.so", "plain.so")
    run("objcopy", "--only-keep-debug", "debug.so", "halves.debug")
    run("objcopy", "--strip-debug", "--add-gnu-debuglink=halves.debug", "debug.so", "linked.so")
    return {name: folder / f"{name}.so" for name in ("debug", "plain", "linked", "other")}


@pytest.fixture(scope="module")
def trace_of(optrace, python, libraries, tmp_path_factory):
    """trace_of("debug"): the trace of a program with the library that was built in that way."""
    folder = tmp_path_factory.mktemp("traces")

    def trace(name):
        file = folder / f"{name}.trace"
        if not file.exists():
            program = folder / f"{name}.py"
            program.write_text(PROGRAM.format(library=str(libraries[name])))
            done = optrace("run", "--python", python, "--timeline", "--trace", file, program,
                           timeout=300)
            assert done.returncode == 0, done.stderr
        return file

    return trace


@pytest.fixture(scope="module")
def report_of(optrace, trace_of, validate):
    """report_of("debug"): the report of that trace."""

    def report(name):
        shown = optrace("report", trace_of(name), "--format", "json")
        assert shown.returncode == 0, shown.stderr
        value = json.loads(shown.stdout)
        validate(value, "report")
        return value

    return report


def place(frame):
    source = frame["source"] or {}
    return pathlib.Path(source.get("file") or "").name, source.get("line")


@pytest.mark.parametrize("name", ["debug", "linked"])
def test_functions_and_calls_have_their_lines(report_of, libraries, name):
    report = report_of(name)
    kernel, = [frame for frame in frames(report) if frame["name"] == "halves::half_sum"]
    assert kernel["source"]["file"] == str(libraries[name].parent / "halves.cpp")
    assert kernel["source"]["line"] == HALF_SUM
    assert kernel["source"]["debug_info"] is True
    called = [(child["name"], place(child), child["source"]["call_line"], child["detail"])
              for child in kernel["children"]]
    inlined = {"inlined": True}
    assert called == [
        ("halves::twice", ("halves.cpp", TWICE), line_of("twice(a);"), inlined),
        ("halves::twice", ("halves.cpp", TWICE), line_of("twice(b);"), inlined),
        ("halves::(anonymous namespace)::add_up", ("halves.cpp", ADD_UP),
         line_of("add_up(double_a"), inlined),
        ("at::_ops::mul_Scalar::call", called[3][1], line_of("mul_Scalar::call"), called[3][3])]
    for twice in kernel["children"][:2]:
        add_up, = twice["children"]
        assert place(add_up) == ("halves.cpp", ADD_UP)
        assert add_up["source"]["call_line"] == line_of("sum = add_up")
        add, = add_up["children"]
        assert add["name"] == "at::_ops::add_Tensor::call"
        assert add["source"]["call_line"] == line_of("add_Tensor::call")
        assert add["calls"] == add_up["calls"] == twice["calls"] == 1


def test_the_tree_shows_them(trace_of, optrace):
    shown = optrace("report", trace_of("debug"), "--format", "text")
    assert shown.returncode == 0, shown.stderr
    twice = [line for line in shown.stdout.splitlines() if "halves::twice" in line]
    assert len(twice) == 2
    for line in twice:
        place = rf"/.*halves\.cpp:{TWICE} +called at :\d"
        assert re.search(rf"halves::twice  inlined +{place}", line), line


def test_without_debug_info_there_are_none(report_of):
    report = report_of("plain")
    kernel, = [frame for frame in frames(report) if frame["name"] == "halves::half_sum"]
    assert kernel["source"] is None or kernel["source"]["file"] is None
    names = [child["name"] for child in kernel["children"]]
    assert names == ["at::_ops::add_Tensor::call", "at::_ops::mul_Scalar::call"]
    assert [child["calls"] for child in kernel["children"]] == [3, 1]
    assert not any("inlined" in (frame["detail"] or {}) for frame in frames(report))
    assert not any("debug_info" in (frame["source"] or {}) for frame in frames(report))


def test_a_library_that_was_built_again_has_none(report_of, libraries):
    """A trace is read after its library was replaced by another build."""
    report_of("debug")
    library = libraries["debug"]
    kept = library.read_bytes()
    library.unlink()
    library.write_bytes(libraries["other"].read_bytes())
    try:
        before = report_of("debug")
    finally:
        library.unlink()
        library.write_bytes(kept)
    kernel, = [frame for frame in frames(before) if frame["name"] == "halves::half_sum"]
    assert kernel["source"] is None or kernel["source"]["file"] is None
    assert [child["calls"] for child in kernel["children"]] == [3, 1]
    after, = [frame for frame in frames(report_of("debug")) if frame["name"] == "halves::half_sum"]
    assert len(after["children"]) == 4


def test_a_timeline_has_the_calls_that_ran(trace_of, optrace):
    """An inlined function has no beginning and no end of its own."""
    shown = optrace("report", trace_of("debug"), "--format", "perfetto")
    assert shown.returncode == 0, shown.stderr
    names = [event.get("name", "") for event in json.loads(shown.stdout)["traceEvents"]]
    assert sum("aten::add.Tensor" in name for name in names) >= 3
    assert not any("halves::twice" in name for name in names)
