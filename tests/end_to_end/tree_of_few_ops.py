"""A tree of PyTorch's source that declares few ops.

Everything else in it is PyTorch's own, but it lacks the units that are compiled for several
processors or by nvcc, and headers that only the libraries on top of the C++ API include are empty.
Its code is generated in a fourth of the time, and its headers are parsed in less than a third,
because both grow with the number of ops, and because it has fewer groups of headers.
"""
import re
import shutil

NATIVE = "aten/src/ATen/native"
OPS = re.compile(r"\w*conv\w*|(addbmm|empty|gelu|relu|tanh|zeros)_?")

# No unit outside of these folders needs their headers.
EMPTY_HEADERS = """
api/include/torch/torch.h distributed/autograd/context/container.h distributed/c10d/ProcessGroup.hpp
distributed/c10d/Utils.hpp distributed/rpc/rref_context.h distributed/rpc/torchscript_functions.h
jit/frontend/ir_emitter.h jit/frontend/sugared_value.h jit/serialization/export.h
jit/serialization/import.h jit/serialization/pickler.h jit/tensorexpr/kernel.h
lazy/core/lazy_graph_executor.h lazy/ts_backend/ts_node.h profiler/orchestration/observer.h
""".split()


def is_kept(op):
    return OPS.fullmatch(op) is not None


def copy_with_few_ops(source, folder):
    """Makes a copy of the source that declares only OPS. A test may change its c10 folder."""
    own = ("aten", "c10", "tools", "torch/csrc")
    for part in (".", "torch"):
        (folder / part).mkdir()
        for entry in (source / part).iterdir():
            if str(entry.relative_to(source)) not in (*own, "torch"):
                (folder / part / entry.name).symlink_to(entry)
    for part in own:
        shutil.copytree(source / part, folder / part)
    for header in EMPTY_HEADERS:
        path = folder / "torch/csrc" / header
        assert path.exists(), header
        path.write_text("")
    _filter_entries(folder / NATIVE / "native_functions.yaml", "- func: ")
    _filter_entries(folder / "tools/autograd/derivatives.yaml", "- name: ")
    _filter_entries(folder / "tools/autograd/deprecated.yaml", "- name: ")
    _filter_lists(folder / NATIVE / "ts_native_functions.yaml")
    for pattern in ("aten/**/*.cu", "torch/csrc/**/*.cu", "aten/**/native/cpu/*.cpp",
                    "aten/**/quantized/cpu/kernels/*.cpp"):
        for path in list(folder.glob(pattern)):
            path.unlink()


def _filter_entries(path, start):
    """Removes the other ops from a YAML list whose entries begin with `start` and the op."""
    head, *entries = re.split(r"^(?=- )", path.read_text(), flags=re.MULTILINE)
    kept = [entry for entry in entries if is_kept(re.match(start + r" *(\w+)", entry)[1])]
    assert 0 < len(kept) < len(entries)
    path.write_text(head + "".join(kept))


def _filter_lists(path):
    """Removes the other ops from the lists of names in the YAML of the lazy backend."""

    def filtered(match):
        kept = [line + "\n" for line in match[2].splitlines()
                if (item := re.match(r" +- +(?:func: )?(\w+)", line)) and is_kept(item[1])]
        return f"{match[1]}:\n{''.join(kept)}" if kept else f"{match[1]}: []\n"

    path.write_text(re.sub(r"^(full_codegen|ir_gen|supported|symint|autograd):\n((?:[ #].*\n|\n)*)",
                           filtered, path.read_text(), flags=re.MULTILINE))
