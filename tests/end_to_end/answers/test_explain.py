"""`optrace explain`: its answers about ops, compared with the index's wheel.

torch._C.parse_schema is the truth for schemas, torch._C._dispatch_dump_table for dispatch tables.
"""
import collections
import json
import re
import subprocess

import pytest

RUNTIME_KEYS = [
    "CPU", "CUDA", "Meta", "SparseCPU", "SparseCUDA", "SparseCsrCPU", "SparseCsrCUDA",
    "QuantizedCPU", "QuantizedCUDA", "MkldnnCPU", "NestedTensorCPU", "NestedTensorCUDA",
    "BackendSelect", "Functionalize", "ADInplaceOrView", "AutogradOther", "AutogradCPU",
    "AutogradCUDA", "AutogradNestedTensor", "Tracer", "AutocastCPU", "AutocastCUDA",
    "FuncTorchBatched"]

# Run by the reference Python: every aten op's schema from torch's parser, and its dispatch table.
TRUTH = r"""
import json, re, sys, torch
def alias(one):
    if one.alias_info is None: return None
    return [sorted(one.alias_info.before_set), sorted(one.alias_info.after_set),
            one.alias_info.is_write]
for name in sys.stdin.read().split():
    try:
        schema = torch._C._get_schema(*(name.split(".", 1) + [""])[:2])
        table = torch._C._dispatch_dump_table(name)
    except RuntimeError:
        continue
    rows = {}
    for line in table.splitlines():
        row = re.match(r"(\w+): (fallthrough )?(?:registered at (\S+):\d+|.*?) \[(.*)\]", line)
        rows[row[1]] = [row[4], bool(row[2]), row[3]]
    print(json.dumps({"op": name, "table": rows, "arguments": [
        [a.name, a.kwarg_only, a.has_default_value(), alias(a), "[]" in str(a.type)
         or str(a.type).startswith("List")] for a in schema.arguments],
        "returns": [[alias(r), str(r.type).startswith("List")] for r in schema.returns]}))
"""


@pytest.fixture(scope="module")
def explain(optrace, python):
    """explain(*arguments): the command's output; with `parsed=True`, its JSON, parsed."""

    def run(*arguments, parsed=False, **options):
        if parsed:
            arguments = (*arguments, "--format", "json")
        result = optrace("explain", *arguments, "--python", python, **options)
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout) if parsed else result.stdout

    return run


@pytest.fixture(scope="module", params=[20, pytest.param(1, marks=pytest.mark.verify)],
                ids=["some", "all"])
def each(request):
    """Of how many ops one is compared with the wheel."""
    return request.param


@pytest.fixture(scope="module")
def ops(python, each):
    """The names of aten ops in the wheel's native_functions.yaml."""
    program = ("import pathlib\n"
               "from torchgen.gen import parse_native_yaml\n"
               "import torchgen\n"
               "p = pathlib.Path(torchgen.__file__).parent / 'packaged/ATen/native'\n"
               "all = parse_native_yaml(str(p / 'native_functions.yaml'), str(p / 'tags.yaml'))\n"
               "for f in all.native_functions: print('aten::' + str(f.func.name))\n")
    return subprocess.run([python, "-c", program], capture_output=True, text=True, check=True,
                          timeout=600).stdout.split()[::each]


@pytest.fixture(scope="module")
def explained(ops, build, python, tmp_path_factory):
    """{op: its answer from `optrace explain -`}"""
    output = tmp_path_factory.mktemp("explained") / "ops.jsonl"
    with output.open("w") as file:
        subprocess.run([build / "optrace", "explain", "-", "--device", "meta", "--python", python],
                       input="\n".join(ops), stdout=file, text=True, check=True, timeout=300)
    answers = {}
    with output.open() as file:
        for line in file:
            answer = json.loads(line)
            answers[answer["asked"]] = {
                "signature": answer["signature"],
                "keys": [entry["key"] for entry in answer["dispatch"]],
                "dispatch": [{name: entry[name] for name in ("key", "reason", "fallthrough")}
                             for entry in answer["dispatch"] if entry["key"] in RUNTIME_KEYS]}
    return answers


@pytest.fixture(scope="module")
def truth(ops, python):
    result = subprocess.run([python, "-c", TRUTH], input="\n".join(ops), capture_output=True,
                            text=True, check=True, timeout=300)
    return {answer["op"]: answer for answer in map(json.loads, result.stdout.splitlines())}


def test_every_schema_is_read_as_torch_reads_it(explained, truth, each):
    assert len(truth) > 2900 // each
    wrong = []
    for name, want in truth.items():
        signature = explained[name]["signature"]
        assert signature is not None and signature["arguments"] is not None, name
        got = []
        for argument in signature["arguments"]:
            alias = argument["alias"]
            got.append([argument["name"], argument["keyword_only"],
                        argument["default"] is not None,
                        alias and [alias["before"], alias["after"], alias["writes"]]])
        expected = []
        for row, mine in zip(want["arguments"], got):
            # torch keeps the names of a list's alias sets with the list's elements.
            if row[4] and row[3] and mine[3]:
                row[3] = [*mine[3][:2], row[3][2]]
            expected.append(row[:4])
        if got != expected or len(want["arguments"]) != len(got):
            wrong.append((name, got, want["arguments"]))
        returned = [one["alias"] and one["alias"]["writes"] for one in signature["returns"]]
        if returned != [row[0] and row[0][2] for row in want["returns"]]:
            wrong.append((name, returned, want["returns"]))
    assert not wrong, wrong[:10]


def test_dispatch_tables_are_the_wheels(explained, truth, each):
    """For each key, the kind of kernel, fallthrough and the file that registers it are the same."""
    right = 0
    classes = collections.Counter()
    examples = {}
    for name, want in truth.items():
        for entry in explained[name]["dispatch"]:
            key = entry["key"]
            reason, fallthrough, file = want["table"].get(key, ["missing", False, None])
            # Meta kernels that Python registers when torch is imported are in no C++ source.
            if file == "/dev/null":
                continue
            got = entry["reason"], entry["fallthrough"]
            if got == (reason, fallthrough):
                right += 1
            else:
                difference = (key, (reason, fallthrough), got, file)
                classes[difference] += 1
                examples.setdefault(difference, name)
    report = "\n".join(f"{count} {difference}, as {examples[difference]}"
                       for difference, count in classes.most_common(40))
    print(report)
    total = right + sum(classes.values())
    assert total > 60000 // each
    assert right >= 0.99 * total, f"{right} of {total} entries are right\n{report}"


def test_dispatch_tables_have_all_keys_in_the_dispatchers_order(explained, truth):
    """torch leaves out keys without a kernel."""
    for name, want in truth.items():
        keys = [key for key in explained[name]["keys"] if key in want["table"]]
        assert keys == list(want["table"]), name


def path_names(answer, device, library):
    """Returns the steps of the first path into a library, as names without their qualifiers."""
    for path in answer["paths"]:
        if path["device"] == device and path["library"] == library and not path["bookkeeping"]:
            return [re.sub(r".*::", "", step["name"]) for step in path["steps"]]
    return []


def assert_in_order(wanted, names):
    rest = iter(names)
    missing = [name for name in wanted if name not in rest]
    assert not missing, f"{missing} of {names}"


def test_conv2d_leads_to_cudnn_and_to_onednn(explain):
    answer = explain("conv2d", parsed=True)
    cuda = path_names(answer, "cuda", "cuDNN")
    assert_in_order(["conv2d", "convolution", "_convolution", "cudnn_convolution",
                     "cudnn_convolution_forward_out", "raw_cudnn_convolution_forward_out",
                     "cudnnBackendExecute"], cuda)
    assert cuda[-1] == "cudnnBackendExecute"
    cpu = path_names(answer, "cpu", "oneDNN")
    assert_in_order(["conv2d", "convolution", "_convolution", "mkldnn_convolution"], cpu)
    text = explain("conv2d")
    assert "aten::mkldnn_convolution " in text and "mkldnn_convolution_transpose" not in text
    assert "cudnnBackendExecute  cuDNN" in text and "cudaMemcpy" not in text
    # Each call has a line.
    for path in answer["paths"]:
        for step in path["steps"][1:]:
            assert step["called"] is None or step["called"]["line"] > 0
    assert not any(path["library"] == "oneDNN" for path in answer["paths"]
                   if path["device"] == "cuda")


def test_add_has_its_stub_with_kernels_for_each_cpu_and_for_cuda(explain):
    answer = explain("add.Tensor", parsed=True)
    stub = next(stub for stub in answer["stubs"] if stub["name"] == "at::native::add_stub")
    keys = {kernel["key"] for kernel in stub["kernels"]}
    assert any(key.startswith("CPU") for key in keys), keys
    cpu = next(entry for entry in answer["dispatch"] if entry["key"] == "CPU")
    roles = {function["role"]: function["name"] for function in cpu["functions"]}
    assert "structured_ufunc_add_CPU" in roles["implementation"]
    assert "meta" in roles
    # The hand-written part (torchgen/dest/ufunc.py).
    assert roles["inner loop"] == "at::native::ufunc::add"
    ends = {path["steps"][-1]["name"] for path in answer["paths"]
            if path["device"] == "cuda" and path["steps"][-1]["kind"] == "device kernel"}
    assert {"at::native::vectorized_elementwise_kernel",
            "at::native::unrolled_elementwise_kernel"} <= ends
    first = next(path for path in answer["paths"] if path["device"] == "cuda")
    assert first["steps"][-1]["kind"] == "device kernel"


def test_an_out_variant_of_torchgens_leads_to_what_it_wraps(explain):
    answer = explain("embedding.out", parsed=True)
    cpu = next(entry for entry in answer["dispatch"] if entry["key"] == "CPU")
    functions = {one["role"]: one for one in cpu["functions"]}
    assert functions["kernel"]["source"]["file"].startswith("build/aten/src/ATen/Composite")
    assert functions["functional"]["name"] == "at::native::embedding_symint"
    assert functions["functional"]["source"]["file"] == "aten/src/ATen/native/Embedding.cpp"


def test_an_op_for_quantized_tensors_alone(explain):
    """The op's two kernels have the same name, in two files."""
    answer = explain("quantized::conv2d.new", parsed=True)
    kernels = {entry["key"]: entry for entry in answer["dispatch"]}
    for key, folder in (("QuantizedCPU", "quantized/cpu/"), ("QuantizedCUDA", "quantized/cudnn/")):
        assert folder in kernels[key]["registered"]["file"]
        assert folder in kernels[key]["functions"][0]["source"]["file"]
    text = explain("quantized::conv2d.new")
    for key in ("QuantizedCPU", "QuantizedCUDA"):
        assert re.search(rf"^  quantized::conv2d\.new  {key}$", text, re.MULTILINE)


def test_convolution_s_backward(explain):
    answer = explain("convolution", parsed=True)
    derivative, = answer["derivatives"]
    assert derivative["node"] == "ConvolutionBackward0"
    assert derivative["apply"]["file"] == "torch/csrc/autograd/generated/Functions.cpp"
    assert "aten::convolution_backward" in [op["op"] for op in derivative["ops"]]
    assert any("convolution_backward" in formula["text"] for formula in derivative["backward"])
    assert derivative["forward"]
    assert not any("dequantize" in op["op"] for op in derivative["ops"])


@pytest.mark.parametrize("spelling, op", [
    ("conv2d", "aten::conv2d"), ("torch.conv2d", "aten::conv2d"), ("F.conv2d", "aten::conv2d"),
    ("nn.Conv2d", "aten::conv2d"), ("aten::conv2d", "aten::conv2d"),
    ("torch.nn.functional.gelu", "aten::gelu"), ("add", "aten::add.Tensor"),
    ("add.out", "aten::add.out"), ("add_Tensor", "aten::add.Tensor"),
    ("Tensor.add_", "aten::add_.Tensor"), ("torch.linalg.solve", "aten::linalg_solve"),
    ("nn.LayerNorm", "aten::layer_norm"), ("torch.fft.rfft", "aten::fft_rfft")])
def test_spellings(explain, spelling, op):
    assert explain(spelling, "--device", "meta", parsed=True)["op"] == op


def test_the_text_reads_well(explain):
    text = explain("conv2d")
    lines = text.splitlines()
    assert lines[0] == "aten::conv2d"
    assert len(lines) <= 80
    assert "aten/src/ATen/native/native_functions.yaml:" in text
    assert "Dispatch table" in text
    assert "\x1b" not in text
    assert "\x1b[1maten::conv2d" in explain("conv2d", "--colour", "always")
    assert len(explain("conv2d", "--all").splitlines()) > len(lines)


def test_json_keeps_to_its_schema(explain, validate):
    for op in ("conv2d", "add.out", "t", "split.Tensor", "cudnn_convolution", "aten::set_data"):
        validate(explain(op, "--device", "cpu", parsed=True), "explain")


@pytest.mark.parametrize("arguments, words", [
    (["conv2dd"], ["no op conv2dd", "Did you mean", "conv2d"]),
    (["add", "--overload", "Tensr"], ["no overload Tensr", "Tensor"]),
    (["conv2d", "--device", "toaster"], ["toaster is not a device"]),
    ([""], ["no op given"]),
    (["a" * 100000], ["longer than that of any op"]),
    (["\x1b[31m"], ["no op \\x1b[31m"]),
    (["conv2d", "--format", "xml"], ["xml"]),
    (["conv2d", "-o", "/no/such/folder/x.json"], ["/no/such/folder"]),
    ([], ["OP is required"])])
def test_bad_input_is_refused_with_a_remedy(optrace, python, arguments, words):
    result = optrace("explain", *arguments, environment={"OPTRACE_PYTHON": python})
    assert result.returncode == 2, result.stderr
    assert result.stdout == ""
    assert result.stderr.startswith("optrace: ")
    assert len(result.stderr.splitlines()) >= 2
    for word in words:
        assert word in result.stderr


def test_names_of_standard_input_get_an_object_a_line(build, python):
    result = subprocess.run([build / "optrace", "explain", "-", "--device", "meta",
                             "--python", python], input="conv2d\nnonsense_op\n\n" + "x" * 5000,
                            capture_output=True, text=True, timeout=600, check=False)
    assert result.returncode == 0, result.stderr
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    assert [answer.get("op") for answer in answers] == ["aten::conv2d", None, None, None]
    assert all("remedy" in answer for answer in answers[1:])


def test_a_file_appears_whole(explain, tmp_path):
    assert explain("mm", "--format", "json", "-o", tmp_path / "mm.json") == ""
    assert json.loads((tmp_path / "mm.json").read_text())["op"] == "aten::mm"
    assert [one.name for one in tmp_path.iterdir()] == ["mm.json"]
