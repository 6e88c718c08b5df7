"""The libraries that replace CUDA's: complete for both torches, prebuilt or compiled, and kept.

The tests with the newest torch are part of `make verify`, as are all dry runs with it: the build
takes a minute. The libraries are in the cache of all tests. A library's place in it depends on all
that it is built from, so what other tests have built before is what would be built now.
"""
import pathlib
import re
import subprocess

import pytest

# Names of functions in CUDA's libraries, except for nvrtc: the real nvrtc is used.
OF_CUDA = re.compile(r"_*(cu[A-Z]|cuda|cu(blas|dnn|fft|pti|rand|solver|sparse)|nccl|nvml|nvshmem)"
                     r"[A-Za-z0-9]*[A-Z_]")
OF_LAPACK = re.compile(r"cu[nm][a-z0-9]+_")

USE = """
import os, re, torch
print(torch.cuda.device_count())
print(os.environ["TRITON_LIBCUDA_PATH"])  # The folder of the emulated libcuda.
loaded = {line.split(maxsplit=5)[5].strip() for line in open("/proc/self/maps")
          if re.search(r"/lib(cu|nccl|nvidia-ml|nvshmem)[^/]*[.]so", line)}
print(*sorted(loaded), sep="\\n")
"""


def symbols(library, *options):
    """Returns the names of dynamic symbols that are not weak, with @VERSION if they have one."""
    output = subprocess.run(["nm", "-D", *options, library], check=True, capture_output=True,
                            text=True).stdout
    # Lines: "                 U name@VERSION", "0000000000001139 T name@@VERSION".
    found = [(fields[-2], fields[-1].replace("@@", "@"))
             for fields in map(str.split, output.splitlines())]
    return [name for kind, name in found if kind not in "wv"]


def libraries_in(folder):
    """Returns the libraries; libcuda.so is a text for linkers."""
    return [path for path in folder.glob("lib*.so*") if path.name != "libcuda.so"]


def imports_of_cuda(torch):
    files = [*(torch / "lib").glob("*.so*"), *torch.glob("_C*.so")]
    names = {name for file in files for name in symbols(file, "--undefined-only")}
    return {name for name in names if OF_CUDA.match(name) and not OF_LAPACK.match(name)}


@pytest.fixture(scope="module", params=[
    ("python", "prebuilt"), ("python", "compiled"),
    *(pytest.param(("newest_python", how), marks=pytest.mark.verify)
      for how in ("prebuilt", "compiled"))])
def built(request, optrace, tmp_path_factory):
    """(the folder of torch, the folder of the libraries for it, the output of a program, the state
    of the libraries after that run and after a second one)."""
    interpreter, how = request.param
    python = pathlib.Path(request.getfixturevalue(interpreter))
    environment = {"OPTRACE_PREBUILT": "0" if how == "compiled" else None}
    report = tmp_path_factory.mktemp("report") / "report"
    (torch,) = (python.parent.parent / "lib").glob("python3.*/site-packages/torch")
    states = []
    for _ in range(2):
        run = optrace("run", "--dry-run", "--python", python, "-o", report, "-c", USE, timeout=900,
                      environment=environment)
        assert run.returncode == 0, run.stderr
        folder = pathlib.Path(run.stdout.splitlines()[1])
        states.append({(file.name, file.stat().st_ino, file.stat().st_mtime_ns)
                       for file in (folder, *folder.iterdir())})
    return torch, folder, run.stdout, *states


def test_every_function_that_torch_imports_is_defined(built):
    torch, folder, *_ = built
    wanted = imports_of_cuda(torch)
    assert len(wanted) > 600
    defined = {name for library in libraries_in(folder)
               for name in symbols(library, "--defined-only")}
    # A definition with a version satisfies an import without one, but not the other way round.
    bare = {name.partition("@")[0] for name in defined}
    assert {name for name in wanted
            if name not in (defined if "@" in name else bare)} == set()


def test_functions_are_in_the_library_that_torch_expects(built):
    torch, folder, *_ = built
    for name in ("cudaMalloc", "cublasSgemm_v2", "cudnnBackendExecute", "cublasLtMatmul"):
        (versioned,) = {wanted for wanted in imports_of_cuda(torch)
                        if wanted.partition("@")[0] == name}
        library = folder / versioned.partition("@")[2]
        assert versioned in symbols(library, "--defined-only")


def test_nothing_else_gets_out(built):
    """Nothing else is exported: a function of the C++ library would replace the process's own."""
    _, folder, *_ = built
    for library in libraries_in(folder):
        names = {name.partition("@")[0] for name in symbols(library, "--defined-only")}
        versions = {name for name in names if name.startswith(("lib", "NVSHMEM"))}
        if library.name == "liboptrace_device.so":
            # This function replaces libc10's and calls it.
            left = {name for name in names
                    if not re.match(r"optrace_|_Z(NK?|T[ISV]N)7optrace", name)
                    and not name.startswith("_ZN3c1027reportMemoryUsageToProfiler")}
        else:
            left = {name for name in names - versions if not re.match(r"_*(cu|nccl|nv)", name)}
        assert left == set(), library.name


def test_emulated_libraries_take_the_place_of_the_real_ones(built):
    _, folder, printed, *_ = built
    count, _, *loaded = printed.splitlines()
    assert count == "1"
    loaded = {pathlib.Path(path) for path in loaded}
    emulated = {path.name.split(".")[0] for path in loaded if path.parent == folder}
    assert {"libcuda", "libcudart", "libcudnn", "libcublas", "libcublasLt", "libnccl"} <= emulated
    # Newer torch opens cuBLASLt by its path, to determine which one cuBLAS gets. The emulated one
    # was loaded before, so its functions are found.
    assert {path.name.split(".")[0] for path in loaded if path.parent != folder} <= {"libcublasLt"}


def test_built_once(built):
    *_, first, second = built
    assert len(first) > 12 and first == second


def test_interrupted_leaves_nothing(optrace, python, tmp_path):
    """A build that its compiler interrupts leaves no files."""
    compiler = tmp_path / "g++"
    compiler.write_text("#!/bin/sh\nkill -INT $PPID\nexec sleep 60\n")
    compiler.chmod(0o755)
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    result = optrace("run", "--dry-run", "--python", python, "-c", "0",
                     environment={"OPTRACE_CACHE_DIR": tmp_path / "cache", "CXX": compiler,
                                  "OPTRACE_PREBUILT": "0", "TMPDIR": temporary})
    assert result.returncode == 130, result.stderr
    assert list((tmp_path / "cache" / "emulated-devices").iterdir()) == []
    assert list(temporary.iterdir()) == []


def test_the_header_that_torch_2_11_does_not_bring(repository, run_program, tmp_path):
    """nv/target, which CUDA 13's headers include and no package that torch 2.11 requires has."""
    source = tmp_path / "targets.cpp"
    source.write_text("""
#include "nv/target"
int first = NV_IF_ELSE_TARGET(NV_PROVIDES_SM_90, (1), (2));
int second = NV_IF_ELSE_TARGET(NV_IS_DEVICE, 3 + f(1), NV_IF_ELSE_TARGET(NV_IS_HOST, (4), (5)));
""")
    result = run_program(["g++", "-E", "-P", "-I",
                          repository / "gpu/emulated/stub_headers", source])
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == ["int", "first", "=", "2;", "int", "second", "=", "4;"]
