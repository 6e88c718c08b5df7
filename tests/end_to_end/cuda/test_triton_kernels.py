"""Triton kernels in dry runs: a program's own, called directly and from a compiled function, and
those of Inductor; held against their binaries and their source."""
import json
import pathlib
import re
import subprocess

import pytest

PROGRAM = """\
import torch
import triton
import triton.language as tl


@triton.jit
def softmax(source, target, ROW: tl.constexpr):
    SCALE: tl.constexpr = 2
    place = tl.program_id(0) * ROW + tl.arange(0, ROW)
    value = tl.load(source + place) * SCALE
    value = tl.exp(value - tl.max(value, 0))
    tl.store(target + place, value / tl.sum(value, 0))


@triton.autotune([triton.Config({"BLOCK": 128}, num_warps=4),
                  triton.Config({"BLOCK": 512}, num_warps=8, num_stages=2)],
                 key=["count"], warmup=1, rep=1)
@triton.jit
def triple(source, target, count, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(source + place, mask=place < count)
    tl.store(target + place, 3 * value, mask=place < count)


@triton.jit
def double(source, target, count, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(source + place, mask=place < count)
    tl.store(target + place, 2 * value, mask=place < count)


def doubled(x):
    result = torch.empty_like(x)
    double[(triton.cdiv(x.numel(), 256),)](x, result, x.numel(), BLOCK=256)
    return result


class Tripled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 3 * x

    @staticmethod
    def backward(ctx, gradient):
        result = torch.empty_like(gradient)
        count = gradient.numel()
        triple[lambda chosen: (triton.cdiv(count, chosen["BLOCK"]),)](gradient, result, count)
        return result


@torch.compile
def compiled(x):
    return torch.softmax(doubled(torch.relu(x)), 1)


@torch.compile(mode="max-autotune-no-cudagraphs")
def product(x):
    return x @ x


x = torch.ones(32, 2048, device="cuda")
y = torch.empty_like(x)
softmax[(32,)](x, y, ROW=2048, num_warps=1)
softmax[(8,)](x, y, ROW=8192, num_warps=1)
triple[lambda chosen: (triton.cdiv(x.numel(), chosen["BLOCK"]),)](x, y, x.numel())
leaf = torch.ones(64, 2048, device="cuda", requires_grad=True)
Tripled.apply(leaf).backward(torch.ones_like(leaf))
compiled(x)
torch._inductor.config.max_autotune_gemm_backends = "TRITON"
product(torch.ones(16, 16, device="cuda", dtype=torch.float16))
"""
LINES = PROGRAM.splitlines()


def line_of(start):
    number, = (number for number, line in enumerate(LINES, 1) if line.lstrip().startswith(start))
    return number


def frames(report):
    """Returns each frame with those above it."""
    pending: list = [(root, ()) for root in report["roots"]]
    while pending:
        frame, above = pending.pop()
        yield frame, above
        pending += [(child, (*above, frame)) for child in frame["children"]]


@pytest.fixture(scope="module", params=["python",
                                        pytest.param("newest_python", marks=pytest.mark.verify)])
def traced(request, optrace, tmp_path_factory):
    """The program's file, the launches of Triton kernels with the frames above, and the cubins'
    figures."""
    python = request.getfixturevalue(request.param)
    folder = tmp_path_factory.mktemp("triton")
    program, report = folder / "program.py", folder / "report.json"
    program.write_text(PROGRAM)
    result = optrace("run", "--dry-run=sm_90", "--python", python, "--format", "json", "-o", report,
                     program, timeout=400,
                     environment={"TORCHINDUCTOR_CACHE_DIR": folder / "inductor",
                                  "TRITON_CACHE_DIR": folder / "triton"})
    assert result.returncode == 0, result.stderr
    binaries = {}
    tool, = pathlib.Path(python).parents[1].glob(
        "lib/python*/site-packages/triton/backends/nvidia/bin/cuobjdump")
    for cubin in (folder / "triton").rglob("*.cubin"):
        usage = subprocess.run([tool, "--dump-resource-usage", cubin], check=True,
                               capture_output=True, text=True).stdout
        registers, stack, _, local = map(int, re.search(
            r"REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)", usage).groups())
        binaries.setdefault(cubin.stem, []).append((max(registers, 16), stack + local))
    found = [(frame, above) for frame, above in frames(json.loads(report.read_text()))
             if frame["layer"] == "device" and frame["name"] in binaries]
    return str(program), found, binaries


def launches(found, name):
    return [launch for frame, _ in found if frame["name"] == name
            for launch in frame["detail"]["launches"]]


def test_figures_are_those_of_the_binaries(traced):
    _, found, binaries = traced
    told = {}
    for frame, _ in found:
        for launch in frame["detail"]["launches"]:
            told.setdefault(frame["name"], set()).add(
                (launch["registers"], launch["local_memory"]))
    # Templates that were not chosen ran only while Inductor compiled.
    assert told == {name: set(figures) for name, figures in binaries.items()
                    if name != "triton_mm"}
    assert any(local for figures in told.values() for _, local in figures)


def test_kernels_of_the_program(traced):
    program, found, _ = traced
    for name in "softmax", "triple", "double":
        places = {(frame["source"]["file"], frame["source"]["line"]) for frame, _ in found
                  if frame["name"] == name}
        assert places == {(program, line_of(f"def {name}("))}
    # The lines of the launches.
    lines = {above[at + 1]["source"]["call_line"] for frame, above in found
             for at, caller in enumerate(above[:-1])
             if frame["name"] == "softmax" and caller["name"] == "__main__.<module>"}
    assert lines == {line_of("softmax[(32,)]"), line_of("softmax[(8,)]")}
    for launch in launches(found, "softmax"):
        assert launch["constants"] == {"ROW": 32 * 2048 // launch["grid"][0], "SCALE": 2}
        assert launch["num_warps"] == 1
    wrapped, = launches(found, "double")
    assert wrapped["constants"] == {"BLOCK": 256} and wrapped["grid"] == [256, 1, 1]


def test_autotuning_of_the_program(traced):
    _, found, _ = traced
    kinds = set()
    for frame, above in found:
        if frame["name"] != "triple":
            continue
        callers = {caller["name"] for caller in above}
        backward = "__main__.Tripled.backward" in callers
        tuning = "triton.runtime.autotuner.Autotuner._bench" in callers
        kinds.add((backward, tuning))
        configurations = frame["detail"]["configurations"]
        assert [one["constants"] for one in configurations] == [{"BLOCK": 128}, {"BLOCK": 512}]
        # One for each number of elements. Tuning launches the others, too.
        allowed = [one["constants"] for one in configurations if one["chosen"] or tuning]
        for launch in frame["detail"]["launches"]:
            assert launch["constants"] in allowed
            elements = 2048 * (64 if backward else 32)
            assert launch["constants"]["BLOCK"] * launch["grid"][0] == elements
            assert launch["constants"]["BLOCK"] == {4: 128, 8: 512}[launch["num_warps"]]
    assert kinds == {(False, False), (False, True), (True, False), (True, True)}


def test_tuning_is_no_finding(traced, optrace):
    """While a configuration is chosen, the host waits for the device."""
    report = pathlib.Path(traced[0]).with_name("report.json")
    assert "triton.testing.do_bench" in report.read_text()
    result = optrace("check", report, "--expect", "no finding")
    assert result.returncode == 0, result.stdout


def test_templates_of_inductor(traced):
    _, found, _ = traced
    products = [frame for frame, _ in found if frame["name"].startswith("triton_tem_")]
    assert products
    for frame in products:
        configurations = frame["detail"]["configurations"]
        assert len(configurations) > 2
        chosen, = (one for one in configurations if one["chosen"])
        for launch in frame["detail"]["launches"]:
            assert launch["constants"] == chosen["constants"]
            assert launch["registers"] == chosen["registers"]
            assert launch["constants"]["BLOCK_M"] == launch["constants"]["BLOCK_N"] == 16


def test_kernels_of_inductor(traced):
    _, found, _ = traced
    names = {frame["name"] for frame, _ in found
             if frame["name"].startswith(("triton_poi", "triton_red", "triton_per"))}
    assert len(names) == 2 and any("softmax" in name for name in names)
    for frame, _ in found:
        if frame["name"] not in names:
            continue
        place = frame["source"]
        line = pathlib.Path(place["file"]).read_text().splitlines()[place["line"] - 1]
        assert line.startswith(f"def {frame['name']}(")
        configurations = frame["detail"].get("configurations", [])
        if configurations:
            assert sum(one["chosen"] for one in configurations) == 1 < len(configurations)
        for launch in frame["detail"]["launches"]:
            assert launch["num_stages"] > 0
            assert launch["num_warps"] * 32 == launch["block"][0]
        if "softmax" in frame["name"]:
            # PyTorch knows no line of some nodes of its own.
            assert {origin.get("line") for origin in frame["detail"]["origins"]} - {None} == {
                line_of("return torch.softmax")}
