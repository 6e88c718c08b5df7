"""`optrace explain OP --why-not BACKEND`: the functions that decide about a backend."""
import json

import pytest

CONVOLUTION = "aten/src/ATen/native/Convolution.cpp"


@pytest.fixture(scope="module")
def why_not(optrace, python, validate):
    """why_not("conv2d", "cudnn", *options) -> {device: functions on the way}, the whole answer."""

    def ask(op, backend, *options):
        result = optrace("explain", op, "--why-not", backend, *options, "--format", "json",
                         "--python", python, timeout=300)
        assert result.returncode == 0, result.stderr
        answer = json.loads(result.stdout)
        validate(answer, "why_not")
        return {one["device"]: one["functions"] for one in answer["devices"]}, answer

    return ask


def named(predicates):
    """{last part of the name: the predicate}, of a list and of all lists in it."""
    found: dict = {}
    for one in predicates:
        found.setdefault(one["name"].rpartition("::")[2], one)
        found = {**named(one["predicates"]), **found}
    return found


def test_what_decides_whether_a_convolution_runs_on_cudnn(why_not):
    devices, _ = why_not("conv2d", "cudnn")
    assert list(devices) == ["cuda"]
    function = devices["cuda"][-1]
    assert function["name"] == "at::native::_convolution"
    assert "aten::cudnn_convolution" in [entry["name"] for entry in function["entries"]]
    select, = [one for one in function["predicates"] if one["values_of_backend"]]
    assert select["name"] == "at::native::_select_conv_backend"
    assert select["type"] == "at::native::ConvBackend"
    assert select["values_of_backend"] == ["Cudnn", "CudnnTranspose"]
    assert (select["source"]["file"], select["source"]["line"]) == (CONVOLUTION, 1202)
    assert select["called"]["line"] == 1515
    use = named(select["predicates"])["use_cudnn"]
    assert (use["type"], use["source"]["line"], use["about_backend"]) == ("bool", 419, True)
    assert "compiledWithCuDNN" in named(use["predicates"])
    # Other backends come first or last in the same choice.
    assert "use_mkldnn" in [one["name"].rpartition("::")[2] for one in select["predicates"]]


def test_checks_of_attention_that_are_called_through_pointers(why_not):
    devices, _ = why_not("scaled_dot_product_attention", "flash", "--device", "cuda")
    all_of_them = named(devices["cuda"][0]["predicates"])
    choice = all_of_them["_fused_sdp_choice_cuda"]
    assert choice["type"] is None
    flash = named(choice["predicates"])["can_use_flash_attention"]
    check = named(flash["predicates"])["check_for_attn_mask"]
    assert check["by_reference"] and check["called"]["line"] == 608


def test_each_overload_for_a_dtype_and_what_uses_the_backend_if_it_can(why_not):
    devices, _ = why_not("mm", "mkldnn", "--device", "cpu")
    gemms = [function for function in devices["cpu"] if function["name"].endswith("cpublas::gemm")]
    asked = {name for function in gemms for name in named(function["predicates"])}
    assert {"mkldnn_bf16_gemm", "mkldnn_bf32_gemm"} <= asked
    works, = [function for function in devices["cpu"] if function["name"].endswith("::mkldnn_gemm")]
    assert {"use_mkldnn_bf16_matmul", "use_mkldnn_fp16_matmul",
            "use_mkldnn_bf32_matmul"} <= named(works["predicates"]).keys()


@pytest.mark.parametrize("op, backend, predicate", [
    ("batch_norm", "cudnn", "_select_batch_norm_backend"),
    ("lstm", "cudnn", "cudnn_is_acceptable"),
    ("addmm", "cublaslt", "blasPreferredBackend"),
    ("gelu", "onednn", "use_mkldnn"),
])
def test_other_ops(why_not, op, backend, predicate):
    devices, _ = why_not(op, backend)
    assert any(predicate in named(function["predicates"])
               for functions in devices.values() for function in functions)


def test_which_of_them_said_no_in_a_call(why_not, optrace, op_trace, python):
    trace = op_trace("conv2d", "--dtype", "float64")
    devices, answer = why_not("conv2d", "mkldnn", "--call", trace)
    assert list(devices) == ["cpu"] and answer["call"]["calls"] == 1
    predicates = named(devices["cpu"][-1]["predicates"])
    assert predicates["use_mkldnn"]["returned"]["value"] is False
    assert predicates["_select_conv_backend"]["returned"]["name"] == "Slow2d"
    text = optrace("explain", "conv2d", "--why-not", "mkldnn", "--call", trace, "--python",
                   python).stdout
    assert "in the call _select_conv_backend (Convolution.cpp:1202) → ConvBackend::Slow2d\n" in text
    assert "            use_mkldnn (Convolution.cpp:516) → false\n" in text
    # What decides about cuDNN is called on a CPU, too, although the CPU has no way to it.
    devices, answer = why_not("conv2d", "cudnn", "--call", trace)
    assert list(devices) == ["cuda"] and answer["call"]["device"] == "cpu"
    select = named(devices["cuda"][-1]["predicates"])["_select_conv_backend"]
    assert named(select["predicates"])["use_cudnn"]["returned"]["value"] is False
    text = optrace("explain", "conv2d", "--why-not", "cudnn", "--call", trace, "--python",
                   python).stdout
    assert "on cpu, where no call path of the op leads to the backend" in text


def test_a_call_that_is_made_for_it(why_not):
    _, answer = why_not("scaled_dot_product_attention", "flash", "--call",
                        "scaled_dot_product_attention --dry-run=sm_80")
    message, = answer["call"]["attention"]
    assert message.startswith("flash: refused by check_tensor_dtype (sdp_utils_cpp.h:93): Expected")


@pytest.mark.parametrize("arguments, what, remedy", [
    (["conv2d", "--why-not", "flash"], "no call path of aten::conv2d on cpu or cuda leads to a "
     "backend 'flash'", "Those of the op are: cudnn, miopen, mkldnn, nnpack."),
    (["con2d", "--why-not", "cudnn"], "has no op con2d", "Did you mean conv2d"),
    (["conv2d", "--why-not", "mkldnn", "--call", "missing.trace"], "missing.trace", ""),
    (["conv2d", "--call", "conv2d"], "--call shows what the predicates of --why-not returned",
     "Name a backend"),
    (["-", "--why-not", "cudnn"], "--why-not explains one op", "Name the op"),
    (["conv2d", "--why-not", ""], "--why-not needs the name of a backend", "For example"),
])
def test_wrong_questions(optrace, python, arguments, what, remedy):
    result = optrace("explain", *arguments, "--python", python)
    assert result.returncode == 2 and result.stdout == ""
    assert what in result.stderr and remedy in result.stderr


def test_a_call_of_another_op(optrace, op_trace, python, tmp_path):
    report = tmp_path / "add.json"
    result = optrace("report", op_trace("add"), "--format", "json", "-o", report)
    assert result.returncode == 0, result.stderr
    result = optrace("explain", "conv2d", "--why-not", "mkldnn", "--call", report, "--python",
                     python)
    assert result.returncode == 2
    assert f"{report} has no call of aten::conv2d" in result.stderr
