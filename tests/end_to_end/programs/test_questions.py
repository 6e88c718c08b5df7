"""The questions of docs/questions.md, which people asked in PyTorch's issues: the output shows the
answer. The programs beside this file have a function for each situation.
"""
import functools
import json
import pathlib

import pytest

from report_frames import frames_below

PROGRAMS = pathlib.Path(__file__).parent
DONE = 0


@pytest.fixture(scope="module")
def traced(optrace, python, tmp_path_factory):
    """traced("cpu") -> (the report of that program, its trace). Each program runs once."""

    @functools.cache
    def trace(name):
        folder = tmp_path_factory.mktemp(name)
        options = {"cpu": [], "cuda": ["--dry-run"], "ranks": ["--children"]}[name]
        result = optrace("run", "--python", python, *options, "--format", "json", "--trace",
                         folder / "program.trace", "-o", folder / "report.json",
                         PROGRAMS / f"questions_on_{name}.py", timeout=600)
        assert result.returncode == DONE, result.stderr
        report = json.loads((folder / "report.json").read_text())
        return report, folder / "program.trace", result.stdout

    return trace


@pytest.fixture(scope="module")
def below(traced):
    """below("cpu", "autocast") -> the frames below that function of the program."""

    def search(name, function):
        report = traced(name)[0]
        found = [frame for frame in frames_below(report["roots"])
                 if frame["name"].endswith(f"main__.{function}")]  # Or __mp_main__.
        assert found, function
        return list(frames_below([child for frame in found for child in frame["children"]]))

    return search


@pytest.fixture(scope="module")
def op_report(optrace, python):
    """op_report("bmm", *options) -> the frames of `optrace OP`."""

    def trace(*arguments):
        result = optrace(*arguments, "--python", python, "--format", "json")
        assert result.returncode == DONE, result.stderr
        return list(frames_below(json.loads(result.stdout)["roots"]))

    return trace


def ops_called(frames):
    return [frame["op"] for frame in frames if (frame["detail"] or {}).get("step") == "call"]


def variables_of(frames, function):
    """The recorded variables of the only frame of a function, which was called once."""
    frame, = [frame for frame in frames if frame["name"].endswith(function)]
    return [(one["name"], value["value"]) for one in (frame["detail"] or {}).get("variables", [])
            for value in one["values"]]


def library_calls(frames):
    """The calls of libraries, decoded."""
    return [call for frame in frames if frame["layer"] == "library"
            for call in frame["detail"].get("calls", [])]


def path_to(frames, wanted):
    """The frames from the top to the first frame for which `wanted` is true."""
    top = frames[0]

    def search(frame):
        if wanted(frame):
            return [frame]
        for child in frame["children"]:
            if way := search(child):
                return [frame, *way]
        return []

    return search(top)


def copies(frames):
    """(strides of the source, strides of the result) of each aten::copy_."""
    found = []
    for frame in frames:
        if frame["op"] == "aten::copy_" and (frame["detail"] or {}).get("step") == "call":
            arguments = {one["name"]: one["value"] for one in frame["detail"]["arguments"]}
            found.append((arguments["src"]["tensor"]["strides"],
                          arguments["self"]["tensor"]["strides"]))
    return found


def test_call_stack_of_bmm_down_to_blas(op_report):
    """99025."""
    way = path_to(op_report("torch.bmm"), lambda frame: frame["layer"] == "library")
    names = [frame["name"].rpartition("::")[2] for frame in way]
    assert names[0] == "THPVariable_bmm"
    steps = [names.index(name) for name in ("THPVariable_bmm", "call", "wrapper_CPU_bmm",
                                            "bmm_out_or_baddbmm_", "mkl_gemm_batched")]
    assert steps == sorted(steps)
    assert names[-1] == "cblas_sgemm_batch"
    assert all(frame["source"]["line"] for frame in way[:-1])


def test_call_stack_of_softmax(op_report):
    """scalene 733: which C++ functions nn.Softmax calls."""
    names = [frame["name"] for frame in op_report("nn.Softmax")]
    assert any(name.endswith("Softmax.forward") for name in names)
    assert "at::native::structured_softmax_cpu_out::impl" in names
    assert any("softmax_lastdim_kernel" in name for name in names)


def test_where_functions_of_torch_c_nn_are(optrace, python):
    """10778."""
    result = optrace("locate", "torch._C._nn.nll_loss", "--python", python)
    assert result.returncode == DONE, result.stderr
    assert "THPVariable_nll_loss" in result.stdout
    assert "torch/csrc/autograd/generated/python_nn_functions.cpp:" in result.stdout
    assert "aten/src/ATen/native/LossNLL.cpp:" in result.stdout


def test_dispatch_trace_of_a_release_build(optrace, python):
    """145517, 81846, 87751."""
    result = optrace("torch.add", "--python", python, "--requires-grad", "--format", "dispatch")
    assert result.returncode == DONE, result.stderr
    assert result.stdout.splitlines()[:2] == [
        " [call] op=[aten::add.Tensor], key=[AutogradCPU]",
        "  [redispatch] op=[aten::add.Tensor], key=[CPU]"]


def refusing_checks(optrace, python, *arguments):
    """{backend: the check that refused it} for a call of attention."""
    result = optrace("scaled_dot_product_attention", "--python", python, "--format", "json",
                     *arguments, timeout=300)
    assert result.returncode == DONE, result.stderr
    backends = [backend for frame in frames_below(json.loads(result.stdout)["roots"])
                for backend in (frame["detail"] or {}).get("attention_backends", [])]
    return {backend["name"]: backend["refusals"][0]["check"] for backend in backends
            if backend["state"] == "refused"}


def test_grouped_queries_that_fall_back_to_math(below, traced, optrace, python):
    """181528, 154363."""
    assert "aten::_scaled_dot_product_flash_attention" in ops_called(
        below("cuda", "grouped_queries_fast"))
    slow = below("cuda", "grouped_queries_slow")
    assert "aten::_scaled_dot_product_attention_math" in ops_called(slow)
    # It is found, at the line of the program.
    result = optrace("findings", traced("cuda")[1])
    assert ("`grouped_queries` computes attention without a fused kernel "
            "(aten::_scaled_dot_product_attention_math)") in result.stdout
    query, key = (f'torch.rand(1, {heads}, 128, 64, device="cuda")' for heads in (8, 2))
    assert refusing_checks(optrace, python, "--dry-run", "--input",
                           f"{query}, {key}, {key}, enable_gqa=True") == {
        "efficient": "check_batch_size_and_num_heads_dense",
        "flash": "check_tensor_dtype", "cudnn": "check_tensor_dtype"}


def test_which_attention_runs_when(below, optrace, python):
    """107884."""
    assert refusing_checks(optrace, python, "--dry-run=sm_90") == {
        "flash": "check_tensor_dtype", "cudnn": "check_tensor_dtype"}
    for function, op in {
            "attention_flash": "aten::_scaled_dot_product_flash_attention",
            "attention_efficient": "aten::_scaled_dot_product_efficient_attention",
            "attention_with_mask": "aten::_scaled_dot_product_efficient_attention",
            "attention_math": "aten::_scaled_dot_product_attention_math"}.items():
        called = [name for name in ops_called(below("cuda", function))
                  if name.startswith("aten::_scaled_dot_product")]
        assert called == [op], function


def test_transformer_fast_path(below, torch_folder):
    """166166, 135150."""
    op = "aten::_transformer_encoder_layer_fwd"
    assert op in ops_called(below("cpu", "fast_path_taken"))
    without = below("cpu", "fast_path_not_taken")
    assert op not in ops_called(without)
    # The reason is a local variable of forward().
    reasons = [variables_of(frames, "TransformerEncoderLayer.forward")
               for frames in (below("cpu", "fast_path_taken"), without)]
    assert reasons == [
        [("why_not_sparsity_fast_path", "")],
        [("why_not_sparsity_fast_path", "grad is enabled and at least one of query or the "
          "input/output projection weights or biases requires_grad")]]
    assert variables_of(without, "MultiheadAttention.forward")[0][0] == "why_not_fast_path"
    # forward() went on after the check.
    block, = [frame for frame in without if frame["name"].endswith("Layer._sa_block")]
    text = (torch_folder / "nn/modules/transformer.py").read_text().splitlines()
    assert "self._sa_block(x, " in text[block["source"]["call_line"] - 1]
    check = max(number for number, line in enumerate(text, 1) if "if not why_not_sparsity" in line)
    assert block["source"]["call_line"] > check


def test_onednn_and_its_propagation_kind(below):
    """32826, 62788: PyTorch 2.6 uses forward_training in inference, too."""
    convolution, = [call for call in library_calls(below("cpu", "onednn_in_inference"))
                    if call["call"] == "convolution"]
    assert convolution["library"] == "oneDNN"
    assert convolution["propagation"] == "forward_training"
    assert convolution["implementation"]


def test_layouts_and_reorders_of_channels_last(below):
    """34977: the weight is copied to the format of the image, and the result back by reshape()."""
    frames = below("cpu", "channels_last_input")
    copied = copies(frames)
    assert ([144, 9, 3, 1], [144, 1, 48, 16]) in copied
    assert ([10816, 1, 416, 16], [10816, 676, 26, 1]) in copied
    reorders = [call for call in library_calls(frames) if call["call"] == "reorder"]
    formats = [[tensor["format"] for tensor in call["tensors"]] for call in reorders]
    assert all(before != after for before, after in formats)


def test_convolutions_that_fall_off_the_fast_path(below, optrace, python):
    """128936, 167420, for a dtype that oneDNN does not support."""
    assert "aten::mkldnn_convolution" in ops_called(below("cpu", "dilated_fast"))
    assert "aten::slow_conv_dilated2d" in ops_called(below("cpu", "dilated_slow"))
    result = optrace("compare", "conv2d", "conv2d --dtype float64",
                     environment={"OPTRACE_PYTHON": python})
    assert "aten::mkldnn_convolution" in result.stdout
    assert "dnnl_primitive_execute" in result.stdout


def test_what_cudnn_deterministic_changes(below):
    """28777: an argument of the op, and the engines that cuDNN may choose."""
    chosen = {}
    for function in ("benchmarked", "deterministic"):
        frame, = [frame for frame in below("cuda", function)
                  if frame["op"] == "aten::cudnn_convolution"
                  and (frame["detail"] or {}).get("step") == "call"]
        chosen[function] = {one["name"]: one["value"] for one in frame["detail"]["arguments"]}
    first, second = chosen["benchmarked"], chosen["deterministic"]
    assert [name for name in first if first[name] != second[name]] == ["deterministic"]
    assert (first["deterministic"], second["deterministic"]) == (False, True)


def test_which_op_raises_the_determinism_error(below, traced):
    """107999, 74097: the failing kernel is below the op of the forward pass and its line."""
    assert "upsample_bilinear2d_backward_out_cuda" in traced("cuda")[2]  # The error.
    frames = below("cuda", "not_deterministic")
    node, = [frame for frame in frames if frame["name"] == "UpsampleBilinear2DBackward0"]
    names = [frame["name"] for frame in frames_below([node])]
    assert "at::native::structured_upsample_bilinear2d_backward_out_cuda::impl" in names
    forward, = [frame for frame in frames if frame["name"] == "torch.nn.functional.interpolate"]
    assert node in list(frames_below([forward]))
    source = (PROGRAMS / "questions_on_cuda.py").read_text().splitlines()
    assert "functional.interpolate(" in source[forward["source"]["call_line"] - 1]


def test_each_implicit_synchronisation(below, traced, optrace):
    """12461: with the line of Python, and the function of C++ that waits."""
    waits = {frame["name"] for frame in below("cuda", "synchronisations")
             if any(call.get("kind") == "synchronize"
                    for call in (frame["detail"] or {}).get("calls", []))}
    assert waits == {"cudaStreamSynchronize", "cudaDeviceSynchronize"}
    result = optrace("findings", traced("cuda")[1])
    source = (PROGRAMS / "questions_on_cuda.py").read_text().splitlines()
    for code in ("values.sum().item()", "values.nonzero()", "values[values > 1]", "values.cpu()"):
        line, = [number for number, text in enumerate(source, 1) if text.strip() == code]
        assert f"questions_on_cuda.py:{line}\n" in result.stdout


def test_copies_before_a_matrix_product(below):
    """176274, 16594: matmul() makes the transposed tensor contiguous to call mm()."""
    frames = below("cpu", "copy_before_product")
    assert "aten::mm" in ops_called(frames)
    assert copies(frames) == [([64, 2048, 1], [512, 64, 1])]
    way = path_to([frame for frame in frames if frame["op"] == "aten::matmul"],
                  lambda frame: frame["op"] == "aten::copy_")
    assert any(frame["op"] == "aten::reshape" for frame in way)


def test_vmap_without_a_batching_rule(below, traced, optrace):
    """97425, 107240: the loop, the op, and how often it runs."""
    frames = below("cpu", "vmap_without_batching_rule")
    loop, = [frame for frame in frames
             if frame["name"] == "at::functorch::batchedTensorForLoopFallback"]
    assert loop["op"] == "aten::histc"
    kernels = [frame for frame in frames_below([loop])
               if frame["name"] == "at::native::histogram_histc"]
    assert [frame["calls"] for frame in kernels] == [6]
    result = optrace("findings", traced("cpu")[1])
    assert "makes vmap run an op once for each element of the batch (aten::histc)" in result.stdout


def test_where_autocast_casts(below):
    """130847: the kernel of the Autocast key of each listed op casts its arguments."""
    frames = below("cpu", "autocast")
    kernel, *_ = [frame for frame in frames if frame["op"] == "aten::linear"
                  and frame["name"].startswith("at::autocast::WrapFunction_")]
    assert kernel["source"]["file"] == "aten/src/ATen/autocast_mode.h"
    assert "at::autocast::cached_cast" in [frame["name"] for frame in frames_below([kernel])]
    casts = [frame for frame in frames if frame["op"] == "aten::_to_copy"
             and (frame["detail"] or {}).get("step") == "call"]
    assert {argument["value"]["value"] for frame in casts for argument in
            frame["detail"]["arguments"] if argument["name"] == "dtype"} == {"bfloat16", "float32"}


def test_redistribution_of_dtensors(below):
    """168255, 167106: the collectives of each product, and what issued them."""
    gather = "_c10d_functional::all_gather_into_tensor"
    local = below("ranks", "local_product")
    assert not [frame for frame in local if "redistribute_local_tensor" in frame["name"]]
    assert gather not in ops_called(local)
    redistributed = below("ranks", "redistributing_product")
    assert gather in ops_called(redistributed)
    cause, = {frame["name"] for frame in redistributed
              if frame["name"].endswith("redistribute_local_tensor")}
    assert cause == "torch.distributed.tensor._redistribute.redistribute_local_tensor"
