"""The registrations in the index, compared with the dispatcher of the wheel.

test_source_coverage.py holds, in `make test`, that the index knows the wheel's kernels by them.
"""
import json
import struct

import pytest

pytestmark = pytest.mark.release

# Files with each kind of macro: autocast, functorch, quantized kernels, fallbacks, generated code.
FILES = ["aten/src/ATen/autocast_mode.cpp", "aten/src/ATen/functorch/BatchRulesDecompositions.cpp",
         "aten/src/ATen/functorch/VmapModeRegistrations.cpp",
         "aten/src/ATen/native/quantized/cpu/BinaryOps.cpp",
         "aten/src/ATen/native/quantized/library.cpp", "build/aten/src/ATen/RegisterMkldnnCPU.cpp",
         "aten/src/ATen/native/mkldnn/RegisterMkldnnOpContextClass.cpp"]
KINDS = ["definition", "kernel", "fallthrough", "fallback", "stub"]

# (op, key, file) of all registrations in the dispatcher; an op's definition has no key.
ASK = """
import json, re, torch
found = []
for op in torch._C._dispatch_get_all_op_names():
    try:
        dump = torch._C._dispatch_dump(op)
    except RuntimeError:
        continue
    for line in dump.splitlines():
        entry = re.match(r"(\\w+)(?:\\[alias\\])?(?: \\(inactive\\))?"
                         r": registered at /pytorch/(.+?):\\d+", line)
        if entry:
            found.append([op, entry[1].replace("debug", ""), entry[2]])
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def registrations(optrace, python, source, tmp_path_factory):
    """{(kind, name, key, file): function} of an index of FILES."""
    path = tmp_path_factory.mktemp("registrations") / "x.index"
    only = [word for file in FILES for word in ("--only", file)]
    made = optrace("source", "add", source, "--python", python, *only,
                   "-o", path, timeout=600)
    assert made.returncode == 0, made.stderr
    data = path.read_bytes()
    _, _, sections, _, start = struct.unpack_from("<8sIIQQ", data)
    parts = {}
    for number in range(sections):
        kind, _, offset, length = struct.unpack_from("<IIQQ", data, 48 + 24 * number)
        parts[kind] = data[start + offset:start + offset + length]
    files, symbols, texts = (parts[kind].decode().split("\0") for kind in (2, 3, 18))

    def numbers(kind):
        return struct.unpack(f"<{len(parts[kind]) // 4}I", parts[kind])

    return {(KINDS[kind], texts[name], texts[key], files[file]):
            symbols[function - 1] * (function > 0)
            for name, key, function, kind, file in zip(numbers(20), numbers(21), numbers(22),
                                                       parts[23], numbers(24))}


def test_what_the_dispatcher_holds_is_registered_here(registrations, python, run_program):
    asked = run_program([python, "-c", ASK], timeout=300)
    assert asked.returncode == 0, asked.stderr
    wanted = {tuple(entry) for entry in json.loads(asked.stdout) if entry[2] in FILES}
    assert {file for _, _, file in wanted} == set(FILES)
    here = {(name, key, file) for _, name, key, file in registrations}
    assert len(wanted) > 1000
    assert wanted - here == set()


def test_every_kernel_names_its_function(registrations):
    kernels = {key: function for key, function in registrations.items() if key[0] == "kernel"}
    assert len(kernels) > 800
    assert [key for key, function in kernels.items() if not function] == []
    autocast = "aten/src/ATen/autocast_mode.cpp"
    assert registrations["fallthrough", "_", "AutocastCPU", autocast] == ""
    assert "qadd" in registrations["kernel", "quantized::add", "QuantizedCPU",
                                   "aten/src/ATen/native/quantized/cpu/BinaryOps.cpp"]
