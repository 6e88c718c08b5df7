"""The emulated device's runtime and driver: memory, streams, graphs, GPUs, kernel attributes."""
import json
import pathlib

import pytest

PROGRAM = pathlib.Path(__file__).with_name("emulated_device_program.py")
MIB = 1 << 20
GIB = 1 << 30
NOT_FOUND = 500
INVALID_VALUE = 1
NO_IMAGE = "no kernel image is available for execution on the device"


@pytest.fixture(scope="module")
def cuobjdump(python):
    """The cuobjdump in Triton's wheel."""
    venv = pathlib.Path(python).parent.parent
    (path,) = venv.glob("lib/python*/site-packages/triton/backends/nvidia/bin/cuobjdump")
    return path


@pytest.fixture(scope="module")
def seen(optrace, python, tmp_path_factory):
    """seen("sm_80", 2, arguments...) -> the program's output, parsed."""
    folder = tmp_path_factory.mktemp("reports")

    def run(gpu_model, devices=1, *arguments, environment=None, python=python):
        result = optrace("run", f"--dry-run={gpu_model}", "--devices", devices, "--python", python,
                         "-o", folder / "report", PROGRAM, *arguments, environment=environment,
                         timeout=300)
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout.splitlines()[-1])

    return run


@pytest.fixture(scope="module")
def usual(seen, cuobjdump):
    return seen("sm_80", 2, cuobjdump)


def check_memory(memory, unit):
    """torch allocates memory in multiples of `unit` bytes."""
    assert memory["taken"] == -(-4 * GIB // unit) * unit and memory["given back"]
    assert "OutOfMemoryError" in memory["too much"]
    assert f"total capacity of {memory['total'] / GIB:.2f} GiB" in memory["too much"]
    assert memory["pinned"] == [True, False]
    assert memory["copied there and back"] == memory["copied on the device"] == 3000


def test_memory(usual):
    check_memory(usual["memory"], 2 * MIB)
    assert usual["memory"]["total"] == usual["total"]
    assert usual["pool"] == [0, 3000, 0]


def check_contents(contents):
    """Memory that a kernel wrote reads as zeros; memory it only read is kept (docs/cuda.md)."""
    assert contents["an input"] == [0, 1, 0, 2, 3] and contents["an output"] == [0] * 5
    assert contents["in place"] == [0, 0, 0]
    assert contents["a part in place"] == [0, 1, 0, 0, 4, 5, 6, 7, 8, 9]
    assert contents["ones"] == [1, 1, 1] and contents["complex"] == 2.5
    assert contents["a column"] == 0
    # Known elements are counted, unknown ones are not.
    assert contents["nonzero"] == [3, 200_000, 200_000, 1, 100_000]
    assert contents["unique"] == [1, 0, 1, 300_000, 1]
    assert contents["all"] == [True, False, False, False]
    assert contents["nothing is known to be false"] == [True] * 8
    assert contents["any"] == [False, True, True]
    assert contents["item"] == [5, 0]
    # Comparisons are executed. Unknown elements decide nothing, even if there is only one.
    assert contents["compared as on the CPU"] == []
    assert contents["made of truth values"] == [
        [False, True, False, True, False], [True, False, True, False, True],
        [True, False, True, False, False], [True, False, True, False, False]]
    assert contents["one that is not known"] == {
        "taken to be equal": [True] * 5, "taken not to differ": [False] * 3,
        "zero beside a number": [True, False], "a copy of known ones": False}
    assert contents["shown"][:2] == ["tensor([1, 2], device='cuda:0')",
                                     "tensor([0.], device='cuda:0')"]
    assert contents["shown"][2].count("\n") < 20
    assert contents["graph"] == [[0] * 4, [1] * 4, [5] * 4, [0] * 4]


    # Only a comparison with the CPU's results can fail.
    assert contents["gradients checked"] == [True] * 9 + ["Tensor-likes are not close!"]
    check_structs(contents["written by structs"])


def check_structs(written):
    """Outputs in structs read as zeros; inputs beside them are unchanged."""
    zeros, three = [0, 0, 0], [1, 2, 3]
    assert written.pop("in place") == [zeros, [0, 0], [6, 7], [8]]
    assert written.pop("with numbers") == [zeros, [0, 0]]
    assert written.pop("of three lists") == [zeros, three, three]
    assert written.pop("a part, out of place") == [[1, 0, 0, 4], [0, 0], 0]
    assert written.pop("many") == [0] and written.pop("long") == 0
    assert written.pop("by index") == [zeros] * 8 + [[0, 2], [5, 6]]
    assert written.pop("out=") == [zeros, zeros]
    none = [[0, 0], [0, 0]]
    assert written.pop("products") == [[[1, 1], [1, 1]], none, [[0, 0, 1, 1]] * 2, 0, none]
    assert written.pop("a transform") == ["0j"] * 4
    assert written.pop("views") == [[[0, 0], [0, 0]], [1, 0, 0, 4]]
    # The optimizers write gradients only if there is a scale.
    assert len(written) == 4
    assert list(written.values()) == [[zeros, [4, 5, 6]]] * 4


def test_what_kernels_wrote_is_not_what_was_there_before(usual):
    check_contents(usual["contents"])


def test_expandable_segments(seen, cuobjdump):
    there = seen("sm_90", 1, cuobjdump, environment={
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"})
    check_memory(there["memory"], 20 * MIB)
    check_contents(there["contents"])
    check_figures(there["kernels"], reserve=1024, shared_memory=228 * 1024)


def test_streams_and_events(usual):
    streams = usual["streams"]
    assert streams["elapsed"] >= 0 and streams["done"] and streams["priority"] == -1
    assert "must be recorded" in streams["never recorded"]


def test_graphs_do_their_work_when_they_are_replayed(usual):
    assert usual["graphs"]["before"] != 7 * 8
    assert usual["graphs"]["after"] == 7 * 8
    assert "during capture" in usual["graphs"]["waiting"]


def test_several_devices(usual):
    assert usual["devices"]["count"] == 2 and usual["devices"]["peers"]
    assert usual["devices"]["names"] == [usual["name"]] * 2
    assert usual["devices"]["moved"] == 10 and usual["devices"]["held"][1]
    assert "invalid device ordinal" in usual["devices"]["beyond"]


def test_threads(usual):
    assert usual["threads"] == []


def test_what_is_not_known_fails(usual):
    assert usual["unknown attribute"] == INVALID_VALUE
    assert usual["unknown function"] == NOT_FOUND


def test_figures_of_kernels_are_those_of_their_images(usual):
    check_figures(usual["kernels"], reserve=0, shared_memory=164 * 1024)


def check_figures(kernels, reserve, shared_memory):
    """`reserve`: the system's own bytes that cuobjdump counts if a kernel has shared memory."""
    assert len(kernels) > 20
    assert any(kernel["cuobjdump"][0] < 16 for kernel in kernels)
    assert any(kernel["cuobjdump"][2] > reserve for kernel in kernels)
    for kernel in kernels:
        registers, local, shared = kernel["cuobjdump"]
        shared -= min(shared, reserve)
        # The driver allocates at least 16 registers to every thread.
        assert kernel["driver"] == [max(registers, 16), local, shared]
        assert kernel["blocks"] == blocks_of_256_threads(
            *[*kernel["driver"], shared_memory])
        assert kernel["last bytes"] == [0, 1]


def blocks_of_256_threads(registers, _, shared, shared_memory):
    """Computed as in "Multiprocessor occupancy" of NVIDIA's documentation."""
    warps = 256 // 32
    by_registers = 4 * (65536 // 4 // (-(-registers * 32 // 256) * 256)) // warps
    by_shared = shared_memory // (-(-(shared + 1024) // 128) * 128)
    return min(2048 // 256, 32, by_registers, by_shared)


# (name, compute capability, multiprocessors, whether the reference wheel has an image for it)
GPU_MODELS = [
    # GPUs without their own image run the nearest lower one of their major version.
    ("GTX 1080 Ti", [6, 1], 28, True),
    # These are newer than the reference wheel, so its kernels don't run on them.
    ("sm_100", [10, 0], 148, False)]
MORE_GPU_MODELS = [
    ("p100", [6, 0], 56, True), ("v100-sxm2-32gb", [7, 0], 80, True),
    ("rtx-4090", [8, 9], 128, True), ("sm_89,sms=128,memory=24", [8, 9], 128, True),
    ("sm_75", [7, 5], 40, True), ("sm_80", [8, 0], 108, True), ("sm_86", [8, 6], 72, True),
    ("sm_89", [8, 9], 58, True), ("sm_90", [9, 0], 132, True), ("sm_120", [12, 0], 170, False)]


@pytest.mark.parametrize(
    "gpu_model, capability, multiprocessors, has_image",
    [*GPU_MODELS, *(pytest.param(*model, marks=pytest.mark.verify) for model in MORE_GPU_MODELS)])
def test_gpu_models(seen, gpu_model, capability, multiprocessors, has_image):
    there = seen(gpu_model)
    assert there["capability"] == capability
    assert there["multiprocessors"] == multiprocessors
    if has_image:
        assert there["kernel"] is None
    else:
        assert NO_IMAGE in there["kernel"]


@pytest.mark.verify
def test_the_newest_wheel_runs_on_the_newest_gpu_model(seen, newest_python):
    there = seen("sm_120", python=newest_python)
    assert there["capability"] == [12, 0] and there["kernel"] is None
