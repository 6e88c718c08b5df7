"""What a trace tells of torch.compile's work, and that this work is the same as without optrace."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import textwrap

import pytest

from attach_target import LIMIT
from report_frames import frames, generated_kernels

PROGRAM = """
import json
import logging
import os
import sys

import torch
from torch._dynamo.utils import counters

if sys.argv[1] == "inductor":
    # It then doesn't try out what the processor can do, as it does in the tests of one op.
    import torch._inductor.config
    torch._inductor.config.cpp.vec_isa_ok = True

if "GRAPHS" in os.environ:
    from torch._inductor.graph import GraphLowering

    lower = GraphLowering.__init__

    def note(self, module, *arguments, **options):
        with open(os.environ["GRAPHS"], "a") as file:
            for node in module.graph.nodes:
                print(json.dumps([node.name, str(node.meta.get("original_aten")),
                                  node.meta.get("stack_trace"),
                                  options.get("is_backward", False)]), file=file)
        lower(self, module, *arguments, **options)

    GraphLowering.__init__ = note

@torch.compile(backend=sys.argv[1], dynamic=False)
def step(rows, weights):
    hidden = torch.relu(rows @ weights)
    torch._dynamo.graph_break()
    return torch.softmax(hidden + 1, -1).sum()

weights = torch.ones(8, 8, requires_grad=True)
for rows in map(int, sys.argv[2:]):
    step(torch.ones(rows, 8), weights).backward()
print(json.dumps({name: counts for name, counts in counters.items()}))
print(weights.grad.tolist())
print(logging.getLogger("torch.__trace").handlers)  # With one, PyTorch would do more.
"""
LINE = {"step": 30, "break": 33}  # From 1, with the empty first line.
PASSED = 0
FAILED = 3
# Inductor then starts no processes in advance, as it does in the tests of one op.
QUICK = {"TORCHINDUCTOR_COMPILE_THREADS": "1"}


def run(command, program, backend, *sizes, environment=None, keep_cache=False, **options):
    """Runs the program. Returns the result, and the generated code by name. The names are hashes of
    the code."""
    cache = program.parent / "inductor"  # Generated code contains this path.
    result = command(program, backend, *sizes, timeout=LIMIT, **options,
                     environment={"TORCHINDUCTOR_CACHE_DIR": cache, **QUICK, **(environment or {})})
    assert result.returncode == PASSED, result.stderr
    generated = {path.name: path.read_text() for path in cache.rglob("*.cpp")}
    generated |= {path.name: path.read_text() for path in cache.rglob("*.py")}
    if not keep_cache:
        shutil.rmtree(cache, ignore_errors=True)
    return result, generated


@pytest.fixture
def program(tmp_path):
    file = tmp_path / "compiled.py"
    file.write_text(textwrap.dedent(PROGRAM))
    return file


def traced(optrace, python, program, backend, *sizes, **more):
    report = program.with_suffix(".json")

    def command(*arguments, **options):
        return optrace("run", "--python", python, "--format", "json", "-o", report, *arguments,
                       **options)

    result, generated = run(command, program, backend, *sizes, **more)
    return result, generated, json.loads(report.read_text())


def explained(optrace, python, program, backend, *sizes, **more):
    """The result and the answer of `optrace explain --compiled`."""
    answer = program.with_suffix(".explained.json")

    def command(*arguments, **options):
        return optrace("explain", "--compiled", "--format", "json", "-o", answer, "--python",
                       python, *arguments, **options)

    result, _ = run(command, program, backend, *sizes, **more)
    return result, json.loads(answer.read_text())


def without_times(compilations):
    def known(graph):
        return {key: known(value) if key == "backward" else value for key, value in graph.items()
                if not key.endswith("time")}

    return list(map(known, compilations))


def kernels_of(report):
    """Returns what was fused into each generated kernel that ran, by its name."""
    return {frame["name"]: frame["detail"]["origins"] for frame in generated_kernels(report)}


def forget_graphs(program):
    """Lets Inductor generate its code again. It still finds the libraries that it compiled from the
    same code."""
    for name in ("fxgraph", "aotautograd"):
        shutil.rmtree(program.parent / "inductor" / name, ignore_errors=True)


def libraries_of(program):
    return sorted(str(path) for path in (program.parent / "inductor").rglob("*.so"))


def assert_fused(kernels, graphs, program):
    """Each kernel has nodes of the graphs, with the op and the line that PyTorch has for them, and
    each node is in a kernel, but for views and what other libraries compute."""
    nodes = {}
    for name, op, trace, _ in map(json.loads, graphs.read_text().splitlines()):
        lines = re.findall(r'File "(.+)", line (\d+)', trace or "")
        if op != "None":
            nodes.setdefault(name, []).append((op.removeprefix("aten."), lines[-1:]))
    fused = set()
    for name, origins in kernels.items():
        assert origins, name
        for origin in origins:
            fused.add(origin["node"])
            place = [(origin["file"], str(origin["line"]))] if "file" in origin else []
            names = [op.removesuffix(".default") for op, lines in nodes[origin["node"]]
                     if lines == place]
            assert origin["op"].removeprefix("aten::") in names
            assert not place or origin["file"] == str(program)
    left = {op for name in nodes.keys() - fused for op, _ in nodes[name]}
    assert left <= {"mm.default", "expand.default", "permute.default", "t.default"}


def assert_told(report, program, sizes):
    found = report["compilations"]
    assert [(one["id"], one["function"]) for one in found] == [
        (f"{function}/{size}", name) for size in range(sizes) for function, name in enumerate(
            ["step", f"torch_dynamo_resume_in_step_at_{LINE['break']}"])]
    assert {one["file"] for one in found} == {str(program)}
    assert {one["line"] for one in found[::2]} == {LINE["step"]}
    assert [one["recompile_reasons"] for one in found[:2]] == [[], []]
    assert all("expected 4, actual 2" in one["recompile_reasons"][0] for one in found[2:])
    for one in found[::2]:
        broken, = one["breaks"]
        assert (broken["file"], broken["line"]) == (str(program), LINE["break"])
        assert "graph_break" in broken["reason"]
    for one in found:
        assert one["time"] > one["backend_time"] > 0 and one["graph_ops"] >= 2
        assert one["called_from"]["file"] == str(program)
    # What happens inside of a compilation is left out.
    compiling = [frame for frame in frames(report) if frame["layer"] == "compiler"]
    assert not any(frame["children"] for frame in compiling)
    details = [frame["detail"] or {} for frame in compiling]
    told = [one for detail in details if "backward_graph" not in detail
            for one in detail.get("compilations", [])]
    assert sorted(told) == sorted(one["id"] for one in found)
    backward = {one["id"] for one in found if "backward" in one}
    assert {one for detail in details if "backward_graph" in detail
            for one in detail["compilations"]} == backward
    # Generated code is of one of these graphs.
    ran = [(one, "backward_graph" in frame["detail"]) for frame in frames(report)
           if "generated" in (frame["detail"] or {})
           for one in frame["detail"].get("compilations", [])]
    assert {one for one, is_backward in ran if is_backward} == backward
    assert {one for one, is_backward in ran if not is_backward} <= {one["id"] for one in found}


def assert_explained_alike(result, report, explanation, program, validate):
    """`optrace explain --compiled` tells the same as the report of a trace, and the program prints
    the same, to standard error."""
    explaining, answer = explanation
    validate(answer, "compiled")
    assert explaining.stdout == "" and result.stdout in explaining.stderr
    assert answer["program"].startswith(f"python {program} inductor") and not answer["exit_status"]
    assert (answer["torch"], answer["device"], answer["dry_run"]) == (report["torch"], "cpu", None)
    assert without_times(answer["compilations"]) == without_times(report["compilations"])


def assert_told_backward(compilations, graphs):
    """The kernels of backward graphs are told from others. Both graphs may have a node."""
    graphs_of = {}
    for name, _, _, backward in map(json.loads, graphs.read_text().splitlines()):
        graphs_of.setdefault(name, set()).add(backward)
    for one in compilations:
        for kernels, backward in ((one["kernels"], False), (one["backward"]["kernels"], True)):
            nodes = {origin["node"] for kernel in kernels for origin in kernel["origins"]}
            assert nodes and all(backward in graphs_of[node] for node in nodes)


def assert_times(compilation):
    """The times are those of a compilation with a backward pass. Each of Inductor's steps contains
    the next one."""
    times = [compilation[f"{step}_time"]
             for step in ("backend", "inductor", "code_generation", "compiler")]
    assert times == sorted(times, reverse=True) and len(set(times)) == len(times) and times[-1] > 0
    assert compilation["backward"]["inductor_time"] > 0


def test_with_inductor(optrace, python, run_program, program, validate):
    """The same graphs, breaks, cached and generated code, and results as untraced."""

    def untraced(*arguments, environment, **options):
        variables = {name: str(value) for name, value in environment.items()}
        return run_program([python, *map(str, arguments)], env={**os.environ, **variables},
                           **options)

    graphs = program.with_suffix(".graphs")
    alone, code_alone = run(untraced, program, "inductor", 4, 4, environment={"GRAPHS": graphs},
                            keep_cache=True)
    libraries = libraries_of(program)
    forget_graphs(program)
    result, code, report = traced(optrace, python, program, "inductor", 4, 4, keep_cache=True)
    assert result.stdout == alone.stdout
    assert code == code_alone and any("kernel" in text for text in code.values())
    assert libraries and libraries_of(program) == libraries
    assert_told(report, program, 1)
    assert {one["cache"] for one in report["compilations"]} == {"miss"}
    for one in report["compilations"]:
        assert_times(one)
    # Kernels have the names by which generated code calls them.
    kernels = kernels_of(report)
    assert_fused(kernels, graphs, program)
    assert all(f"{name} = " in "".join(code.values()) for name in kernels)
    for frame in frames(report):
        if frame["name"] in kernels:
            assert (frame["layer"], frame["calls"]) == ("kernel", 2)
            assert frame["library"].endswith(".so") and "torch" not in frame["library"]
            place = frame["source"]
            lines = code[os.path.basename(place["file"])].splitlines()
            assert "kernel(" in lines[place["line"] - 1]
    places = {(name, origin["line"]) for name, origins in kernels.items() for origin in origins}
    assert any("relu" in name and line == LINE["break"] - 1 for name, line in places)
    assert any("softmax" in name and line == LINE["break"] + 1 for name, line in places)
    assert_told_backward(report["compilations"], graphs)
    told = {kernel["name"]: kernel["origins"]
            for one in report["compilations"]
            for kernel in one["kernels"] + one["backward"]["kernels"]}
    assert told == kernels
    # PyTorch's cache doesn't have what was fused; optrace kept it.
    result, _, again = traced(optrace, python, program, "inductor", 4, keep_cache=True)
    assert {one["cache"] for one in again["compilations"]} == {"hit"}
    assert kernels_of(again) == kernels
    explanation = explained(optrace, python, program, "inductor", 4)
    assert_explained_alike(result, again, explanation, program, validate)
    assert_told_backward(explanation[1]["compilations"], graphs)


def test_the_newest_torch(optrace, newest_python, program, validate):
    graphs = program.with_suffix(".graphs")
    _, _, report = traced(optrace, newest_python, program, "inductor", 4, keep_cache=True,
                          environment={"GRAPHS": graphs})
    assert_told(report, program, 1)
    assert_fused(kernels_of(report), graphs, program)
    assert_told_backward(report["compilations"], graphs)
    # From PyTorch's cache, which has both graphs of a function in one piece.
    result, _, again = traced(optrace, newest_python, program, "inductor", 4, keep_cache=True)
    explanation = explained(optrace, newest_python, program, "inductor", 4)
    assert_explained_alike(result, again, explanation, program, validate)
    assert_told_backward(explanation[1]["compilations"], graphs)


def test_one_op(optrace, python, tmp_path):
    report = tmp_path / "report.json"
    result = optrace("F.gelu", "--compile", "--backward", "--python", python, "--format", "json",
                     "-o", report, environment={"TORCHINDUCTOR_CACHE_DIR": tmp_path / "inductor"},
                     timeout=LIMIT)
    assert result.returncode == PASSED, result.stderr
    report = json.loads(report.read_text())
    compiled, = report["compilations"]
    assert compiled["cache"] == "miss" and not compiled["breaks"]
    assert_times(compiled)
    assert not any(frame["layer"] == "compiler" for frame in frames(report))
    assert {name: {origin["op"] for origin in origins}
            for name, origins in kernels_of(report).items()} == {
        "cpp_fused_gelu_0": {"aten::gelu"},
        "cpp_fused_gelu_gelu_backward_0": {"aten::gelu", "aten::gelu_backward"}}


def test_one_op_without_caches(optrace, newest_python, tmp_path):
    """Inductor then forgets what it has generated after each compilation. It works as it does
    outside of these tests."""
    report = tmp_path / "report.json"
    result = optrace("F.gelu", "--compile", "--python", newest_python, "--format", "json", "-o",
                     report, timeout=LIMIT,
                     environment={"TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1",
                                  "TORCHINDUCTOR_VEC_ISA_OK": None,
                                  "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": None})
    assert result.returncode == PASSED, result.stderr
    kernels = kernels_of(json.loads(report.read_text()))
    assert {name: {origin["op"] for origin in origins} for name, origins in kernels.items()} == {
        "cpp_fused_gelu_0": {"aten::gelu"}}


def test_one_op_dry(optrace, python, tmp_path):
    """A kernel of Triton, on an emulated GPU."""
    report = tmp_path / "report.json"
    result = optrace("relu", "--compile", "--dry-run", "--python", python, "--format", "json", "-o",
                     report, environment={"TORCHINDUCTOR_CACHE_DIR": tmp_path / "inductor"},
                     timeout=LIMIT)
    assert result.returncode == PASSED, result.stderr
    kernel, = (frame for frame in frames(json.loads(report.read_text()))
               if frame["layer"] == "device")
    assert kernel["name"] == "triton_poi_fused_relu_0"
    assert [origin["op"] for origin in kernel["detail"]["origins"]] == ["aten::relu"]
    launch, = kernel["detail"]["launches"]
    assert launch["constants"].keys() == {"XBLOCK"} and launch["registers"] >= 16
    assert os.path.isfile(kernel["source"]["file"])


def test_what_torch_compile_refuses(optrace, python, tmp_path):
    result = optrace("relu", "--compile", "--python", python,
                     environment={"TORCHINDUCTOR_CACHE_DIR": tmp_path / "inductor",
                                  "CXX": tmp_path / "missing"})
    assert result.returncode == FAILED and result.stdout == ""
    assert "optrace: torch.compile can't compile nn.ReLU()(x) (" in result.stderr
    assert "Trace the op without --compile." in result.stderr


def parse_with_tlparse(records, folder):
    """Makes tlparse read the files that TORCH_TRACE makes PyTorch write."""
    file, = records.iterdir()
    subprocess.run([pathlib.Path(sys.executable).with_name("tlparse"), file, "-o", folder,
                    "--no-browser"], check=True, capture_output=True)


def told_by_tlparse(records, folder):
    """Returns the IDs of compilations, of those with a graph break, and of those for a guard that
    failed. Later attempts of a compilation have an ID of their own, such as 0/0_1."""
    parse_with_tlparse(records, folder)
    found = {"": set(), "dynamo_graph_break_reason": set(), "recompile_reasons": set()}
    for name, compilation in json.loads((folder / "compile_directory.json").read_text()).items():
        if "-/-" in name:
            continue  # What belongs to no compilation, which the newest torch records, too.
        for artifact in compilation["artifacts"]:
            for kind, identifiers in found.items():
                if artifact["name"].startswith(kind):
                    identifiers.add(name.strip("[]").partition("_")[0])
    return tuple(found.values())


@pytest.mark.parametrize("which", ["python", "newest_python"])
def test_findings_have_the_reasons(optrace, request, program, which):
    """The counts agree with those of tlparse, which reads all of PyTorch's records."""
    python = request.getfixturevalue(which)
    trace, records = program.with_suffix(".trace"), program.parent / "records"
    result = optrace("run", "--python", python, "--trace", trace, program, "eager", 4, 4, 2,
                     environment={"TORCH_TRACE": records}, timeout=LIMIT)
    everything, broken, again = told_by_tlparse(records, program.parent / "tlparse")
    report = json.loads(optrace("report", trace, "--format", "json").stdout)
    assert_told(report, program, 2)
    report = report["compilations"]
    assert {one["id"] for one in report} == everything and len(everything) == 4
    assert {one["id"] for one in report if one["breaks"]} == broken
    assert {one["id"] for one in report if one["recompile_reasons"]} == again
    assert "compiled    4 graphs in " in result.stderr
    assert "; 2 again, for a failed guard; graph breaks at 1 line\n" in result.stderr
    text = optrace("findings", trace).stdout
    assert "breaks the graph of torch.compile here: " in text
    assert "graph_break" in text

