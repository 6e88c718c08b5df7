"""`optrace check`: checks a run against rules."""
import json
import os
import xml.etree.ElementTree

import pytest

DONE = 0
FAILED = 1
USAGE = 2

PROGRAM = """
import torch
x = torch.randn(2, 3, 16, 16, device="cuda")
model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU()).cuda()
y = model(x)
if y.sum() > 0:
    pass

class Same(torch.nn.Module):
    def __init__(self):
        super().__init__()
    def forward(self, x):
        return x

class Inheriting(Same):
    pass

class Unused(torch.nn.Module):
    def forward(self, x):
        return x

def leads_to_nothing(): pass
def leads_once(i): return torch.zeros(1) if i == 2 else None
def items(n):
    for i in range(n):
        yield torch.zeros(1)

leads_to_nothing(), leads_to_nothing()
for i in range(5):
    leads_once(i)
list(items(3))
same = Same()
same(1), same(2)
"""


@pytest.fixture(scope="module")
def trace(optrace, python, tmp_path_factory):
    """A dry run's trace."""
    folder = tmp_path_factory.mktemp("check")
    script = folder / "program.py"
    script.write_text(PROGRAM)
    result = optrace("run", "--dry-run", "--python", python, "--trace", folder / "t.trace", "-o",
                     folder / "tree", script, timeout=300)
    assert result.returncode == 0, result.stderr
    return folder / "t.trace"


@pytest.fixture(scope="module")
def report(optrace, trace):
    path = trace.with_suffix(".json")
    assert optrace("report", trace, "--format", "json", "-o", path).returncode == 0
    return path


@pytest.fixture(scope="module")
def check(optrace):
    def run(checked, *rules, options=()):
        return optrace("check", checked, *(word for rule in rules for word in ("--expect", rule)),
                       *options)
    return run


HOLDS = ["calls cudnnBackendExecute", "calls aten::conv2d == 1", "never calls *slow_conv*",
         "conv2d@cuda uses cudnn", "launches <= 100", "no fallback to CPU", "no failure",
         "no kernel of dtype float64", "calls torch.nn.modules.conv.Conv2d.forward",
         "calls torch.conv2d == 1", "calls F.conv2d == 1", "calls torch.Tensor.sum == 1",
         "calls torch.randn == 1", "calls torch.Tensor.__gt__ == 1"]


def test_rules_that_hold(check, trace, report):
    for checked in (trace, report):
        result = check(checked, *HOLDS)
        assert result.returncode == DONE, result.stdout + result.stderr
        assert f"{len(HOLDS)} of {len(HOLDS)} rules passed" in result.stdout


def test_calls_of_python_functions_that_lead_to_no_op(check, trace, report):
    holding = ["calls __main__.leads_to_nothing == 2", "calls __main__.leads_once == 5",
               "calls __main__.items == 1", "calls __main__.Same == 3",
               "calls __main__.Same.forward == 2", "never calls __main__.Unused",
               "never calls nn.LSTM.forward", "calls nn.Conv2d == 2",
               "calls nn.Module.__call__ == 5", "never calls torch._VF.lstm"]
    result = check(trace, *holding)
    assert result.returncode == DONE, result.stdout + result.stderr
    result = check(trace, "never calls __main__.leads_to_nothing", "calls __main__.leads_once <= 3",
                   "never calls __main__.Same", "calls __main__.items == 3")
    assert result.returncode == FAILED and result.stdout.count("failed  ") == 4, result.stdout
    # What a class inherits has the name of the other class.
    assert check(trace, "never calls __main__.Inheriting").returncode == USAGE
    # A report has no source of what was never called.
    result = check(report, *holding[:5], *holding[6:])
    assert result.returncode == DONE, result.stdout + result.stderr
    assert check(report, "never calls __main__.Unused").returncode == USAGE


def test_counts_that_may_be_too_small(check, trace):
    """at::native::add_kernel is not a function of a capability; at::parallel_for is inlined; a stub
    is no function, and the slow path is taken for what records ops."""
    for rule in ("never calls at::native::AVX2::add_kernel", "never calls at::parallel_for",
                 "never calls at::native::add_stub", "never calls copy_stub",
                 "calls c10::Dispatcher::callWithDispatchKeySlowPath",
                 "calls at::TensorIteratorBase::build <= 100"):
        assert check(trace, rule).returncode == USAGE, rule


def test_rules_that_do_not(check, trace):
    result = check(trace, "never calls cudnnBackendExecute", "launches <= 0",
                   "conv2d never uses cudnn", "no implicit copy", "copies == 0")
    assert result.returncode == FAILED and result.stderr == ""
    assert result.stdout.count("failed  ") == 5
    assert "at cudnnBackendExecute" in result.stdout
    assert "0 of 5 rules passed, 5 failed" in result.stdout


# For each kind of rule, one that the program satisfies and one that it doesn't.
KINDS = [
    ("calls aten::conv2d", "never calls aten::conv2d"),
    ("calls conv2d <= 1", "calls conv2d > 1"),
    ("calls cudnnBackend*", "never calls cudnnBackend*"),
    ("calls *elementwise_kernel*", "never calls *elementwise_kernel*"),
    ("calls at::native::cudnn_convolution*", "never calls at::native::cudnn_convolution*"),
    ("calls torch.nn.modules.*.forward", "never calls torch.nn.modules.*.forward"),
    ("never calls at::native::slow_conv2d_forward", "calls at::native::slow_conv2d_forward"),
    ("conv2d@cuda uses cudnn", "conv2d@cuda never uses cudnn"),
    ("conv2d@cuda never uses cublas", "conv2d@cuda uses cublas"),
    ("ops <= 1000", "ops <= 1"),
    ("kernels <= 1000", "kernels <= 1"),
    ("launches <= 100", "no launch"),
    ("library calls <= 1000", "library calls <= 1"),
    ("copies <= 100", "no copy"),
    ("synchronisations <= 100", "no synchronisation"),
    ("implicit copies <= 1", "no implicit copy between devices"),
    ("no kernel of dtype float64", "no kernel of dtype float32"),
]


def test_every_kind_of_rule(check, trace):
    holding = check(trace, *(good for good, _ in KINDS))
    assert holding.returncode == DONE, holding.stdout + holding.stderr
    failing = check(trace, *(bad for _, bad in KINDS), options=["--format", "json"])
    assert failing.returncode == FAILED, failing.stderr
    for rule in json.loads(failing.stdout)["rules"]:
        assert rule["status"] == "failed", rule
        assert rule["path"] or rule["found"] in ("never called", "0"), rule


def test_kinds_of_rules_that_this_program_has_nothing_of(check, report, tmp_path):
    """A fallback to the CPU, a failing call and a frame without source, added to a report, fail."""
    whole = json.loads(report.read_text())
    rules = ["no fallback to CPU", "no failure", "no frame without source"]

    def frames():
        pending = list(whole["roots"])
        while pending:
            frame = pending.pop()
            yield frame
            pending += frame["children"]

    for frame in frames():
        frame["source"] = frame["source"] or {"file": "somewhere.cpp", "line": 1}
    path = tmp_path / "edited.json"
    path.write_text(json.dumps(whole))
    assert check(path, *rules).returncode == DONE
    kernel = next(frame for frame in frames() if frame["layer"] == "kernel")
    kernel["name"] = "at::native::cpu_fallback"
    kernel["source"] = None
    library = next(frame for frame in frames() if frame["layer"] == "library")
    library["detail"] = {"calls": [{"kind": "refused", "error": "cudaErrorInvalidValue",
                                    "calls": 1}]}
    path.write_text(json.dumps(whole))
    result = check(path, *rules)
    assert result.returncode == FAILED and "0 of 3 rules passed, 3 failed" in result.stdout


# Names in the index of PyTorch's source, called or not.
KNOWN = ["aten::svd", "svd", "aten::addbmm.out", "at::native::slow_conv2d_forward",
         "at::native::im2col_kernel", "*slow_conv*", "torch.nn.modules.rnn.LSTM.forward",
         "cudnnRNNForward", "cublasGemmEx", "cublasLtMatmul", "ncclAllReduce", "cublas*",
         "dnnl_primitive_execute", "pytorch_flash::flash_fwd_kernel",
         "*flash_fwd_kernel<*double*", "at::native::reflection_pad2d_out_kernel"]
# Unknown names, and the name to be suggested for each.
UNKNOWN = [("aten::convolutoin", "convolution"), ("at::native::mkldnn_convolutoin",
           "at::native::mkldnn_convolution"), ("cudnnRNNForwrd", "cudnnRNNForward"),
           ("*flash_fwd_kernell*", "flash_fwd_kernel"), ("conv9d", "torch.nn.Conv2d"),
           ("torch.nn.modules.rnn.LSTM.forwrd", "torch.nn.modules.rnn.LSTM.forward")]


def test_names_are_looked_up_in_the_index(check, trace):
    known = check(trace, *(f"never calls {name}" for name in KNOWN))
    assert known.returncode == DONE, known.stdout
    unknown = check(trace, *(f"never calls {name}" for name, _ in UNKNOWN),
                    options=["--format", "json"])
    assert unknown.returncode == USAGE
    for rule, (name, meant) in zip(json.loads(unknown.stdout)["rules"], UNKNOWN):
        assert rule["status"] == "error" and name in rule["found"], rule
        assert "Did you mean" in rule["remedy"] and meant in rule["remedy"], rule
    assert check(trace, *(f"never calls {name}" for name, _ in UNKNOWN),
                 options=["--allow-unknown"]).returncode == DONE


# Users' names of functions that the program calls.
CALLED = ["torch.nn.Conv2d", "nn.ReLU", "torch.nn.Sequential.forward", "torch.nn.functional.relu",
          "F.conv2d", "torch.conv2d", "torch.Tensor.sum", "torch.Tensor.__gt__",
          "torch.nn.Module.cuda", "torch.ops.aten.conv2d", "torch.ops.aten.relu.default",
          "aten::conv2d.default", "gt.Scalar", "torch.nn.functional.conv*"]
# Names in PyTorch that no trace contains.
UNTOLD = ["torch.nn.functional", "torch.nn.functional.max_pool2d", "torch.nn.Conv2d.cuda",
          "torch.nn.BatchNorm2d", "torch.Size", "c10::DispatchKey", "at::Tensor",
          "c10::TensorImpl::set_sizes_contiguous"]


def test_names_stand_for_what_pytorch_means_by_them(check, trace):
    result = check(trace, *(f"never calls {name}" for name in CALLED), options=["--format", "json"])
    assert result.returncode == FAILED, result.stderr
    for rule in json.loads(result.stdout)["rules"]:
        assert rule["status"] == "failed", rule
    result = check(trace, *(f"never calls {name}" for name in UNTOLD), "linear@cuda never uses mkl",
                   options=["--format", "json"])
    assert result.returncode == USAGE, result.stderr
    for rule in json.loads(result.stdout)["rules"]:
        assert rule["status"] == "error" and rule["remedy"], rule


def test_rules_of_a_file_and_the_json(check, trace, tmp_path, validate):
    rules = tmp_path / "rules.yaml"
    rules.write_text("rules:\n- conv2d uses cudnn\n- {expect: launches <= 0, name: none, "
                     "because: it is slow}\n")
    result = check(trace, rules, options=["--format", "json"])
    assert result.returncode == FAILED
    said = json.loads(result.stdout)
    validate(said, "check")
    assert [rule["status"] for rule in said["rules"]] == ["passed", "failed"]
    assert said["rules"][1]["line"] == 3 and said["rules"][1]["because"] == "it is slow"
    assert said["rules"][1]["path"][-1]["layer"] == "device"
    assert check(trace, rules, options=["--format", "json"]).stdout == result.stdout


def test_formats_for_ci(check, trace):
    rules = ["conv2d uses cudnn", "launches <= 0"]
    junit = check(trace, *rules, options=["--format", "junit"])
    suite = xml.etree.ElementTree.fromstring(junit.stdout.encode()).find("testsuite")
    assert suite.attrib == {"name": "optrace check", "tests": "2", "failures": "1", "errors": "0"}
    assert [case.find("failure") is None for case in suite] == [True, False]
    sarif = json.loads(check(trace, *rules, options=["--format", "sarif"]).stdout)
    # The properties that SARIF 2.1.0 requires, and those that code scanning reads.
    assert sarif["version"] == "2.1.0" and sarif["$schema"].endswith("sarif-2.1.0.json")
    driver = sarif["runs"][0]["tool"]["driver"]
    assert driver["name"] == "optrace"
    assert [rule["shortDescription"]["text"] for rule in driver["rules"]] == rules
    results = sarif["runs"][0]["results"]
    for found in results:
        assert found["message"]["text"] and found["level"] == "error"
        assert driver["rules"][found["ruleIndex"]]["id"] == found["ruleId"]
        place = found["locations"][0]["physicalLocation"]
        assert place["artifactLocation"]["uri"].endswith("program.py")
    # Each line of the program that launches is a separate result.
    lines = [found["locations"][0]["physicalLocation"]["region"]["startLine"] for found in results]
    assert len(lines) > 1 and len(set(lines)) == len(lines)
    github = check(trace, *rules, options=["--format", "github"]).stdout.splitlines()
    assert github[0].startswith("::error title=launches <= 0,file=")
    assert github[-1] == "1 of 2 rules passed"


def test_an_op_is_traced(optrace, python):
    result = optrace("check", f"conv2d --dry-run=sm_80 --python {python}", "--expect",
                     "conv2d@cuda uses cudnn", "--expect", "kernels >= 1")
    assert result.returncode == DONE, result.stdout + result.stderr
    result = optrace("check", f"conv2d --python {python}", "--expect", "conv2d@cpu uses onednn",
                     "--expect", "conv2d@cuda uses cudnn")
    assert result.returncode == FAILED and "aten::" not in result.stderr
    assert "conv2d was never called" in result.stdout


@pytest.mark.parametrize("rule", ["calls at::native::no_such_function", "never calls aten::bogus",
                                  "conv9d uses cudnn", "no graph break"])
def test_a_rule_that_can_never_fail(check, trace, rule, tmp_path):
    result = check(trace, "launches >= 0", rule)
    assert result.returncode == USAGE
    assert "error   " + rule in result.stdout and "1 of 2 rules passed" in result.stdout
    assert result.stderr == ""  # Reported once: here or, if the answer goes to a file, on stderr.
    filed = check(trace, rule, options=["-o", tmp_path / "answer"])
    assert filed.returncode == USAGE and filed.stdout == ""
    assert rule in filed.stderr and "can't be decided" in filed.stderr
    if rule != "no graph break":
        assert check(trace, rule, options=["--allow-unknown"]).returncode in (DONE, FAILED)


def test_an_empty_trace_fails(optrace, check, report, tmp_path):
    empty = json.loads(report.read_text())
    empty["roots"] = []
    path = tmp_path / "empty.json"
    path.write_text(json.dumps(empty))
    result = check(path, "launches <= 12", "no copy")
    assert result.returncode == FAILED
    assert result.stdout.count("the report is empty") == 2


@pytest.mark.parametrize("rules, words", [
    (["lunches <= 1"], ["lunches", "launches"]),
    (["conv2d uses magic"], ["magic", "cudnn"]),
    (["no kernel of dtype floaty"], ["floaty", "float64"]),
    ([""], ["empty"]), (["missing.yaml"], ["missing.yaml"])])
def test_what_is_no_rule(check, trace, rules, words):
    result = check(trace, *rules)
    assert result.returncode == USAGE and result.stdout == ""
    assert all(word in result.stderr for word in words), result.stderr


def test_a_rule_file_with_an_unknown_key(check, trace, tmp_path):
    rules = tmp_path / "rules.json"
    rules.write_text('{"rules": ["no copy"],\n "ruls": []}')
    result = check(trace, rules)
    assert result.returncode == USAGE and result.stdout == ""
    assert f"{rules}:2" in result.stderr and "'ruls' is unknown" in result.stderr


def bad_traces(trace, report, folder):
    (folder / "folder.trace").mkdir()
    yield folder / "folder.trace", "not a regular file"
    os.mkfifo(folder / "pipe.trace")
    yield folder / "pipe.trace", "not a regular file"
    with open(folder / "sparse.trace", "wb") as sparse:
        sparse.truncate(2 << 30)
    yield folder / "sparse.trace", "not an optrace trace"
    with open(folder / "sparse.json", "wb") as sparse:
        sparse.write(b"{")
        sparse.truncate(2 << 30)
    yield folder / "sparse.json", "larger than a GiB"
    whole = trace.read_bytes()
    (folder / "half.trace").write_bytes(whole[:len(whole) // 2])
    yield folder / "half.trace", "truncated"
    (folder / "half.json").write_text(report.read_text()[:5000])
    yield folder / "half.json", "half.json is not a report"
    (folder / "empty.trace").write_bytes(b"")
    yield folder / "empty.trace", "it is empty"
    (folder / "other.json").write_text(
        report.read_text().replace("optrace.report/1", "optrace.report/7", 1))
    yield folder / "other.json", "optrace.report/7"
    yield folder / "none.trace", "No such file"


def test_traces_that_are_none(check, trace, report, tmp_path):
    for path, words in bad_traces(trace, report, tmp_path):
        result = check(path, "no copy")
        assert result.returncode == USAGE and result.stdout == "", path
        assert words in result.stderr and path.name in result.stderr, result.stderr


def test_nothing_half_written(check, trace, tmp_path):
    output = tmp_path / "out.xml"
    output.write_text("before")
    check(trace, "lunches <= 1", options=["--format", "junit", "-o", output])
    assert output.read_text() == "before"
    assert check(trace, "launches <= 0", options=["--format", "junit", "-o", output]
                 ).returncode == FAILED
    assert output.read_text().startswith("<?xml")


def test_an_older_report_is_read(check, report, tmp_path):
    """Properties added by later minor versions may be missing; unknown ones are ignored."""
    old = json.loads(report.read_text())
    pending = list(old["roots"])
    while pending:
        frame = pending.pop()
        if frame["detail"]:
            frame["detail"].pop("calls", None)
            frame["detail"]["from_the_future"] = [{}]
        pending += frame["children"]
    path = tmp_path / "old.json"
    path.write_text(json.dumps(old))
    assert check(path, "calls cudnnBackendExecute").returncode == DONE


# test_report_readers.py has the same for reports of one trace, and of two runs of another op.
@pytest.mark.verify
def test_the_same_input_gives_the_same_bytes(optrace, python, trace):
    """Reports of one trace are equal; those of two runs are equal except for thread ids."""
    def traced(*arguments):
        result = optrace(*arguments, timeout=300)
        assert result.returncode == 0, result.stderr
        return result.stdout
    render = ["report", trace, "--format", "json"]
    assert traced(*render) == traced(*render)

    def without_threads(text):
        said = json.loads(text)
        pending = list(said["roots"])
        while pending:
            frame = pending.pop()
            frame["thread"] = 0
            pending += frame["children"]
        return json.dumps(said)
    op = ["relu", "--python", python, "--format", "json"]
    traced(*op)
    assert without_threads(traced(*op)) == without_threads(traced(*op))
    run = ["run", "--python", python, "--format", "json", "-o", "/dev/stdout", "-c",
           "import torch; torch.nn.functional.relu(torch.ones(3))"]
    traced(*run)
    assert without_threads(traced(*run)) == without_threads(traced(*run))
