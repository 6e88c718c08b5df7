"""The reasons for the dispatcher's choices, compared with torch's own data, in release wheels."""
import json
import pathlib

import pytest

from report_frames import frames_below

PROGRAM = pathlib.Path(__file__).with_name("dispatch_program.py")

# The choice required below a case besides the first: op (None: any), dispatch key, kind.
LATER = {
    "plain": ("aten::add.Tensor", "CPU", "kernel"),
    "requires_grad": ("aten::mul.Tensor", "CPU", "kernel"),
    "autocast": ("aten::mm", "CPU", "kernel"),
    "vmap": ("aten::mul.Tensor", "FuncTorchBatched", "kernel"),
    "lazy_conjugate": ("aten::add.Tensor", "Conjugate", "boxed fallback"),
    "sparse": ("aten::add.Tensor", "SparseCPU", "kernel"),
    "subclass": ("aten::add.Tensor", "Python", "python"),
    "functionalized": ("aten::add_.Tensor", "Functionalize", "kernel"),
    "mode": ("aten::add.Tensor", "Python", "python"),
}
PLAIN_FIRST = {"subclass": "python", "mode": "python", "vmap": "boxed fallback",
               "functionalized": "boxed fallback"}


@pytest.fixture(scope="module", params=["reference", "newest"])
def dispatched(request, optrace, validate, tmp_path_factory):
    """(report, truth from torch) of one run of the program."""
    python = request.getfixturevalue("python" if request.param == "reference" else "newest_python")
    folder = tmp_path_factory.mktemp("dispatch")
    report, truth = folder / "report.json", folder / "truth.json"
    result = optrace("run", "--python", python, "--format", "json", "-o", report, str(PROGRAM),
                     truth, timeout=400)
    assert result.returncode == 0, result.stderr
    document = json.loads(report.read_text())
    validate(document, "report")
    return document, json.loads(truth.read_text())


def case_frames(document, name):
    """Returns all frames below the Python function of a case."""
    found = [frame for frame in frames_below(document["roots"])
             if frame["layer"] == "python" and frame["name"].endswith(f"case_{name}")]
    assert found, name
    return [below for frame in found for below in frames_below(frame["children"])]


def choices(frames, op):
    return [frame["detail"] for frame in frames
            if frame["op"] == op and "dispatch_key" in (frame["detail"] or {})]


CASES = ["plain", "requires_grad", "autocast", "inference_mode", "vmap", "lazy_conjugate", "sparse",
         "subclass", "functionalized", "mode"]


@pytest.mark.parametrize("name", CASES)
def test_first_choice_is_what_torch_says(dispatched, name):
    document, truth = dispatched
    case = truth["cases"][f"case_{name}"]
    chosen = [detail for detail in choices(case_frames(document, name), case["op"])
              if detail["step"] == "call" and detail["dispatch_key"] == case["dispatch_key"]]
    assert chosen, case
    detail = chosen[0]
    assert detail["kernel"] == case["kernel"]
    assert detail["fallthrough"] == case["fallthrough"]
    assert sorted(detail["key_set"]) == case["key_set"]
    assert set(case["included"]) <= set(detail["included"])
    tensors = [argument["value"]["tensor"] for argument in detail["arguments"]
               if isinstance(argument["value"], dict) and "tensor" in argument["value"]]
    assert [sorted(tensor["keys"]) for tensor in tensors] == case["arguments"]
    assert detail["dispatch"] == PLAIN_FIRST.get(name, "kernel")
    file, _, line = detail["registered_at"].rpartition(":")
    assert line.isdigit() and f"{file}:{line}" in case["kernel"]


@pytest.mark.parametrize("name", ["subclass", "mode", "lazy_conjugate"])
def test_fallbacks_hand_ops_on(dispatched, name):
    """redispatchBoxed is inlined into them."""
    document, truth = dispatched
    case = truth["cases"][f"case_{name}"]
    assert case["following"] in [detail["dispatch_key"]
                                 for detail in choices(case_frames(document, name), case["op"])
                                 if detail["step"] == "redispatch"]


@pytest.mark.parametrize("name", sorted(LATER))
def test_what_is_handed_on_is_chosen_again(dispatched, name):
    document, _ = dispatched
    op, key, kind = LATER[name]
    assert (key, kind) in [(detail["dispatch_key"], detail["dispatch"])
                           for detail in choices(case_frames(document, name), op)]


def test_arguments_and_results_are_told(dispatched):
    document, _ = dispatched
    detail = next(detail for detail in choices(case_frames(document, "plain"), "aten::add.Tensor")
                  if detail["step"] == "call")
    tensor = {"shape": [4, 4], "strides": [4, 1], "dtype": "float32", "device": "cpu",
              "requires_grad": False}
    values = {argument["name"]: argument["value"] for argument in detail["arguments"]}
    for name in ("self", "other"):
        assert {key: values[name]["tensor"][key] for key in tensor} == tensor
    assert values["alpha"] == 1
    assert detail["results"][0]["relation"] == "fresh"
    assert detail["schema"].startswith("aten::add.Tensor(Tensor self, Tensor other")
    assert detail["grad_mode"] is True


def test_inference_mode_is_told(dispatched):
    document, _ = dispatched
    details = choices(case_frames(document, "inference_mode"), "aten::sub.Tensor")
    assert details[0]["inference_mode"] is True
    assert any(key.startswith("Autograd") for key in details[0]["excluded"])
