"""Why a call of scaled_dot_product_attention does not use each of PyTorch's backends."""
import json
import textwrap

from report_frames import frames

OP = "scaled_dot_product_attention"
SDP_UTILS = "aten/src/ATen/native/transformers/sdp_utils_cpp.h"


def backends(report):
    """{name: the backend} of each call of the op in a report."""
    return [{backend["name"]: backend for backend in frame["detail"]["attention_backends"]}
            for frame in frames(report) if "attention_backends" in (frame["detail"] or {})]


def test_the_check_that_refused_each_backend(optrace, python, tmp_path, validate):
    trace = tmp_path / "attention.trace"
    half = 'torch.zeros(2, 4, 32, 16, dtype=torch.float16, device="cuda")'
    mask = 'torch.zeros(32, 32, dtype=torch.float16, device="cuda")'
    result = optrace(OP, "--python", python, "--dry-run=sm_90", "--input",
                     f"{half}, {half}, {half}, {mask}", "--format", "json", "--trace", trace,
                     timeout=300)
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    validate(report, "report")
    call, = backends(report)
    assert {name: backend["state"] for name, backend in call.items()} == {
        "efficient": "chosen", "cudnn": "possible", "flash": "refused"}
    assert call["flash"]["refusals"] == [{
        "message": "Flash Attention does not support non-null attn_mask.",
        "check": "check_for_attn_mask", "file": SDP_UTILS, "line": 264}]
    assert "attn_mask." not in result.stderr  # PyTorch's warnings are not printed.
    text = optrace("report", trace, "--why").stdout
    assert "↳ efficient: chosen\n" in text
    assert "↳ cudnn: supports this call, too\n" in text
    assert ("↳ flash: refused by check_for_attn_mask (sdp_utils_cpp.h:264): Flash Attention does "
            "not support non-null attn_mask.\n") in text
    assert "refused by" not in optrace("report", trace, "--format", "text").stdout


def test_a_call_in_a_module_on_the_cpu(optrace, python):
    result = optrace("nn.TransformerEncoderLayer", "--requires-grad", "--python", python,
                     "--format", "json")
    assert result.returncode == 0, result.stderr
    call, = backends(json.loads(result.stdout))
    assert call["math"] == {"name": "math", "state": "chosen"}
    refusal, = call["flash"]["refusals"]
    assert refusal["check"] == "check_for_dropout"


def test_a_version_whose_index_has_no_exact_lines(optrace, newest_python):
    result = optrace(OP, "--python", newest_python, "--input",
                     "*torch.zeros(3, 2, 4, 32, 16), dropout_p=0.5", "--format", "json")
    assert result.returncode == 0, result.stderr
    call, = backends(json.loads(result.stdout))
    refusal, = call["flash"]["refusals"]
    assert refusal["message"] == "Both fused kernels do not support non-zero dropout."
    assert refusal["file"] == SDP_UTILS and "check" not in refusal


def test_nothing_is_changed_for_later_calls(python, run_program, repository):
    """PyTorch's switches, its warnings and the function are as before."""
    program = textwrap.dedent("""
        import sys, warnings
        sys.path.insert(0, sys.argv[1])
        import torch
        from optrace_target.calls.attention_backends import AttentionBackends
        from optrace_target.calls.call import Run
        functional = torch.nn.functional
        torch.backends.cuda.enable_mem_efficient_sdp(False)
        def state():
            cuda = torch.backends.cuda
            return (cuda.flash_sdp_enabled(), cuda.mem_efficient_sdp_enabled(),
                    cuda.math_sdp_enabled(), cuda.cudnn_sdp_enabled(), warnings.filters[:],
                    warnings.showwarning, torch.is_warn_always_enabled(),
                    functional.scaled_dot_product_attention, torch.random.get_rng_state().tolist())
        def attention(tensor):
            return functional.scaled_dot_product_attention(tensor, tensor, tensor)
        def failing(tensor):
            functional.scaled_dot_product_attention(tensor, tensor[..., :3], tensor)
        tensor, before = torch.zeros(2, 4, 8, 8), state()
        call, = AttentionBackends(torch).of_run(Run(attention, [tensor], {}, [], []))
        assert call["chosen"] == "flash", call
        assert state() == before
        try:
            AttentionBackends(torch).of_run(Run(failing, [tensor], {}, [], []))
        except RuntimeError:
            assert state() == before
            print("failed")
        """)
    result = run_program([python, "-c", program, str(repository / "target/python")])
    assert (result.returncode, result.stdout, result.stderr) == (0, "failed\n", "")
