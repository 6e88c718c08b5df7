"""What a trace tells of the kernels that Inductor makes in its modes and for its other front ends.

One program compiles all of them. It runs without optrace first. The traced run then finds the
libraries in Inductor's cache, since the code is the same, and compiles next to nothing.
"""
import json
import os
import re
import textwrap

import pytest
from test_compile import QUICK

from attach_target import LIMIT
from report_frames import generated_kernels

PROGRAM = """
import hashlib
import json
import os
import sys

import torch
import torch._inductor
from torch._inductor.graph import GraphLowering

# Inductor then doesn't try out what the processor can do.
torch._inductor.config.cpp.vec_isa_ok = True

lower = GraphLowering.__init__

def note(self, module, *arguments, **options):
    with open(os.environ["GRAPHS"], "a") as file:
        nodes = [[node.name, str(node.meta.get("original_aten")), node.meta.get("stack_trace")]
                 for node in module.graph.nodes]
        print(json.dumps(nodes), file=file)
    lower(self, module, *arguments, **options)

GraphLowering.__init__ = note

def show(name, *tensors):
    content = b"".join(tensor.detach().numpy().tobytes() for tensor in tensors)
    print(name, hashlib.sha256(content).hexdigest())

@torch.library.custom_op("modes::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2

@twice.register_fake
def _(x):
    return torch.empty_like(x)

@torch.compile(mode="reduce-overhead")
def with_custom_op(x):
    y = twice(x.sin() + 1)
    return y.cos()

@torch.compile(mode="max-autotune")
def with_epilogue(x, weights):
    y = x @ weights
    return torch.relu(y + 1)

@torch.compile(dynamic=True)
def reduction(x):
    y = x.exp()
    return y.sum(-1)

@torch.compile
def mutating(x):
    y = x - 3
    x.mul_(y)
    return y

def attention(x):
    def biased(score, batch, head, query, key):
        return score + (query - key)

    return torch.nn.attention.flex_attention.flex_attention(x, x, x, score_mod=biased)

class Convolution(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution, self.norm = torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4)

    def forward(self, x):
        y = self.norm(self.convolution(x))
        return y.tanh()

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 64)

    def forward(self, x):
        y = self.linear(x)
        return (y.tanh() + 2).sum(-1)

def load(package, x):
    # The model is gone when the program ends.
    show("package", torch._inductor.aoti_load_package(package)(x))

def in_modes(x):
    show("custom op", with_custom_op(x), with_custom_op(x))
    show("epilogue", with_epilogue(torch.rand(64, 64), torch.rand(64, 64)))
    show("sizes", reduction(x), reduction(torch.rand(32, 16)))
    changed = x.clone()
    show("mutation", mutating(changed), changed)
    with torch._inductor.config.patch(freezing=True):
        show("frozen", torch.compile(Convolution().eval())(torch.rand(1, 3, 8, 8)))
    if "flex" in sys.argv:
        show("flex", torch.compile(attention)(torch.rand(1, 1, 64, 16)))
    with torch._inductor.config.patch(cpp_wrapper=True):
        show("wrapper", torch.compile(lambda x: (x.sigmoid() - 1) @ x.T)(x))

def main(package):
    torch.manual_seed(0)
    x = torch.rand(64, 8)
    if os.path.exists(package):
        load(package, x)
        return
    with torch.no_grad():
        if "modes" in sys.argv:
            in_modes(x)
        exported = torch.export.export(Model().eval(), (x,))
    torch._inductor.aoti_compile_and_package(exported, package_path=package)
    load(package, x)

if __name__ == "__main__":
    main(sys.argv[1])
"""
PASSED = 0
# Ops that a library or the program computes, or that are views.
NOT_FUSED = {"mm", "addmm", "t", "convolution", "view", "permute", "unsqueeze", "twice"}
# Constants of the blocks of flex attention, which Inductor computes.
FOLDED = {"arange", "index_put", "lt", "new_ones", "new_zeros", "scalar_tensor", "sort", "where"}


def plain(op):
    """Returns the name of an op without its namespace and its overload."""
    parts = re.split(r"::|\.", op)
    return parts[1] if len(parts) > 1 else op


class Graphs:
    """The nodes of the graphs that Inductor got, as PyTorch's metadata describes them."""

    def __init__(self, file):
        self._graphs = []
        for line in file.read_text().splitlines():
            nodes = {}
            for name, op, trace in json.loads(line):
                places = re.findall(r'File "(.+)", line (\d+)', trace or "")
                own = [place for place in places if "/site-packages/torch/" not in place[0]]
                if op != "None":
                    nodes[name] = (plain(op), own[-1:])
            self._graphs.append(nodes)
        self._fused = [set() for _ in self._graphs]

    def assert_has(self, origins):
        """One of the graphs has all nodes of a kernel, with their ops and lines."""
        nodes = {origin["node"]: (plain(origin["op"]),
                                  [(origin["file"], str(origin["line"]))] if "file" in origin
                                  else []) for origin in origins if "op" in origin}
        found = [index for index, graph in enumerate(self._graphs)
                 if nodes.items() <= graph.items()]
        assert found, nodes
        for index in found:
            self._fused[index] |= nodes.keys()

    def missing(self):
        """Returns the ops that no kernel has, but should have."""
        return {op for graph, fused in zip(self._graphs, self._fused)
                for name, (op, _) in graph.items() if name not in fused} - NOT_FUSED - FOLDED


# What the program compiles besides the package, by the version of torch.
IN_ALL_MODES = {"2.6": ["modes"], "newest": ["modes", "flex"]}


@pytest.mark.parametrize("version", [
    "package", pytest.param("2.6", marks=pytest.mark.release),
    pytest.param("newest", marks=pytest.mark.release)])
def test_modes(optrace, python, request, run_program, tmp_path, version):
    interpreter = request.getfixturevalue("newest_python") if version == "newest" else python
    program, report_file = tmp_path / "modes.py", tmp_path / "report.json"
    program.write_text(textwrap.dedent(PROGRAM))
    package, graphs = tmp_path / "model.pt2", tmp_path / "graphs"
    cache = tmp_path / "inductor"
    environment = {"TORCHINDUCTOR_CACHE_DIR": str(cache), "GRAPHS": str(graphs),
                   "TORCHINDUCTOR_FX_GRAPH_CACHE": "0", **QUICK}
    more = IN_ALL_MODES.get(version, [])

    def traced():
        result = optrace("run", "--python", interpreter, "--format", "json", "-o", report_file,
                         program, package, *more, environment=environment, timeout=LIMIT)
        assert result.returncode == PASSED, result.stderr
        return result.stdout, json.loads(report_file.read_text())

    def libraries():
        return sorted(str(path) for path in cache.rglob("*.so"))

    alone = run_program([interpreter, str(program), str(package), *more], timeout=LIMIT,
                        env={**os.environ, **environment})
    assert alone.returncode == PASSED, alone.stderr
    compiled = libraries()
    package.unlink()
    graphs.unlink()
    output, report = traced()
    assert output == alone.stdout
    assert libraries() == compiled
    kernels = list(generated_kernels(report))
    found = Graphs(graphs)
    for kernel in kernels:
        assert kernel["detail"]["origins"], kernel["name"]
        found.assert_has(kernel["detail"]["origins"])
        assert kernel["source"]["line"] > 0
    assert not found.missing()
    # The package, unpacked by another process, and loaded by C++ code.
    packaged = [kernel for kernel in kernels if "tanh" in kernel["name"]
                and "sum" in kernel["name"]]
    output, report = traced()
    assert output == alone.stdout.splitlines(keepends=True)[-1]
    again, = generated_kernels(report)
    assert again["detail"]["origins"] == packaged[0]["detail"]["origins"]


def test_a_window_after_the_compilation(optrace, python, tmp_path):
    """The kernels that were loaded before recording began are shown, too."""
    program, report = tmp_path / "steps.py", tmp_path / "report.json"
    program.write_text(textwrap.dedent("""
        import torch._inductor

        torch._inductor.config.cpp.vec_isa_ok = True
        weights = torch.ones(8, 8, requires_grad=True)
        optimizer = torch.optim.SGD([weights], 0.1)

        @torch.compile
        def loss(x):
            return (x * weights).sin().sum()

        for _ in range(2):
            loss(torch.ones(8)).backward()
            optimizer.step()
    """))
    result = optrace("run", "--from-step", "2", "--count", "1", "--python", python, "--format",
                     "json", "-o", report, program, timeout=LIMIT,
                     environment={"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor")})
    assert result.returncode == PASSED, result.stderr
    kernels = list(generated_kernels(json.loads(report.read_text())))
    assert {kernel["name"] for kernel in kernels} == {"cpp_fused_mul_sin_sum_0",
                                                      "cpp_fused_cos_mul_0"}
    assert {origin["line"] for kernel in kernels for origin in kernel["detail"]["origins"]} == {10}
