"""`--dry-run`: ops and programs on an emulated GPU, through the command."""
import json
import os

import pytest

from report_frames import frames_with_way as frames

USAGE = 2

# Frames of a convolution in 2.6.0, outermost first, without those that are inlined or folded.
CONVOLUTION = [
    "torch.nn.modules.conv.Conv2d.forward", "torch::autograd::THPVariable_conv2d",
    "at::_ops::conv2d::call", "at::native::conv2d_symint", "at::_ops::convolution::call",
    "torch::autograd::VariableType::(anonymous namespace)::convolution",
    "at::_ops::convolution::redispatch", "at::native::convolution", "at::_ops::_convolution::call",
    "at::native::_convolution", "at::_ops::cudnn_convolution::call",
    "at::(anonymous namespace)::(anonymous namespace)::wrapper_CUDA__cudnn_convolution",
    "at::native::cudnn_convolution", "at::native::cudnn_convolution_forward_out",
    "at::native::raw_cudnn_convolution_forward_out", "cudnnBackendExecute"]


@pytest.fixture(scope="module")
def traced(optrace, python, tmp_path_factory):
    """traced("conv2d", "--backward", gpu_model="sm_80") -> the JSON report, cached."""
    folder = tmp_path_factory.mktemp("reports")
    kept = {}

    def trace(*arguments, gpu_model="sm_90"):
        key = (*arguments, gpu_model)
        if key not in kept:
            path = folder / f"{len(kept)}.json"
            result = optrace(*arguments, "--device", "cuda", f"--dry-run={gpu_model}",
                             "--python", python, "--format", "json", "-o", path, timeout=300)
            assert result.returncode == 0, result.stderr
            kept[key] = json.loads(path.read_text())
        return kept[key]

    return trace


def names(report):
    return {frame["name"] for frame, _ in frames(report)}


def is_in_order(wanted, path):
    rest = iter(path)
    return all(name in rest for name in wanted)


def test_the_way_down_to_cudnn(traced):
    report = traced("conv2d")
    assert report["device"] == "cuda"
    assert report["dry_run"] == {"arch": "sm_90", "gpu_model": "NVIDIA H100 80GB HBM3",
                                 "devices": 1}
    ways = [[frame["name"] for frame in (*above, last)] for last, above in frames(report)
            if last["name"] == "cudnnBackendExecute"]
    assert any(is_in_order(CONVOLUTION, way) for way in ways), ways
    (execute,) = [frame for frame, _ in frames(report) if frame["name"] == "cudnnBackendExecute"]
    assert execute["layer"] == "library" and execute["library"].startswith("libcudnn.so")
    assert execute["detail"]["library"] == "cuDNN" and execute["detail"]["emulated"] is True
    (call,) = execute["detail"]["calls"]
    assert call["kind"] == "library" and call["calls"] == 1
    for frame, _ in frames(report):
        if frame["name"] in CONVOLUTION and frame["name"] != "cudnnBackendExecute":
            assert frame["source"] and frame["source"]["line"], frame["name"]


def test_kernels_are_named(traced):
    report = traced("add")
    kernels = [frame for frame, _ in frames(report) if frame["layer"] == "device"]
    assert kernels and all(frame["detail"]["launches"][0]["block"] for frame in kernels)
    assert any("vectorized_elementwise_kernel" in frame["name"] for frame in kernels)


def test_the_dispatcher_says_why(traced):
    (add,) = [frame for frame, _ in frames(traced("add")) if frame["op"] == "aten::add.Tensor"
              and (frame["detail"] or {}).get("step") == "call"]
    assert "CUDA" in add["detail"]["key_set"]
    tensors = [argument["value"]["tensor"] for argument in add["detail"]["arguments"][:2]]
    assert all(tensor["device"] == "cuda:0" for tensor in tensors)


def test_the_backward_pass(traced):
    report = traced("conv2d", "--backward")
    (node,) = [frame for frame, _ in frames(report) if frame["name"] == "ConvolutionBackward0"]
    below = names({"roots": node["children"]})
    assert "at::native::cudnn_convolution_backward" in below
    assert "cudnnBackendExecute" in below


def test_the_part_decides(traced):
    """Half-precision attention is flash attention from sm_80 on, and memory-efficient before."""
    kernels = {}
    for gpu_model in ["sm_75", "sm_80"]:
        report = traced("F.scaled_dot_product_attention", "--dtype", "float16", "--shape",
                        "2x4x64x64", "--shape", "key=2x4x64x64", "--shape", "value=2x4x64x64",
                        gpu_model=gpu_model)
        kernels[gpu_model] = {name for name in names(report) if "attention" in name}
    assert any("flash" in name for name in kernels["sm_80"])
    assert not any("_flash_attention_forward" in name for name in kernels["sm_75"])
    assert any("_efficient_attention_forward" in name for name in kernels["sm_75"])


def test_the_header_says_that_nothing_was_real(optrace, python, tmp_path):
    """And the run leaves nothing in the temporary folder."""
    result = optrace("relu", "--dry-run=sm_86", "--python", python,
                     environment={"TMPDIR": tmp_path})
    assert result.returncode == 0, result.stderr
    assert list(tmp_path.iterdir()) == []
    (line,) = [line for line in result.stdout.splitlines() if line.startswith("dry run")]
    assert "no GPU" in line and "sm_86" in line and "unknown" in line
    assert "device" in result.stdout


def test_without_a_gpu_it_starts_by_itself(optrace, python):
    if os.path.exists("/dev/nvidiactl"):
        pytest.skip("cannot run here: this machine has a GPU")
    result = optrace("relu", "--device", "cuda", "--python", python)
    assert result.returncode == 0, result.stderr
    assert any(line.startswith("dry run") for line in result.stdout.splitlines())


@pytest.mark.verify
def test_the_newest_torch(optrace, newest_python, tmp_path):
    path = tmp_path / "report.json"
    result = optrace("conv2d", "--dry-run", "--python", newest_python, "--format", "json", "-o",
                     path, timeout=300)
    assert result.returncode == 0, result.stderr
    assert "cudnnBackendExecute" in names(json.loads(path.read_text()))


PROGRAM = """
import sys, torch
print(torch.cuda.device_count(), torch.cuda.get_device_capability(0))
x = torch.randn(8, 16, device="cuda")
y = torch.nn.Linear(16, 4).cuda()(x).relu()
print(float(y.sum()), y.to("cuda:1").device)
sys.exit(5)
"""


def test_a_program_runs_dry(optrace, python, tmp_path):
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    path = tmp_path / "report.json"
    result = optrace("run", "--dry-run=sm_89", "--devices", 2, "--python", python, "--format",
                     "json", "-o", path, script, timeout=300)
    assert result.returncode == 5, result.stderr
    first, second = result.stdout.splitlines()
    assert first == "2 (8, 9)" and second.endswith("cuda:1")
    report = json.loads(path.read_text())
    assert report["dry_run"]["arch"] == "sm_89" and report["dry_run"]["devices"] == 2
    found = names(report)
    assert any(name.startswith("cublas") and "gemm" in name.lower() or name == "cublasLtMatmul"
               for name in found), sorted(name for name in found if name.startswith("cu"))
    # .item() reads a value that was not computed; the report marks this.
    readers = [above for frame, above in frames(report)
               if (frame["detail"] or {}).get("reads_device_memory")]
    assert any("item" in frame["name"] for above in readers for frame in above)


@pytest.mark.parametrize("arguments, words", [
    (["relu", "--dry-run=sm_91"], ["sm_91", "sm_90"]),
    (["relu", "--dry-run=90"], ["90", "sm_90"]),
    (["relu", "--dry-run", "--device", "cpu"], ["--dry-run", "--device cpu"]),
    (["relu", "--dry-run", "--devices", "0"], ["--devices"]),
    (["relu", "--dry-run", "--devices", "many"], ["--devices"]),
    (["run", "--dry-run=h101", "-c", "0"], ["h101", "sm_90", "h100-sxm"]),
    (["run", "--dry-run=rtx-4090,sms=0", "-c", "0"], ["sms=0", "from 1 to"]),
    (["run", "--dry-run=sm_89,cores=3", "-c", "0"], ["cores=3", "sms=N"])])
def test_wrong_options(optrace, python, arguments, words):
    result = optrace(*arguments, *([] if arguments[0] == "run" else ["--python", python]))
    assert result.returncode == USAGE and result.stdout == ""
    assert all(word in result.stderr for word in words), result.stderr


def test_a_torch_without_cuda(optrace, run_program, python, tmp_path):
    """A wheel built for the CPU is refused before anything runs."""
    venv = tmp_path / "venv"
    made = run_program([python, "-m", "venv", "--without-pip", str(venv)])
    assert made.returncode == 0, made.stderr
    (site,) = venv.glob("lib/python3.*/site-packages")
    (site / "torch/lib").mkdir(parents=True)
    (site / "torch/__init__.py").write_text("")
    (site / "torch/version.py").write_text("__version__ = '2.6.0+cpu'\ncuda = None\n")
    for arguments in (["relu", "--dry-run"], ["run", "--dry-run", "-c", "0"]):
        result = optrace(*arguments[:2], "--python", venv / "bin/python", *arguments[2:])
        assert result.returncode == USAGE, result.stderr
        assert "built without CUDA" in result.stderr and str(site) in result.stderr


def test_a_python_without_torch(optrace, run_program, python, tmp_path):
    made = run_program([python, "-m", "venv", "--without-pip", str(tmp_path / "bare")])
    assert made.returncode == 0, made.stderr
    bare = tmp_path / "bare/bin/python"
    for arguments in (["relu", "--dry-run"], ["run", "--dry-run", "-c", "0"]):
        result = optrace(*arguments[:2], "--python", bare, *arguments[2:])
        assert result.returncode == USAGE, result.stderr
        assert "no torch" in result.stderr


FAILING = """
import torch
x = torch.zeros(4, device="cuda")
try:
    torch.empty(1 << 50, device="cuda")
except torch.OutOfMemoryError as error:
    print("out of memory:", "GiB" in str(error))
kept = []
try:
    while True:
        kept.append(torch.rand(1 << 22).cuda())
except torch.OutOfMemoryError as error:
    print("the host's memory:", len(kept), "GiB" in str(error))
torch.cuda.set_device(3)
"""


def test_a_cuda_error_reaches_the_program(optrace, python, tmp_path):
    script = tmp_path / "failing.py"
    script.write_text(FAILING)
    result = optrace("run", "--dry-run", "--python", python, "-o", tmp_path / "report", script,
                     timeout=300, environment={"OPTRACE_DRY_RUN_HOST_MEMORY": "100"})
    assert result.returncode == 1
    # Six times 16 MiB fit into 100 MiB.
    assert result.stdout == "out of memory: True\nthe host's memory: 6 True\n"
    assert "invalid device ordinal" in result.stderr
    assert (tmp_path / "report").read_text().startswith("python ")


def test_nothing_in_the_current_folder_is_run(optrace, python, tmp_path):
    """A Python that optrace starts imports nothing from the current folder, such as a checkout."""
    ran = tmp_path / "ran"
    folder = tmp_path / "checkout"
    for name in ("importlib", "torch", "json", "sitecustomize"):
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text(f"open({str(ran)!r}, 'a').write('{name}\\n')\n")
    (folder / "os.py").write_text(f"open({str(ran)!r}, 'a').write('os\\n')\n")
    for arguments in (["relu", "--dry-run"], ["locate", "torch.nn.functional.pad"]):
        result = optrace(*arguments, "--python", python, cwd=folder)
        assert not ran.exists(), ran.read_text()
        assert (result.returncode, result.stderr) == (0, "")
