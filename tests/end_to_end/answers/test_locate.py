"""`optrace locate` and `optrace layers` on the shipped index, compared with its wheel (`inspect`
has the places of Python's names) and with PyTorch's source.
"""
import json
import os
import pathlib
import re
import signal
import stat
import subprocess
import time

import pytest

DONE, USAGE, FAILED, INTERRUPTED = 0, 2, 3, 130
YAML = "aten/src/ATen/native/native_functions.yaml"
GENERATED = "torch/csrc/autograd/generated/"
COMMIT = "https://github.com/pytorch/pytorch/blob/2236df1770800ffea5697b11b0bb0d910b2e59e1/"


@pytest.fixture(scope="session")
def run(optrace, python):
    """run(*arguments): `optrace locate` with the reference Python."""

    def start(*arguments, environment=None, **options):
        return optrace("locate", *arguments, environment={"OPTRACE_PYTHON": python,
                                                          **(environment or {})}, **options)

    return start


@pytest.fixture(scope="session")
def locate(run, validate):
    """locate(name, *arguments) -> the answers."""

    def ask(name, *arguments):
        result = run(name, "--format", "json", *arguments)
        assert result.returncode == DONE, result.stderr
        value = json.loads(result.stdout)
        validate(value, "locate")
        assert value["source"] == {"version": "2.6.0", "made_from": "source", "of_torch": True,
                                   "exact": True}
        return value["answers"]

    return ask


@pytest.fixture(scope="session")
def ask_lines(run_bytes):
    """ask_lines(names) -> one object for each name, from `optrace locate -`."""

    def ask(names, *arguments):
        output = run_bytes("\n".join(names).encode() + b"\n", *arguments)
        answers = [json.loads(line) for line in output.splitlines()]
        assert len(answers) == len(names)
        return answers

    return ask


@pytest.fixture(scope="session")
def run_bytes(optrace, python):
    """run_bytes(input, *arguments) -> the output of `optrace locate -`."""

    def start(given, *arguments):
        result = subprocess.run([*optrace.command, "locate", "-", *arguments], input=given,
                                timeout=600, capture_output=True,
                                env={**os.environ, "OPTRACE_PYTHON": python}, check=False)
        assert result.returncode == DONE, result.stderr
        return result.stdout

    return start


# Spelling: kind, name, file, text of the line.
NAMES = {
    "nn.Linear": ("python class", "torch.nn.modules.linear.Linear",
                  "torch/nn/modules/linear.py", "class Linear(Module):"),
    "torch.nn.ConvTranspose2d": ("python class", "torch.nn.modules.conv.ConvTranspose2d",
                                 "torch/nn/modules/conv.py", "class ConvTranspose2d("),
    "nn.Linear.forward": ("python function", "torch.nn.modules.linear.Linear.forward",
                          "torch/nn/modules/linear.py", "def forward("),
    "nn.Linear.to": ("python function", "torch.nn.modules.module.Module.to",
                     "torch/nn/modules/module.py", "def to("),
    "optim.Adam.step": ("python function", "torch.optim.adam.Adam.step", "torch/optim/adam.py",
                        "def step("),
    "torch.optim.lr_scheduler.StepLR": ("python class", "torch.optim.lr_scheduler.StepLR",
                                        "torch/optim/lr_scheduler.py", "class StepLR("),
    "functional.relu": ("python function", "torch.nn.functional.relu", "torch/nn/functional.py",
                        "def relu("),
    "F.cross_entropy": ("python function", "torch.nn.functional.cross_entropy",
                        "torch/nn/functional.py", "def cross_entropy("),
    "aten::add.Tensor": ("op", "aten::add.Tensor", YAML, "- func: add.Tensor("),
    "add.Tensor": ("op", "aten::add.Tensor", YAML, "- func: add.Tensor("),
    "add_Tensor": ("op", "aten::add.Tensor", YAML, "- func: add.Tensor("),
    "torch.ops.aten.add.Tensor": ("op", "aten::add.Tensor", YAML, "- func: add.Tensor("),
    "conv2d": ("op", "aten::conv2d", YAML, "- func: conv2d("),
    "aten::conv2d": ("op", "aten::conv2d", YAML, "- func: conv2d("),
    "at::native::convolution": ("function", "at::native::convolution",
                                "aten/src/ATen/native/Convolution.cpp", "at::Tensor convolution("),
    "native::conv2d": ("function", "at::native::conv2d_symint",
                       "aten/src/ATen/native/Convolution.cpp", "conv2d_symint("),
    "at::TensorIteratorBase::build": ("function", "at::TensorIteratorBase::build",
                                      "aten/src/ATen/TensorIterator.cpp",
                                      "void TensorIteratorBase::build("),
    "at::native::add(at::Tensor const&, c10::Scalar const&, c10::Scalar const&)": (
        "function", "at::native::add", "aten/src/ATen/native/BinaryOps.cpp", "Tensor add("),
    "_ZN2at6native11convolutionERKNS_6TensorES3_RKN3c108optionalIS1_EENS4_8ArrayRefIlEES9_S9_bS9_l":
        None,  # The signature of another version.
    "_ZN2at6native11convolutionERKNS_6TensorES3_RKSt8optionalIS1_EN3c108ArrayRefIlEESA_SA_bSA_l"
    ".cold": ("function", "at::native::convolution", "aten/src/ATen/native/Convolution.cpp",
              "at::Tensor convolution("),
    "raw_cudnn_convolution_forward_out": ("function",
                                          "at::native::raw_cudnn_convolution_forward_out",
                                          "aten/src/ATen/native/cudnn/Conv_v8.cpp",
                                          "void raw_cudnn_convolution_forward_out("),
    "TensorIterator": ("class", "at::TensorIterator", "aten/src/ATen/TensorIterator.h",
                       "TensorIterator"),
    "DispatchKeySet": ("class", "c10::DispatchKeySet", "c10/core/DispatchKeySet.h",
                       "class DispatchKeySet"),
    "vectorized_elementwise_kernel": ("device kernel", "at::native::vectorized_elementwise_kernel",
                                      "aten/src/ATen/native/cuda/CUDALoops.cuh",
                                      "vectorized_elementwise_kernel("),
    "add_stub": ("stub", "at::native::add_stub", "aten/src/ATen/native/BinaryOps.h", "add_stub"),
}


@pytest.mark.parametrize("spelling", [name for name, answer in NAMES.items() if answer])
def test_spellings(locate, source, spelling):
    kind, name, file, text = NAMES[spelling]
    wanted = [answer for answer in locate(spelling) if answer["kind"] == kind]
    assert wanted, locate(spelling)
    found = wanted[0]
    assert (found["name"], found["source"]["file"]) == (name, file)
    lines = (source / file).read_text().splitlines()
    line = found["source"]["line"]
    assert text in "\n".join(lines[line - 1:line + 1])
    assert found["source"]["url"] == f"{COMMIT}{file}#L{line}"


# Builtin: binding, op, {dispatch key: kernel}.
BUILTINS = {
    "torch.matmul": ("THPVariable_matmul", "aten::matmul",
                     {"CompositeImplicitAutograd": "at::native::matmul"}),
    "Tensor.add_": ("THPVariable_add_", "aten::add_.Tensor",
                    {"CPU": "at::native::structured_ufunc_add_CPU::impl"}),
    "torch._C._nn.gelu": ("THPVariable_gelu", "aten::gelu",
                          {"CPU": "at::native::structured_gelu_out_cpu::impl",
                           "CUDA": "at::native::structured_gelu_out_cuda::impl"}),
    "torch.linalg.solve": ("THPVariable_linalg_solve", "aten::linalg_solve",
                           {"CompositeImplicitAutograd": "at::native::linalg_solve"}),
    "F.conv2d": ("THPVariable_conv2d", "aten::conv2d",
                 {"CompositeImplicitAutograd": "at::native::conv2d_symint"}),
    "torch.cudnn_convolution": ("THPVariable_cudnn_convolution", "aten::cudnn_convolution",
                                {"CUDA": "at::native::cudnn_convolution"}),
}


@pytest.mark.parametrize("name", BUILTINS)
def test_builtins_lead_to_binding_yaml_and_kernels(locate, source, name):
    binding, op, kernels = BUILTINS[name]
    builtin = locate(name)[0]
    assert builtin["kind"] == "python builtin"
    parts = builtin["parts"]
    assert (parts[0]["role"], parts[0]["name"]) == ("binding", f"torch::autograd::{binding}")
    assert parts[0]["source"]["file"].startswith(GENERATED + "python_")
    assert parts[0]["source"]["generated"] and parts[0]["source"]["url"] is None
    found = next(part for part in parts if part["name"] == op)
    entry = (source / YAML).read_text().splitlines()[found["source"]["line"] - 1]
    assert entry.startswith(f"- func: {op.removeprefix('aten::')}(")
    by_key = {key: part for part in found["parts"] for key in part["key"].split(", ")}
    for key, kernel in kernels.items():
        assert by_key[key]["name"] == kernel
        place = by_key[key]["source"]
        if place["generated"]:
            continue
        text = "\n".join((source / place["file"]).read_text().splitlines()[place["line"] - 1:][:2])
        word = kernel.removesuffix("::impl").split("::")[-1].removeprefix("structured_")
        assert word in text


# Run by the wheel's own Python: prints names, and the places where `inspect` finds them.
TRUTH = r"""
import importlib, inspect, json, os, random, re, sys, types, torch
random.seed(4)
site = os.path.dirname(os.path.dirname(torch.__file__))
defining = re.compile(r"\s*(async\s+def|def|class)\b")
modules = ["torch", "torch.nn", "torch.nn.functional", "torch.nn.init", "torch.optim",
           "torch.optim.lr_scheduler", "torch.utils.data", "torch.distributions", "torch.autograd",
           "torch.nn.utils", "torch.jit", "torch.fx", "torch.cuda", "torch.linalg", "torch.sparse"]
candidates = {}
for module in modules:
    held = importlib.import_module(module)
    for name in sorted(vars(held)):
        value = getattr(held, name)
        things = [(f"{module}.{name}", value)]
        if inspect.isclass(value):
            # Some classes hold others' functions: torch.BFloat16Tensor those of torch.Tensor.
            things += [(f"{module}.{name}.{method}", function)
                       for method, function in sorted(vars(value).items())
                       if isinstance(function, types.FunctionType)
                       and inspect.unwrap(function).__qualname__
                       == f"{value.__qualname__}.{method}"]
        for full, thing in things:
            if not isinstance(thing, (type, types.FunctionType)) or "__" in full or "._" in full:
                continue
            # What a module imported for itself is no name that users have from it.
            if not str(value.__module__).startswith(module if module != "torch" else "torch."):
                continue
            if str(thing.__module__).startswith("torch"):
                candidates[full] = thing
found = {}
for full in random.sample(sorted(candidates), len(candidates)):
    try:
        thing = inspect.unwrap(candidates[full])
        file = inspect.getsourcefile(thing)
        lines, line = inspect.getsourcelines(thing)
    except (TypeError, OSError):
        continue
    # Made by another function: its line is that one's, or inspect found what it is made from.
    if thing.__qualname__.split(".")[-1] != full.split(".")[-1] or "<" in thing.__qualname__:
        continue
    defines = [n for n, text in enumerate(lines) if defining.match(text)]
    if not defines or not os.path.realpath(file).startswith(os.path.realpath(site)):
        continue
    found[full] = [os.path.relpath(file, site), line + defines[0]]
    if len(found) == 250:
        break
# Names that torch/csrc/autograd/python_torch_functions_manual.cpp gives to what is bound already.
others = {"sspmm", "mm_sparse", "spmm", "dsmm", "hsmm", "saddmm"}
builtins = [name for name in sorted(dir(torch._C._VariableFunctions))
            if not name.startswith("_") and name not in others
            and getattr(torch, name, None) is not None
            and isinstance(getattr(torch, name), types.BuiltinFunctionType)]
json.dump({"names": found,
           "builtins": random.sample(builtins, 120)}, sys.stdout)
"""


@pytest.fixture(scope="module")
def truth(run_program, python):
    result = run_program([python, "-c", TRUTH])
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_python_names_are_where_inspect_finds_them(ask_lines, truth):
    names = truth["names"]
    assert len(names) == 250
    wrong = {}
    for name, answer in zip(names, ask_lines(list(names))):
        places = [[found["source"]["file"], found["source"]["line"]]
                  for found in answer.get("answers", [])]
        # A package can import a function that has the name of its module: both are answers.
        if names[name] not in places[:1 + answer.get("answers", [{}])[0].get("kind", "").endswith(
                "module")]:
            wrong[name] = (places, names[name])
    assert wrong == {}


def test_builtins_lead_to_the_binding_of_their_name(ask_lines, truth):
    builtins = truth["builtins"]
    wrong = {}
    with_kernels = 0
    for name, answer in zip(builtins, ask_lines([f"torch.{name}" for name in builtins])):
        parts = answer.get("answers", [{"parts": []}])[0]["parts"]
        bindings = [part["name"] for part in parts if part["role"] == "binding"]
        if bindings != [f"torch::autograd::THPVariable_{name}"]:
            wrong[name] = bindings
        with_kernels += any(part["role"] == "op" and part["parts"] for part in parts)
    assert wrong == {}
    assert with_kernels > 0.8 * len(builtins)


def test_what_a_stub_stands_for(locate, source):
    stub = next(answer for answer in locate("mul_stub") if answer["kind"] == "stub")
    kernels = {part["key"]: part for part in stub["parts"]}
    assert any(key.startswith("CPU") for key in kernels) and "CUDA" in kernels
    cuda = kernels["CUDA"]["source"]
    assert "mul_kernel_cuda" in (source / cuda["file"]).read_text().splitlines()[cuda["line"] - 1]


def test_where_a_device_kernel_is_launched(locate, source):
    kernel = next(answer for answer in locate("vectorized_elementwise_kernel")
                  if answer["kind"] == "device kernel")
    launches = [part["source"] for part in kernel["parts"]]
    assert launches
    for place in launches:
        line = (source / place["file"]).read_text().splitlines()[place["line"] - 1]
        assert "vectorized_elementwise_kernel<" in line


def test_where_a_library_is_called(locate, source):
    foreign, = locate("cudnnBackendExecute")
    assert (foreign["kind"], foreign["source"]) == ("library function", None)
    places = {(part["name"], part["source"]["file"], part["source"]["line"])
              for part in foreign["parts"]}
    assert any(name == "at::native::run_conv_plan" for name, _, _ in places)
    for _, file, line in places:
        # A call in a macro has the line of the macro's first argument or of its end.
        near = (source / file).read_text().splitlines()[line - 1:line + 2]
        assert any("cudnnBackendExecute" in text for text in near)


def test_several_answers_are_told_apart(run, locate):
    answers = locate("at::conv2d")
    assert len({answer["parameters"] for answer in answers}) == len(answers) > 1
    lines = run("at::conv2d").stdout.splitlines()
    assert len(set(lines)) == len(lines)
    assert len(locate("add", "--limit", "2")) == 2
    assert len(locate("add", "--all")) > len(locate("add"))
    assert "more; --all shows them" in run("add", "--limit", "2").stdout


def test_text_reads_as_file_and_line(run, source):
    result = run("nn.Linear")
    assert result.stderr == ""
    assert re.match(r"python class +torch\.nn\.modules\.linear\.Linear +"
                    r"torch/nn/modules/linear\.py:50\n", result.stdout)
    for name in ["torch.matmul", "conv2d", "add_stub", "vectorized_elementwise_kernel"]:
        text = run(name).stdout
        assert "_Z" not in text and "\x1b" not in text
        for line in text.splitlines():
            assert re.search(r"  [\w./-]+:\d+$", line) or not re.search(r":\d+", line), line


@pytest.mark.parametrize("name, suggestion", [
    ("nn.Linaer", "nn.Linear"),
    ("torch.matmull", "torch.matmul"),
    ("optim.Adamm", "optim.Adam"),
    ("aten::conv2dd", "conv2d"),
    ("at::native::convolutoin", "at::native::convolution"),
    ("cudnn_convolutin", "cudnn_convolution"),
])
def test_near_misses_get_suggestions(run, name, suggestion):
    result = run(name)
    assert (result.returncode, result.stdout) == (USAGE, "")
    assert re.search(rf"Did you mean .*{re.escape(suggestion)}\b", result.stderr)
    assert len(result.stderr.splitlines()) == 2


@pytest.mark.parametrize("name", ["", "   ", "a" * 100_000, "nn.Lin\x01ear", "\x1b[31mred", "a..b"])
def test_what_is_no_name_is_refused(run, name):
    result = run(name)
    assert (result.returncode, result.stdout) == (USAGE, "")
    assert "\x1b" not in result.stderr and len(result.stderr) < 1000


def test_wrong_options(run, tmp_path):
    for arguments in [["--format", "xml"], ["--limit", "0"], ["--limit", "many"],
                      ["-o", tmp_path / "no/such/folder"], ["--python", tmp_path / "none"]]:
        result = run("nn.Linear", *arguments)
        assert (result.returncode, result.stdout) == (USAGE, ""), arguments
        assert result.stderr.startswith("optrace: ") or "--" in result.stderr
    assert list(tmp_path.iterdir()) == []
    assert run().returncode == USAGE


def test_output_to_a_file(run, tmp_path, validate):
    file = tmp_path / "answer.json"
    result = run("nn.Linear", "--format", "json", "-o", file)
    assert (result.returncode, result.stdout) == (DONE, "")
    validate(json.loads(file.read_text()), "locate")
    # If a name is not found, the file is left unchanged.
    before = file.read_text()
    assert run("nn.Linaer", "--format", "json", "-o", file).returncode == USAGE
    assert file.read_text() == before
    assert list(tmp_path.iterdir()) == [file]


def test_a_closed_standard_output_is_an_error(optrace, python):
    command, = optrace.command
    result = subprocess.run(["sh", "-c", f'"{command}" locate nn.Linear >&-'], timeout=600,
                            capture_output=True, text=True, check=False,
                            env={**os.environ, "OPTRACE_PYTHON": python})
    assert result.returncode == USAGE
    assert "standard output is closed" in result.stderr


def test_broken_indexes_are_passed_over(run, build, tmp_path):
    (tmp_path / "torch-2.6.0.index").write_bytes(b"OPTINDEX" + bytes(range(256)) * 16)
    result = run("nn.Linear", environment={"OPTRACE_INDEX_DIR": tmp_path})
    assert result.returncode == DONE
    assert "torch/nn/modules/linear.py:50" in result.stdout
    assert "torch-2.6.0.index" in result.stderr
    # Indexes that are damaged in one place only, which can be that of the answer.
    whole = (build / "share/optrace/indexes/torch-2.6.0.index").read_bytes()
    for at in range(len(whole) // 4, len(whole), len(whole) // 12):
        (tmp_path / "torch-2.6.0.index").write_bytes(whole[:at] + b"\xff" * 64 + whole[at + 64:])
        result = run("conv2d", environment={"OPTRACE_INDEX_DIR": tmp_path})
        assert result.returncode in (DONE, USAGE)
        if result.returncode == USAGE:
            assert "corrupt" in result.stderr


def test_lines_of_another_version_are_marked(optrace, newest_python, tmp_path):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch/__init__.py").write_text("")
    (tmp_path / "torch/version.py").write_text("__version__ = '2.99.0'\n")
    environment = {"PYTHONPATH": tmp_path, "OPTRACE_BACKGROUND": "0"}
    arguments = ["locate", "nn.Linear", "--python", newest_python]
    result = optrace(*arguments, environment=environment)
    assert result.returncode == DONE
    assert "  torch/nn/modules/linear.py:~" in result.stdout
    assert re.search(r"no index of torch 2\.99\.0; lines marked ~ are those of torch 2\.\d+",
                     result.stderr)
    value = json.loads(optrace(*arguments, "--format", "json", environment=environment).stdout)
    assert value["source"]["of_torch"] is False and value["source"]["exact"] is False
    assert value["answers"][0]["source"]["exact"] is False
    assert value["torch"]["version"] == "2.99.0"


def test_a_class_that_says_it_is_of_another_module(run, newest_python):
    """The class is newer than 2.6.0; inspect would search torch/optim/__init__.py for it."""
    result = run("torch.optim.Muon", "--python", newest_python, "--format", "json")
    assert result.returncode == 0, result.stderr
    source = json.loads(result.stdout)["answers"][0]["source"]
    assert source["file"] == "torch/optim/_muon.py"
    (file,) = pathlib.Path(newest_python).parent.parent.glob(
        "lib/python*/site-packages/torch/optim/_muon.py")
    assert file.read_text().splitlines()[source["line"] - 1].startswith("class Muon(")


def test_no_torch_is_a_notice_only(run, tmp_path):
    python = tmp_path / "bin/python3"
    python.parent.mkdir()
    python.write_text("#!/bin/sh\n")
    python.chmod(0o755)
    result = run("nn.Linear", "--python", python)
    assert result.returncode == DONE
    assert "torch/nn/modules/linear.py:~50" in result.stdout
    assert "no torch found" in result.stderr


def test_python_is_started_only_for_what_no_index_knows(run, marked_python):
    program, mark = marked_python
    for name in ["nn.Linear", "torch.matmul", "conv2d", "at::native::convolution", "nn.Linaer",
                 "torch.no.such.name", "cudnnBackendExecute"]:
        run(name, "--python", program)
        assert not mark.exists(), name
    result = run("json.decoder.JSONDecoder.decode", "--python", program)
    assert mark.exists()
    assert result.returncode == DONE, result.stderr
    assert re.search(r"json\.decoder\.JSONDecoder\.decode  \S+/json/decoder\.py:\d+$",
                     result.stdout.strip())


def test_a_users_own_module(run, tmp_path, marked_python):
    program, _ = marked_python
    (tmp_path / "my_module.py").write_text(
        "import os\nprint('noise')\nos.write(2, b'noise')\n\n\n"
        "def keep(f):\n    return f\n\n\n@keep\ndef double(x):\n    return 2 * x\n")
    environment = {"PYTHONPATH": tmp_path}
    result = run("my_module.double", "--python", program, environment=environment)
    assert (result.returncode, result.stderr) == (DONE, "")
    assert result.stdout == f"python function  my_module.double  {tmp_path}/my_module.py:11\n"
    assert run("my_module.triple", "--python", program, environment=environment).returncode == USAGE
    assert not (tmp_path / "__pycache__").exists()


# ---- names from standard input ----


def test_hostile_lines_are_survived(run_bytes, validate):
    lines = [b"nn.Linear", b"", b"x" * (1 << 20), b"a\0b", b"\xff\xfe\xfd", b"nn.Linaer",
             b"\x1b[2J", b"_Z" + b"N" * 5000, b"(" * 3000, b"at::" * 3000, b"{}[]<>",
             b"torch.matmul"]
    answers = [json.loads(line) for line in run_bytes(b"\n".join(lines)).splitlines()]
    assert len(answers) == len(lines)
    for answer in answers:
        validate(answer, "locate")
    assert answers[0]["answers"][0]["source"]["line"] == 50
    assert "error" in answers[1] and "error" in answers[2] and "error" in answers[3]
    assert len(answers[2]["query"]) < 1000
    assert answers[5]["suggestions"] == ["nn.Linear"]
    assert answers[-1]["answers"][0]["name"] == "torch.matmul"


@pytest.fixture
def session(optrace, python):
    """A running `optrace locate -`."""
    process = subprocess.Popen([*optrace.command, "locate", "-"], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env={**os.environ, "OPTRACE_PYTHON": python})
    yield process
    process.kill()
    process.communicate()


def test_each_answer_comes_at_once(session):
    for name in ["nn.Linear", "no.such.name", "torch.matmul"]:
        session.stdin.write(name + "\n")
        session.stdin.flush()
        assert json.loads(session.stdout.readline())["query"] == name


def test_a_reader_that_leaves_ends_it(session):
    session.stdout.close()
    with pytest.raises(BrokenPipeError):
        for _ in range(1000):
            session.stdin.write("nn.Linear\n")
            session.stdin.flush()
            time.sleep(0.01)
    assert session.wait(timeout=600) == DONE


def test_ctrl_c_leaves_no_half_written_file(optrace, python, tmp_path):
    with subprocess.Popen([*optrace.command, "locate", "-", "-o", tmp_path / "answers"],
                          stdin=subprocess.PIPE, stderr=subprocess.PIPE,
                          env={**os.environ, "OPTRACE_PYTHON": python}) as process:
        process.stdin.write(b"nn.Linear\n")
        process.stdin.flush()
        deadline = time.monotonic() + 30
        while not list(tmp_path.iterdir()) and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=600) == INTERRUPTED
    assert list(tmp_path.iterdir()) == []


# ---- the editor ----


@pytest.fixture
def editor(tmp_path):
    """editor(name) -> (a program of that name, the file that gets its arguments)"""

    def make(name, status=0):
        arguments = tmp_path / "arguments"
        program = tmp_path / "bin with space" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > "{arguments}"\nexit {status}\n')
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        return program, arguments

    return make


def test_open(run, python, editor):
    site = next(pathlib.Path(python).parent.parent.glob("lib/python3.*/site-packages"))
    linear = site / "torch/nn/modules/linear.py"
    for name, option, expected in [("vim", "-R", ["-R", "+50", str(linear)]),
                                   ("code", "--wait", ["--wait", "--goto", f"{linear}:50"]),
                                   ("hx", "-v", ["-v", f"{linear}:50"]),
                                   ("ed", "-s", ["-s", str(linear)])]:
        program, arguments = editor(name)
        result = run("nn.Linear", "--open",
                     environment={"VISUAL": f'"{program}" {option}', "EDITOR": "false"})
        assert (result.returncode, result.stdout) == (DONE, "")
        assert arguments.read_text().splitlines() == expected
        assert (result.stderr != "") == (name == "ed")


def test_open_headers_and_yaml_of_the_wheel(run, python, editor):
    site = next(pathlib.Path(python).parent.parent.glob("lib/python3.*/site-packages"))
    program, arguments = editor("vim")
    for name, file in [("aten::add.Tensor", "torchgen/packaged/ATen/native/native_functions.yaml"),
                       ("c10::TensorImpl::is_contiguous", "torch/include/c10/core/TensorImpl.h"),
                       ("at::compositeimplicitautograd::nothing", None),
                       ("at::symint::conv2d", "torch/include/ATen/ops/conv2d.h")]:
        result = run(name, "--open",
                     environment={"VISUAL": f'"{program}"', "XDG_CACHE_HOME": arguments.parent})
        if file is None:
            assert result.returncode == USAGE
            continue
        assert result.returncode == DONE, result.stderr
        line, opened = arguments.read_text().splitlines()
        assert opened == str(site / file)
        text = pathlib.Path(opened).read_text().splitlines()[int(line[1:]) - 1]
        assert name.split("::")[-1].split(".")[0] in text


def test_open_says_why_it_can_not(run, editor, tmp_path):
    program, arguments = editor("vim")
    visual = {"VISUAL": f"'{program}'", "XDG_CACHE_HOME": tmp_path / "cache",
              "OPTRACE_CACHE_DIR": tmp_path / "cache"}
    result = run("at::native::convolution", "--open", environment=visual)
    assert result.returncode == USAGE
    assert f"{COMMIT}aten/src/ATen/native/Convolution.cpp#L" in result.stderr
    assert run("cudnnBackendExecute", "--open", environment=visual).returncode == USAGE
    assert not arguments.exists()
    none = run("nn.Linear", "--open", environment={"VISUAL": "", "EDITOR": None})
    assert none.returncode == USAGE and "EDITOR" in none.stderr
    assert run("nn.Linear", "--open",
               environment={"VISUAL": "vim 'open"}).returncode == USAGE
    assert run("nn.Linear", "--open",
               environment={"VISUAL": str(tmp_path / "absent")}).returncode == FAILED
    failing, _ = editor("vim", status=4)
    result = run("nn.Linear", "--open", environment={"VISUAL": f"'{failing}'"})
    assert (result.returncode, "exit status 4" in result.stderr) == (FAILED, True)
    assert run("-", "--open", environment=visual).returncode == USAGE


# ---- layers ----


@pytest.fixture(scope="module")
def layers(optrace, python, validate):
    result = optrace("layers", "--format", "json", "--python", python)
    assert result.returncode == DONE, result.stderr
    value = json.loads(result.stdout)
    validate(value, "layers")
    return {layer["id"]: layer for layer in value["layers"]}


def test_every_layer_is_there_and_holds_something(layers):
    assert list(layers) == ["python", "functional", "nn", "autograd", "optim", "jit", "bindings",
                            "dispatcher", "aten", "c10", "cuda", "compiler"]
    for layer in layers.values():
        assert sum(layer["definitions"].values()) > 100, layer["id"]
    assert layers["aten"]["ops"] > 3000 and layers["cuda"]["ops"] > 500
    assert layers["autograd"]["ops"] > 500 and layers["dispatcher"]["ops"] > layers["aten"]["ops"]
    assert layers["nn"]["ops"] is None


def test_every_layer_lives_where_it_says(layers, source):
    for layer in layers.values():
        for folder in layer["folders"]:
            if (folder.startswith("build/") or "generated" in folder
                    or folder == "torch/_sources.py"):
                continue
            parent = (source / folder).parent if not folder.endswith("/") else source / folder
            name = "" if folder.endswith("/") else pathlib.Path(folder).name
            assert any(entry.name.startswith(name) for entry in parent.iterdir()), folder


def test_every_door_is_found(layers):
    lost = [door["name"] for layer in layers.values() for door in layer["doors"]
            if door["source"] is None and door["leads_to"] != "libraries"]
    assert lost == []
    assert {door["leads_to"] for layer in layers.values() for door in layer["doors"]} >= {
        "bindings", "dispatcher", "aten", "c10", "cuda", "libraries"}


def test_the_map_as_text(optrace, python, tmp_path):
    result = optrace("layers", "--python", python)
    assert (result.returncode, result.stderr) == (DONE, "")
    assert "\x1b" not in result.stdout
    assert re.search(r"^dispatcher  Selects the kernel", result.stdout, re.MULTILINE)
    one = optrace("layers", "dispatcher", "--python", python)
    assert one.returncode == DONE
    assert {line.split("  ")[0] for line in one.stdout.splitlines()} == {"dispatcher", ""}
    wrong = optrace("layers", "nothing", "--python", python)
    assert (wrong.returncode, wrong.stdout) == (USAGE, "")
    assert "dispatcher" in wrong.stderr
    assert optrace("layers", "--format", "xml").returncode == USAGE
    assert optrace("layers", "-o", tmp_path / "no/file", "--python", python).returncode == USAGE


@pytest.mark.parametrize("name, library", [
    ("cudaLaunchKernel", "libcudart.so.12"), ("dnnl_primitive_execute", "libtorch_cpu.so"),
    ("pytorch_flash::mha_fwd", "libtorch_cuda.so")])
def test_what_no_index_knows_is_looked_for_in_the_wheel(locate, name, library):
    answers = locate(name)
    assert answers[0]["name"] == name
    if answers[0]["source"] is None:
        assert answers[0]["library"] == library


@pytest.mark.parametrize("each", [10, pytest.param(1, marks=pytest.mark.verify)])
def test_every_name_of_reports_can_be_located(ask_lines, repository, each):
    """fixtures/reports/names.txt was made by fixtures/reports/collect_names.py from 53 reports, of
    the programs in tests/programs/ and of ops in dry runs.
    """
    names = (repository / "fixtures/reports/names.txt").read_text().splitlines()
    assert len(names) > 4000
    answers = ask_lines(names[::each])
    unknown = [answer["query"] for answer in answers if "error" in answer]
    assert not unknown


def test_a_misspelt_command_or_op_is_told_without_starting_python(optrace, marked_python):
    program, mark = marked_python
    environment = {"OPTRACE_PYTHON": program}
    command = optrace("lokate", "conv2d", environment=environment)
    assert command.returncode == USAGE
    assert "'lokate' is not a command" in command.stderr and "optrace locate" in command.stderr
    op = optrace("con2vd", environment=environment)
    assert op.returncode == USAGE and "conv2d" in op.stderr
    assert not mark.exists()
    # What could be a name of the user's own module is looked for there.
    assert optrace("locate", "json.no_such_name", environment=environment).returncode == USAGE
    assert mark.exists()
