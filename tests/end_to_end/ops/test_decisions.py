"""What the functions returned by which PyTorch chooses."""
import json
import textwrap

import pytest

import attach_target
from report_frames import frames

CALLS = 100
PROGRAM = """
    import threading
    import torch

    weight, image = torch.ones(8, 3, 3, 3), torch.ones(4, 3, 56, 56)

    def convolution():
        for _ in range(CALLS):
            torch.conv2d(image, weight)
        try:
            torch.conv2d(image, torch.ones(8, 5, 3, 3))
        except RuntimeError as error:
            print("failed")

    def product():
        torch.mm(torch.ones(64, 64), torch.ones(64, 64))

    def attention():
        ones = torch.ones(2, 4, 8, 16)
        torch.nn.functional.scaled_dot_product_attention(ones, ones, ones, dropout_p=0.5)

    def pointers():
        torch.func.grad(lambda x: (x * 2).sum())(torch.ones(3))
        torch.vmap(lambda x: x.sum(0))(torch.ones(2, 3, 4))
        torch.zeros(3).scatter(0, torch.tensor([0]), torch.ones(1))
        torch.ones(3, 4).tril()

    def plain():
        for _ in range(40):
            torch.conv2d(image, weight, groups=1)

    def transposed():
        weight, image = torch.ones(3, 8, 3, 3).double(), torch.ones(4, 3, 9, 9).double()
        for _ in range(40):
            torch.conv_transpose2d(image, weight)

    for part in (convolution, product, attention, pointers):
        part()
    # They take the same code at the same time, with different results.
    threads = [threading.Thread(target=f) for f in (plain, transposed) * 3]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
"""


def returned(report):
    """{last part of the function's name: its returned values}, for functions with any."""
    found = {}
    for frame in frames(report):
        values = (frame["detail"] or {}).get("returned")
        if values:
            name = frame["name"].split("<")[0] if "::" not in frame["name"].split(">")[-1] \
                else frame["name"].split(">")[-1]
            found.setdefault(name.rpartition("::")[2], values)
    return found


@pytest.fixture(scope="module")
def conv2d(optrace, python, tmp_path_factory):
    """The trace of conv2d, made with both kinds of probes."""

    def trace(probes):
        path = tmp_path_factory.mktemp("conv2d") / f"{probes}.trace"
        result = optrace("conv2d", "--python", python, "--shape", "4x3x56x56", "--probes", probes,
                         "--trace", path, "-o", "/dev/null")
        assert result.returncode == 0, result.stderr
        return path

    return trace


@pytest.mark.parametrize("probes", ["jump", pytest.param("int3", marks=pytest.mark.verify)])
def test_a_convolution_shows_why_it_runs_on_onednn(conv2d, optrace, probes, validate):
    path = conv2d(probes)
    report = json.loads(optrace("report", path, "--format", "json").stdout)
    validate(report, "report")
    values = returned(report)
    assert values["use_mkldnn"] == {"type": "bool", "value": True, "name": "true", "values": [
        {"value": True, "name": "true", "calls": 1}]}
    assert values["use_cudnn"]["value"] is False
    backend = values["_select_conv_backend"]
    assert backend["type"] == "at::native::ConvBackend" and backend["name"] == "Mkldnn"
    (select,) = [frame for frame in frames(report) if "_select_conv_backend" in frame["name"]]
    not_seen = {one["name"].rpartition("::")[2]: one for one in select["detail"]["not_seen"]}
    assert not_seen["is_mkldnn"] == {"name": "at::TensorBase::is_mkldnn", "line": 1212,
                                     "exact": True}
    assert not {"use_mkldnn", "use_cudnn", "is_depthwise"} & not_seen.keys()
    text = optrace("report", path, "--why").stdout
    assert "use_mkldnn  → true" in text
    assert "→ ConvBackend::Mkldnn" in text
    assert "because _select_conv_backend (Convolution.cpp:1202) returned ConvBackend::Mkldnn: " \
        in text
    assert "; inlined or not reached: is_mkldnn (:1212), " in text
    for rule, status in (("conv2d decision use_mkldnn == true", 0),
                         ("conv2d decision _select_conv_backend == Mkldnn", 0),
                         ("conv2d decision _select_conv_backend != ConvBackend::Mkldnn", 1),
                         ("conv2d decision use_cudnn == true", 1),
                         ("conv2d decision use_flash == true", 2),
                         ("add decision use_mkldnn == true", 2)):
        result = optrace("check", path, "--expect", rule)
        assert result.returncode == status, (rule, result.stdout, result.stderr)


@pytest.fixture(scope="module")
def program(optrace, python, tmp_path_factory):
    """program(value of --decisions) -> the trace of PROGRAM."""

    def run(decisions):
        folder = tmp_path_factory.mktemp("program")
        script, trace = folder / "program.py", folder / "program.trace"
        script.write_text(textwrap.dedent(PROGRAM).replace("CALLS", str(CALLS)))
        result = optrace("run", "--python", python, "--decisions", decisions, "--trace", trace,
                         "-o", "/dev/null", script, timeout=300)
        assert result.returncode == 0 and result.stdout == "failed\n", result.stderr
        return trace

    return run


@pytest.fixture(scope="module")
def everything(program):
    return program("all")


@pytest.fixture(scope="module")
def report(everything, optrace, validate):
    """The report of PROGRAM with all decisions."""
    value = json.loads(optrace("report", everything, "--format", "json").stdout)
    validate(value, "report")
    return value


def below(report, function):
    """Returns the part of the report below a function of the program."""
    return {"roots": [frame for frame in frames(report) if frame["name"] == f"__main__.{function}"]}


def test_a_matrix_product_shows_why_it_runs_on_blas(optrace, everything, report):
    values = returned(below(report, "product"))
    assert values["use_blas_gemm"]["name"] == "true"
    assert values["userEnabledMkldnn"]["name"] == "true"
    assert values["mkldnn_bf32_gemm"]["name"] == "false"
    result = optrace("check", everything, "--expect", "mm decision use_blas_gemm == true")
    assert result.returncode == 0, result.stdout


def test_a_dry_run_shows_the_decisions_of_cuda(optrace, python):
    result = optrace("scaled_dot_product_attention", "--python", python, "--dry-run=sm_80",
                     "--dtype", "float16", "--format", "json", timeout=300)
    assert result.returncode == 0, result.stderr
    chosen = [values for values in returned(json.loads(result.stdout)).values()
              if values["type"] in ("at::SDPBackend", "sdp::SDPBackend")]
    assert chosen and chosen[0]["name"] == "flash_attention"


def test_calls_through_pointers(report):
    """The checks of attention's backends are an array of pointers, which a loop calls."""
    values = returned(below(report, "attention"))
    assert values["check_nested_tensor"]["value"] is True
    assert values["check_for_dropout"]["value"] is False
    assert values["use_flash_attention_cpp"]["value"] is False
    assert "check_tensor_shapes" not in values  # The loop ends at the first check that says no.


def test_pointers_and_large_integers_are_recorded_where_they_are_tested(optrace, everything,
                                                                        report):
    found: dict = {}
    for frame in frames(below(report, "pointers")):
        values = (frame["detail"] or {}).get("returned", {"type": None, "values": ()})
        of_function = found.setdefault(frame["name"].rpartition("::")[2], (set(), set()))
        of_function[0].add(values["type"])
        of_function[1].update((value["value"], value.get("name")) for value in values["values"])
    assert found["maybeGetTensorWrapper"] == ({"pointer"}, {(0, "null"), (1, "not null")})
    assert found["actualDim"] == ({"long"}, {(1, None), (2, None)})
    # The size of a tensor, and a count that the caller does not test.
    assert found["ensure_nonempty_size"] == found["batchCountTrilTriu"] == ({None}, set())
    text = optrace("report", everything, "--format", "text").stdout
    assert "maybeGetTensorWrapper  → " in text


@pytest.mark.parametrize("decisions", ["first", "all",
                                       pytest.param("none", marks=pytest.mark.verify)])
def test_programs_record_the_first_calls_of_each_place(optrace, program, report, decisions):
    """A call that fails leaves by an exception, and has no value."""
    if decisions != "all":
        report = json.loads(optrace("report", program(decisions), "--format", "json").stdout)
    if decisions == "none":
        assert not returned(report)
        return
    values = returned(below(report, "convolution"))
    recorded = values["use_mkldnn"]["values"]
    assert [value["value"] for value in recorded] == [True]
    assert recorded[0]["calls"] == (64 if decisions == "first" else CALLS)


def test_values_belong_to_their_threads(report):
    counts: dict = {}
    for function in ("plain", "transposed"):
        for frame in frames(below(report, function)):
            if frame["name"].startswith("at::native::_select_conv_backend"):
                for value in frame["detail"]["returned"]["values"]:
                    key = function, value["name"]
                    counts[key] = counts.get(key, 0) + value["calls"]
    assert counts == {("plain", "Mkldnn"): 120, ("transposed", "SlowTranspose2d"): 120}


def test_a_running_process_records_the_first_calls_of_each_place(optrace, python, tmp_path):
    """Also the second time, when the probes are placed anew."""
    with attach_target.Target(python, tmp_path / "target") as target:
        target.wait_for_lines(2 * attach_target.PERIOD)
        undisturbed = target.results()[:attach_target.PERIOD]
        report = tmp_path / "report.json"
        calls = {}
        for decisions in ("first", "all", "none", "first"):
            result = optrace("attach", target.pid, "--ops", "aten::conv2d", "--count", 100,
                             "--decisions", decisions, "--format", "json", "-o", report)
            assert result.returncode == 0, result.stderr
            calls[decisions] = sum(
                value["calls"] for frame in frames(json.loads(report.read_text()))
                if frame["name"].endswith("::use_mkldnn")
                for value in (frame["detail"] or {}).get("returned", {}).get("values", ()))
        # A convolution calls it twice, from one place: 64 values, and 64 more if the call that was
        # going on when the recording began has come there by another path.
        assert 62 <= calls["first"] <= 130 and calls["none"] == 0 and 190 <= calls["all"] <= 210
        attach_target.end(target, undisturbed)
