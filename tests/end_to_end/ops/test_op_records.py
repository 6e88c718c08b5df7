"""Op records: built for the traced torch, and harmless. Without a compiler, the trace reports that
they are missing."""
import concurrent.futures
import json
import os
import re
import stat
import subprocess
import textwrap

import pytest

from report_frames import frames


def calls(report, op):
    """Returns the details of an op's calls."""
    return [frame["detail"] for frame in frames(report)
            if frame["op"] == op and (frame["detail"] or {}).get("step") == "call"]


PROGRAM = """
    import hashlib
    import os
    import sys
    import torch

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 2

    def relations(x):
        torch.neg(x)
        x.t()
        x.mul_(2)
        torch.split(x, 2)

    def many_kinds(x):
        for i in range(20000):
            torch.add(x, i)

    relations(torch.ones(3, 4))
    many_kinds(torch.ones(4))
    torch.manual_seed(7)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8),
                                torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8 * 36, 5))
    optimizer = torch.optim.Adam(model.parameters())
    for step in range(3):
        optimizer.zero_grad()
        loss = Double.apply(model(torch.randn(4, 3, 8, 8))).pow(2).sum()
        loss.backward()
        optimizer.step()
    try:
        torch.mm(torch.ones(2, 3), torch.ones(2, 3))
    except RuntimeError as error:
        print(error)
    child = os.fork()
    if child == 0:
        os._exit(int(torch.ones(5).sum()))
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    digest = hashlib.sha256()
    for tensor in [*model.state_dict().values(), loss.detach(), torch.get_rng_state()]:
        digest.update(tensor.contiguous().numpy().tobytes())
    # Nobody kept a tensor: a gradient is stolen, not copied, only if it has one owner.
    owners = [sys.getrefcount(parameter.grad) for parameter in model.parameters()]
    print(digest.hexdigest(), owners, model[0].weight.grad.storage().data_ptr() != 0)
"""


@pytest.fixture(scope="module")
def traced(optrace, python, tmp_path_factory):
    """(the report of PROGRAM, the result, the program's file)."""
    folder = tmp_path_factory.mktemp("program")
    script, report = folder / "program.py", folder / "report.json"
    script.write_text(textwrap.dedent(PROGRAM))
    result = optrace("run", "--python", python, "--format", "json", "-o", report, script,
                     timeout=300)
    assert result.returncode == 0, result.stderr
    return json.loads(report.read_text()), result, script


def below(report, function):
    """Returns the part of the report below a function of the program."""
    return {"roots": [frame for frame in frames(report) if frame["name"] == f"__main__.{function}"]}


def test_results_are_fresh_views_or_aliases(traced):
    report = below(traced[0], "relations")

    def relation(op):
        result = next(detail["results"][0] for detail in calls(report, op) if "results" in detail)
        result = result[0] if isinstance(result, list) else result
        return result["relation"], result.get("of")

    assert relation("aten::neg") == ("fresh", None)
    assert relation("aten::t") == ("view", "self")
    assert relation("aten::mul_.Tensor") == ("alias", "self")
    assert relation("aten::split.Tensor") == ("view", "self")


def test_calls_of_very_many_kinds_are_bounded(traced):
    report = below(traced[0], "many_kinds")
    details = calls(report, "aten::add.Tensor")
    assert sum(frame["calls"] for frame in frames(report) if frame["op"] == "aten::add.Tensor"
               and (frame["detail"] or {}).get("step") == "call") == 20000
    assert all(len(detail.get("variants", [])) <= 16 for detail in details)


def test_results_are_bit_equal(traced, run_program, python):
    report, result, script = traced
    plain = run_program([python, script])
    assert plain.returncode == 0, plain.stderr
    assert result.stdout == plain.stdout
    assert calls(report, "aten::conv2d")[0]["arguments"]


def assert_private(built_for_torch):
    """Asserts that only the user may read what was built. Returns the library."""
    for folder in (built_for_torch.parent, built_for_torch):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    inputs, library = sorted(built_for_torch.iterdir())
    assert inputs.name == "inputs" and library.name == "liboptrace_ops.so"
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in (library, inputs))
    return library


def assert_no_library_of_its_own(library):
    """The process's own libstdc++ is used, since two of them crash where they share a stream."""
    needed, defined = (subprocess.run(command, check=True, capture_output=True, text=True).stdout
                       for command in (["objdump", "-p", library],
                                       ["nm", "-DC", "--defined-only", library]))
    assert re.search(r"NEEDED\s+libstdc\+\+\.so\.6$", needed, re.MULTILINE)
    assert "std::locale::" not in defined and "std::ostream::" not in defined


@pytest.fixture
def compiler_with_its_own_library(tmp_path):
    """A compiler that links libstdc++ statically, as those do that are installed apart."""
    compiler = tmp_path / "apart-g++"
    compiler.write_text('#!/bin/sh\nexec g++ -static-libstdc++ "$@"\n')
    compiler.chmod(0o700)
    return compiler


def symbols(library, which):
    listed = subprocess.run(["nm", "--dynamic", f"--{which}-only", "--format=posix", library],
                            check=True, capture_output=True, text=True).stdout
    return {line.split()[0] for line in listed.splitlines()}


def calls_of_torch(agent):
    """What an agent imports of torch, by the namespaces of its functions."""
    return {name for name in symbols(agent, "undefined") if re.search("3c10|2at|5torch", name)}


def functions_for_optrace(agent):
    return {name for name in symbols(agent, "defined") if name.startswith("optrace")}


@pytest.mark.verify
def test_agent_is_built_once_by_several_at_once(optrace, python, tmp_path, build,
                                                compiler_with_its_own_library):
    """What is compiled here is the same agent as the prebuilt one."""
    cache = tmp_path / "cache"

    def trace(number):
        report = tmp_path / f"{number}.json"
        result = optrace("add", "--python", python, "--format", "json", "-o", report,
                         environment={"OPTRACE_CACHE_DIR": cache, "OPTRACE_PREBUILT": "0",
                                      "CXX": compiler_with_its_own_library}, timeout=400)
        assert result.returncode == 0, result.stderr
        return json.loads(report.read_text())

    with concurrent.futures.ThreadPoolExecutor() as pool:
        reports = list(pool.map(trace, range(2)))
    assert all(calls(report, "aten::add.Tensor")[0]["dispatch_key"] for report in reports)
    built_for_torch, = (cache / "op-agents").iterdir()
    library = assert_private(built_for_torch)
    built = library.stat().st_mtime_ns
    trace(3)
    assert library.stat().st_mtime_ns == built
    prebuilt = build / "lib/optrace/prebuilt/op-agents/torch-2.6.0/liboptrace_ops.so"
    for agent in (library, prebuilt):
        assert_no_library_of_its_own(agent)
    assert calls_of_torch(prebuilt) == calls_of_torch(library) and len(calls_of_torch(library)) > 20
    assert functions_for_optrace(prebuilt) == functions_for_optrace(library)


@pytest.fixture(scope="module")
def cache_without_agent(tmp_path_factory):
    """A cache in which no agent is built. The plans of the probes are kept in it."""
    return tmp_path_factory.mktemp("cache")


def test_without_a_compiler_the_trace_says_what_it_lacks(optrace, python, tmp_path,
                                                         cache_without_agent):
    trace, nothing = tmp_path / "add.trace", tmp_path / "empty"
    nothing.mkdir()
    environment = {"PATH": nothing, "CXX": None, "OPTRACE_PREBUILT": "0",
                   "OPTRACE_CACHE_DIR": cache_without_agent}
    result = optrace("add", "--python", python, "--trace", trace, environment=environment,
                     timeout=400)
    assert result.returncode == 0, result.stderr
    assert "op records" in result.stdout + result.stderr
    assert "apt install g++" in result.stdout + result.stderr
    report = optrace("report", trace, "--format", "json")
    assert report.returncode == 0, report.stderr
    (call,) = list(calls(json.loads(report.stdout), "aten::add.Tensor"))[:1]
    assert "arguments" not in call and "dispatch_key" not in call


def test_a_compiler_that_fails_is_named(optrace, python, tmp_path, cache_without_agent):
    compiler = tmp_path / "no-compiler"
    compiler.write_text("#!/bin/sh\necho 'x.cpp:1: error: this is none' >&2\nexit 1\n")
    compiler.chmod(0o700)
    result = optrace("add", "--python", python, timeout=400,
                     environment={"CXX": compiler, "OPTRACE_PREBUILT": "0",
                                  "OPTRACE_CACHE_DIR": cache_without_agent})
    assert result.returncode == 0, result.stderr
    assert "this is none" in result.stdout + result.stderr
    assert os.listdir(cache_without_agent / "op-agents") == []
