"""The sources of a C++ extension's functions, from its debug info.

The extension is compiled several times from one source: with and without -g, and with the debug
info in a file of its own.
"""
import json
import pathlib
import re

import pytest

from report_frames import frames, frames_with_way

# In this source, `half_sum` calls `at::add` through two inlined functions, at two lines.
SOURCE = """#include <ATen/ATen.h>
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
def report_of(optrace, python, libraries, tmp_path_factory, validate):
    """report_of("debug"): the report of a program with the library that was built in that way. The
    report is made later, from the trace."""
    folder = tmp_path_factory.mktemp("reports")

    def report(name, *options):
        trace = folder / f"{name}.trace"
        if not trace.exists():
            program = folder / f"{name}.py"
            program.write_text(PROGRAM.format(library=str(libraries[name])))
            done = optrace("run", "--python", python, "--trace", trace, program)
            assert done.returncode == 0, done.stderr
        shown = optrace("report", trace, "--format", "json", *options)
        assert shown.returncode == 0, shown.stderr
        value = json.loads(shown.stdout)
        validate(value, "report")
        return value

    return report


def of_extension(report):
    return [frame for frame in frames(report) if (frame["library"] or "").endswith(".so") and
            frame["name"].startswith("halves::") and "wrap" not in frame["name"]]


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


def test_the_tree_shows_them_without_a_doubt(report_of, optrace, tmp_path):
    report_of("debug")
    # Lines of the index are approximate for another version; those of the debug info are not.
    saved = tmp_path / "report.json"
    report = report_of("debug")
    report["source"]["exact"] = False
    saved.write_text(json.dumps(report))
    shown = optrace("report", saved)
    assert shown.returncode == 0, shown.stderr
    twice = [line for line in shown.stdout.splitlines() if "halves::twice" in line]
    assert len(twice) == 2
    for line in twice:
        assert re.search(rf"inlined.*halves\.cpp:{TWICE}\b", line), line
        assert re.search(r"called at :\d", line) and "~" not in line, line


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


def test_a_timeline_keeps_the_calls(report_of, optrace, python, libraries, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(library=str(libraries["debug"])))
    trace = tmp_path / "timeline.trace"
    done = optrace("run", "--python", python, "--timeline", "--trace", trace, program)
    assert done.returncode == 0, done.stderr
    shown = optrace("report", trace, "--format", "perfetto")
    assert shown.returncode == 0, shown.stderr
    events = json.loads(shown.stdout)["traceEvents"]
    assert sum(event.get("name") == "aten::add.Tensor" for event in events) >= 3
    for frame, above in frames_with_way(report_of("debug")):
        if frame["name"] == "halves::half_sum":
            assert not any("inlined" in (outer["detail"] or {}) for outer in above)
