"""Holds the verdicts of `optrace check` about ordinary programs against accounts of other runs.

    ordinary_programs.py OPTRACE PYTHON FOLDER RULES_OF_EACH PROGRAM...

Each program runs again with tests/truth/account/ (ops and Python functions), with the verbose modes
of MKL and oneDNN (library calls) and, if it has one process and compiles nothing, under gdb
(functions of libtorch_cpu). FOLDER keeps what the runs wrote; a program that is there is not run
again, only checked. Exit status 0: no verdict was wrong, and at least 97 % of the rules were
decided.
"""
import ast
import collections
import json
import os
import pathlib
import random
import re
import subprocess
import sys

from elf_symbols import Symbols
from random_programs import MEASURES, rules_of

ACCOUNT = pathlib.Path(__file__).resolve().parent / "account"
# What a person would name whether it is called or not.
OPS = """add mul mm addmm bmm conv2d convolution linear relu gelu softmax layer_norm batch_norm
 embedding dropout copy_ clone contiguous _to_copy item _local_scalar_dense cat stack sum mean
 index_select gather scatter_add einsum matmul sort topk native_layer_norm nll_loss mse_loss lstm
 scaled_dot_product_attention sub div zeros ones empty randn t view detach max_pool2d"""
PYTHON = """torch.nn.modules.linear.Linear.forward torch.nn.modules.conv.Conv2d.forward
 torch.nn.modules.rnn.LSTM.forward torch.nn.functional.relu torch.nn.functional.cross_entropy
 torch.nn.functional.softmax torch.nn.functional.dropout torch.optim.adam.Adam.step
 torch._tensor.Tensor.backward
 torch.nn.modules.transformer.TransformerEncoderLayer.forward torch.nn.functional.layer_norm"""
NATIVE = """add_kernel mul_kernel sum_kernel_impl copy_kernel gelu convolution _convolution
 mkldnn_convolution slow_conv2d_forward_cpu addmm_out_cpu structured_mm_out_cpu::impl
 layer_norm_cpu LayerNormKernelImpl softmax_lastdim_kernel_impl empty_cpu clone _to_copy
 embedding_dense_backward_cpu cat_serial_kernel index_select_out_cpu_ _local_scalar_dense_cpu
 baddbmm_cpu_kernel structured_baddbmm_out_cpu::impl threshold_kernel fill_kernel linear matmul
 batch_norm_cpu_collect_stats_and_transform max_pool2d_kernel_impl sigmoid_kernel tanh_kernel
 copy_impl reshape view expand as_strided_tensorimpl contiguous zero_ dropout item div_true_kernel
 structured_log_softmax_cpu_out::impl conv2d native_dropout_cpu sort_stable_kernel gather_cpu_kernel
 scatter_add_cpu_kernel index_kernel nonzero_out_cpu normal_fill argmax_kernel_impl
 where_kernel_impl flash_attention_kernel_impl lstm gru einsum tensordot addmv_out_cpu mv
 bmm_out_or_baddbmm_ svd_kernel linalg_lu_factor lu_factor_kernel cholesky_kernel _fft_c2c_mkl
 _fft_r2c_mkl"""
LIBRARY = {"sgemm_": "SGEMM", "dgemm_": "DGEMM", "sgemv_": "SGEMV", "sgetrf_": "SGETRF",
           "sgesdd_": "SGESDD", "spotrf_": "SPOTRF", "DftiComputeForward": "FFT"}
PUBLIC = ("torch.nn.", "torch.optim.", "torch.autograd.", "torch.functional.", "torch.utils.data.",
          "torch._tensor.", "torch.distributions.", "torch.jit.", "torch.amp.", "torch.fx.")
WITH_CHILDREN = "multiprocessing", "num_workers"


def run(command, folder, **environment):
    """Runs a command; returns what it wrote."""
    ended = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, text=True,
                           stderr=subprocess.STDOUT, check=False, cwd=folder, timeout=500,
                           env={**os.environ, **{k: str(v) for k, v in environment.items()}})
    assert ended.returncode == 0, (command, ended.stdout[-3000:])
    return ended.stdout


def native_functions(python, folder):
    """Returns {name: [addresses]} of the functions in at::native of libtorch_cpu, and its path."""
    library = pathlib.Path(run([python, "-c", "import torch; print(torch.__file__)"], folder)
                           .splitlines()[-1]).parent / "lib/libtorch_cpu.so"
    symbols = {name: addresses for name, addresses in Symbols(library).addresses.items()
               if name.startswith("_ZN2at6native") and "." not in name}
    demangled = subprocess.run(["c++filt"], input="\n".join(symbols), capture_output=True,
                               text=True, check=True).stdout.splitlines()
    found = collections.defaultdict(set)
    for name, addresses in zip(demangled, symbols.values()):
        name = name.replace("(anonymous namespace)::", "")
        name = re.sub(r"::(DEFAULT|AVX2|AVX512(_\w+)?)::", "::", name).split("(")[0]
        if "<" not in name and " " not in name:
            found[name] |= set(addresses)
    return {name: sorted(addresses) for name, addresses in found.items()}, library


def record(optrace, python, program, folder, natives, library):
    """Runs a program with optrace, and with each kind of account."""
    source = program.read_text()
    children = any(word in source for word in WITH_CHILDREN)
    common = {"OMP_NUM_THREADS": 1, "PYTHONPATH": ACCOUNT, "ACCOUNT": folder / "account",
              "TORCH_EXTENSIONS_DIR": folder.parent / "extensions"}
    (folder / "account").mkdir(parents=True)
    run([python, program], folder, **common)
    modules = folder / "modules"
    # In the order of the program: some of Inductor's modules can't be imported in another.
    modules.write_text("\n".join(dict.fromkeys(
        line for file in sorted((folder / "account").glob("*.modules"))
        for line in file.read_text().splitlines())))
    common["ACCOUNT_MODULES"] = modules
    run([python, program], folder, ACCOUNT_LIBRARY=library, **common)
    del common["PYTHONPATH"]
    (folder / "libraries").write_text(run([python, program], folder, MKL_VERBOSE=1,
                                          ONEDNN_VERBOSE=1, **common))
    if not children and "compile" not in source:
        request = folder / "functions.json"
        request.write_text(json.dumps({"library": "libtorch_cpu.so", "functions": natives,
                                       "answer": str(folder / "natives.json")}))
        run(["gdb", "-nx", "-batch", "-iex", "set auto-load off", "-x", ACCOUNT / "gdb_counts.py",
             "--args", "env", f"PYTHONPATH={ACCOUNT}", python, program], folder, ACCOUNT_SIGNAL=1,
            ACCOUNT_FUNCTIONS=request, **common)
    run([optrace, "run", *["--children"] * children, "--python", python, "--trace",
         folder / "t.trace", "-o", folder / "summary", program], folder, **common)


def defined_in(program):
    """Returns the functions and methods that a program defines at its top level."""
    for node in ast.parse(program.read_text()).body:
        if isinstance(node, ast.FunctionDef):
            yield f"__main__.{node.name}"
        if isinstance(node, ast.ClassDef):
            yield from (f"__main__.{node.name}.{one.name}" for one in node.body
                        if isinstance(one, ast.FunctionDef))


def library_calls(text):
    """Returns {name of a library function: calls}, of the verbose modes' lines."""
    counts = collections.Counter()
    for line in text.splitlines():
        if line.startswith("MKL_VERBOSE ") and ",-1," not in line:  # Not a query of a size.
            counts[line.split()[1].split("(")[0]] += 1
        elif line.startswith("onednn_verbose") and ",exec," in line:
            counts["dnnl " + line.split(",exec,")[1].split(",")[1]] += 1
    return counts


def truth_of(program, folder):
    """Returns {what a rule may name: calls}, and the calls of libraries."""
    counts, unclear = collections.Counter(), set()
    for file in (folder / "account").glob("*[0-9]"):
        for line in file.read_text().splitlines():
            name, calls = line.rsplit("\t", 1)
            counts[name] += int(calls)
            if calls == "-1":
                unclear.add(name)
    truth = {f"aten::{op}": 0 for op in OPS.split()} | dict.fromkeys(
        [*PYTHON.split(), *defined_in(program), *MEASURES], 0)
    for name, calls in counts.items():
        if "::" in name:
            truth[name] = calls
            truth["ops"] += calls
        elif name in truth or (name.startswith(("__main__.", *PUBLIC)) and
                               not re.search(r"<|\._[a-z]", name)):
            truth[name] = calls
    assert truth["ops"], f"the account of {program} has no ops"
    truth["copies"] = truth["aten::copy_"]
    for dtype, words in (("float64", "Double"), ("float16", "Half"), ("bfloat16", "BFloat16")):
        if counts[f"dtype {words}"] or not counts[f"scalar {words}"]:
            truth[f"dtype {dtype}"] = counts[f"dtype {words}"]
    libraries = library_calls((folder / "libraries").read_text())
    truth |= {name: libraries[word] for name, word in LIBRARY.items()}
    natives = folder / "natives.json"
    if natives.exists():
        truth |= json.loads(natives.read_text())
    return {name: calls for name, calls in truth.items() if name not in unclear}, libraries


def backend_rules(truth, libraries):
    """Returns {rule: whether it holds} for what the libraries' own words decide."""
    gemms = sum(calls for name, calls in libraries.items() if "GEMM" in name)
    backends = {"conv2d": ("onednn", libraries["dnnl convolution"]), "addmm": ("blas", gemms),
                "mm": ("blas", gemms), "bmm": ("blas", gemms)}
    rules = {"no implicit copy": True}
    for op, (backend, calls) in backends.items():
        if truth.get(f"aten::{op}") and not calls:
            rules |= {f"{op} uses {backend}": False, f"{op} never uses {backend}": True}
    return rules


def main(optrace, python, folder, number, *programs):
    optrace, folder = pathlib.Path(optrace).resolve(), pathlib.Path(folder).resolve()
    folder.mkdir(exist_ok=True)
    known, libtorch = native_functions(python, folder)
    natives = {f"at::native::{name}": known[f"at::native::{name}"] for name in NATIVE.split()
               if f"at::native::{name}" in known}
    include = libtorch.parents[1] / "include"
    library = folder / "op_account.so"
    run(["g++", "-O1", "-shared", "-fPIC", "-std=c++17", "-D_GLIBCXX_USE_CXX11_ABI=0",
         f"-I{include}", ACCOUNT / "op_account.cpp", "-o", library,
         f"-L{libtorch.parent}", "-ltorch_cpu", "-lc10"], folder)
    counts = collections.Counter()
    for program in map(pathlib.Path, programs):
        here = folder / program.stem
        if not (here / "t.trace").exists():
            record(optrace, python, program.resolve(), here, natives, library)
        truth, libraries = truth_of(program, here)
        choice = random.Random(program.stem)
        rules = backend_rules(truth, libraries) | rules_of(choice, truth, int(number), {})
        (here / "rules.json").write_text(json.dumps({"rules": list(rules)}))
        checked = subprocess.run([optrace, "check", here / "t.trace", "--format", "json",
                                  "--expect", here / "rules.json"],
                                 stdout=subprocess.PIPE, text=True, check=False)
        for (rule, holds), answer in zip(rules.items(), json.loads(checked.stdout)["rules"]):
            kind = ("undecided" if answer["status"] == "error" else
                    "right" if answer["status"] == ("passed" if holds else "failed") else "wrong")
            counts[kind] += 1
            if kind != "right":
                name = rule.removeprefix("never ").removeprefix("calls ").split(" ")[0]
                print(f"{program.stem}: {kind}: {rule}: {answer['found']} (account: "
                      f"{truth.get(name)})", flush=True)
    print(dict(counts))
    return counts["wrong"] > 0 or counts["undecided"] > 0.03 * counts.total()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
