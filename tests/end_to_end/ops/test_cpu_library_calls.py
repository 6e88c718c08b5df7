"""Calls of oneDNN, BLAS and LAPACK on the CPU, decoded into the report."""
import json
import os
import re
import textwrap

import pytest


@pytest.fixture(scope="module", params=["reference", "newest"])
def a_python(request):
    return request.getfixturevalue("python" if request.param == "reference" else "newest_python")


@pytest.fixture(scope="module")
def trace(optrace, a_python, tmp_path_factory):
    """trace(program text) -> (CompletedProcess, report, program file) of `optrace run`."""

    def run(text, environment=None, status=0):
        folder = tmp_path_factory.mktemp("program")
        program = folder / "program.py"
        program.write_text(textwrap.dedent(text))
        report = folder / "report.json"
        result = optrace("run", "--python", a_python, "--format", "json", "-o", report, program,
                         environment={"ONEDNN_VERBOSE": None, **(environment or {})}, timeout=300)
        assert result.returncode == status, result.stderr
        return result, json.loads(report.read_text()), program

    return run


@pytest.fixture(scope="module")
def untraced(a_python, run_program):
    """untraced(program file) -> CompletedProcess of the program without optrace."""

    def run(program, environment=None):
        variables = {**os.environ, **(environment or {})}
        if "ONEDNN_VERBOSE" not in (environment or {}):
            variables.pop("ONEDNN_VERBOSE", None)
        return run_program([a_python, str(program)], env=variables, timeout=300)

    return run


def frames(report, below=None):
    """Yields all frames, or those below the Python function of this name."""
    pending = [(root, below is None) for root in reversed(report["roots"])]
    while pending:
        frame, inside = pending.pop()
        if inside:
            yield frame
        inside = inside or (frame["layer"] == "python" and frame["name"].endswith("." + below))
        pending += [(child, inside) for child in reversed(frame["children"])]


def library_calls(report, below=None):
    """Yields (function, record) of each kind of call."""
    for frame in frames(report, below):
        for record in (frame["detail"] or {}).get("calls", []):
            yield record.get("call", frame["name"]), record


PROGRAM = """
    import torch
    import torch.nn as nn

    torch.manual_seed(0)
    torch.set_num_threads(2)

    def convolution():
        return torch.nn.functional.conv2d(torch.ones(2, 3, 8, 8), torch.ones(8, 3, 3, 3),
                                          torch.ones(8))

    def linear():
        return nn.functional.linear(torch.ones(4, 6), torch.ones(5, 6), torch.ones(5))

    def product():
        return torch.mm(torch.ones(3, 4, dtype=torch.double), torch.ones(4, 5, dtype=torch.double))

    def transposed():
        return torch.mm(torch.ones(7, 3).t(), torch.ones(11, 7).t())

    def complex_product():
        return torch.mm(torch.ones(3, 4, dtype=torch.cfloat), torch.ones(4, 5, dtype=torch.cfloat))

    def vector():
        return torch.mv(torch.ones(20, 30), torch.ones(30))

    def batched():
        return torch.bmm(torch.ones(10, 20, 30), torch.ones(10, 30, 40))

    def decomposition():
        return torch.linalg.lu_factor(torch.eye(5) * 2)[0]

    def singular_values():
        return torch.linalg.svdvals(torch.eye(6, 4))

    def recurrent():
        return nn.LSTM(4, 6)(torch.ones(3, 2, 4))[0]

    with torch.no_grad():
        for call in (convolution, linear, product, transposed, complex_product, vector, batched,
                     decomposition, singular_values, recurrent):
            print(call.__name__, call().abs().sum().item().hex())
"""


@pytest.fixture(scope="module")
def traced(trace):
    return trace(PROGRAM)


def onednn_lines(text):
    """Returns (primitive, implementation, propagation, problem) of each line of oneDNN's log."""
    found = []
    for line in text.splitlines():
        match = re.match(r"onednn_verbose(?:,v1)?(?:,primitive)?,exec,\w+,(.*)", line)
        if match:
            fields = match.group(1).split(",")
            found.append((fields[0], fields[1], fields[2], fields[-2]))
    return found


def test_onednn_calls_are_those_that_it_tells_of_itself(traced, untraced):
    _, report, program = traced
    told = onednn_lines(untraced(program, {"ONEDNN_VERBOSE": "1"}).stdout)
    assert told
    recorded = []
    for name, record in library_calls(report):
        if record.get("library") == "oneDNN":
            recorded += [(name, record["implementation"], record.get("propagation", "undef"),
                          record["problem"])] * record["calls"]
    assert sorted(recorded) == sorted(told)


def test_a_convolution_tells_primitive_implementation_shapes_and_types(traced):
    found = [record for name, record in library_calls(traced[1], "convolution")
             if name == "convolution"]
    assert len(found) == 1
    record = found[0]
    assert record["library"] == "oneDNN" and record["kind"] == "library" and record["calls"] == 1
    assert record["problem"] == "mb2_ic3oc8_ih8oh6kh3sh1dh0ph0_iw8ow6kw3sw1dw0pw0"
    tensors = {tensor["name"]: tensor for tensor in record["tensors"]}
    assert {name: tensor["type"] for name, tensor in tensors.items()} == {
        "src": "f32", "wei": "f32", "bia": "f32", "dst": "f32"}
    assert tensors["bia"]["format"] == "a"
    assert not any("time" in key for key in record)


# BLAS is column-major: for a row-major product, the matrices are swapped.
@pytest.mark.parametrize("program, function, expected", [
    ("product", "dgemm_", {"m": 5, "n": 3, "k": 4, "transa": "n", "transb": "n", "lda": 5,
                           "ldb": 4, "ldc": 5, "type": "float64"}),
    ("transposed", "sgemm_", {"m": 11, "n": 3, "k": 7, "transa": "t", "transb": "t", "lda": 7,
                              "ldb": 3, "type": "float32"}),
    ("complex_product", "cgemm_", {"m": 5, "n": 3, "k": 4, "type": "complex64"}),
    ("vector", "sgemv_", {"m": 30, "n": 20, "trans": "t", "type": "float32"}),
    ("decomposition", "sgetrf_", {"m": 5, "n": 5, "lda": 5, "type": "float32"}),
    ("singular_values", "sgesdd_", {"m": 6, "n": 4, "jobz": "n", "type": "float32"}),
])
def test_blas_and_lapack_sizes(traced, program, function, expected):
    found = [record for name, record in library_calls(traced[1], program) if name == function]
    assert len(found) == 1, [*library_calls(traced[1], program)]
    assert {key: found[0].get(key) for key in expected} == expected
    assert found[0]["calls"] == 1


def test_a_batched_product_tells_its_batch(traced):
    found = [(name, record) for name, record in library_calls(traced[1], "batched")]
    assert [name for name, _ in found] == ["cblas_sgemm_batch"]
    record = found[0][1]
    assert [record[key] for key in ("m", "n", "k", "batch", "type")] == [40, 20, 30, 10, "float32"]


def test_results_and_output_are_what_they_are_without(traced, untraced):
    result, _, program = traced
    assert result.stdout == untraced(program).stdout
    assert "onednn_verbose" not in result.stdout


def test_what_the_program_prints_is_left_alone(trace, untraced):
    result, _, program = trace("""
        import ctypes
        import sys
        import threading
        import torch

        libc = ctypes.CDLL(None)
        image, weights = torch.ones(2, 3, 8, 8), torch.ones(8, 3, 3, 3)
        turn = threading.Lock()

        def work(name):
            for i in range(20):
                with torch.no_grad():
                    torch.nn.functional.conv2d(image, weights)
                with turn:
                    said.append("onednn_verbose,primitive,exec,cpu,%s,%d" % (name, i))

        said = []
        threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        for line in sorted(said):
            libc.printf(b"%s", line[:14].encode())
            torch.nn.functional.conv2d(image, weights)
            libc.printf(b"%s\\n", line[14:].encode())
        libc.printf(b"onednn_verbose,primitive,exec,cpu,convolution,a,b,c,d,e,f,0.1\\n")
        libc.fflush(None)
        sys.stdout.write("onednn_verbose,primitive,exec\\n")
    """)
    assert result.stdout == untraced(program).stdout
    assert result.stdout.count("\n") == 82


def without_times(text):
    """Returns the lines without their times, which differ in every run."""
    return [re.sub(r",[0-9.e-]+$", "", line) for line in text.splitlines()]


@pytest.mark.parametrize("variable", ["1", "2", "profile_exec"])
def test_a_user_who_asks_for_lines_by_the_environment_gets_them(trace, untraced, variable):
    result, report, program = trace("""
        import torch
        torch.nn.functional.conv2d(torch.ones(2, 3, 8, 8), torch.ones(8, 3, 3, 3))
    """, {"ONEDNN_VERBOSE": variable})
    alone = untraced(program, {"ONEDNN_VERBOSE": variable})
    assert onednn_lines(alone.stdout)
    assert without_times(result.stdout) == without_times(alone.stdout)
    assert [name for name, _ in library_calls(report)].count("convolution") == 1


def test_a_user_who_asks_for_lines_for_a_while_gets_them(trace, untraced):
    result, report, program = trace("""
        import torch
        from torch.backends import mkldnn

        def call():
            torch.nn.functional.conv2d(torch.ones(2, 3, 8, 8), torch.ones(8, 3, 3, 3))

        call()
        print("off", flush=True)
        with mkldnn.verbose(mkldnn.VERBOSE_ON):
            call()
        print("off", flush=True)
        with mkldnn.verbose(mkldnn.VERBOSE_ON_CREATION):
            call()
        print("off", flush=True)
        call()
    """)
    alone = untraced(program)
    assert onednn_lines(alone.stdout)
    assert without_times(result.stdout) == without_times(alone.stdout)
    assert sum(record["calls"] for name, record in library_calls(report)
               if name == "convolution") == 4


def test_forks_and_exceptions_leave_no_line_behind(trace, untraced):
    result, report, program = trace("""
        import os
        import torch

        def call():
            torch.nn.functional.conv2d(torch.ones(2, 3, 8, 8), torch.ones(8, 3, 3, 3))
            torch.mm(torch.ones(3, 4), torch.ones(4, 5))

        torch.set_num_threads(1)
        call()
        child = os.fork()
        call()
        if child == 0:
            print("child", flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        print("parent", flush=True)
        torch.nn.functional.conv2d(torch.ones(2, 3, 8, 8), torch.ones(4, 2, 3, 3))
    """, status=1)
    assert result.stdout == untraced(program).stdout == "child\nparent\n"
    assert "RuntimeError" in result.stderr
    names = [name for name, _ in library_calls(report)]
    assert "convolution" in names and "sgemm_" in names


def test_the_tree_says_it_in_a_line(optrace, a_python):
    def notes(*arguments):
        result = optrace(*arguments, "--python", a_python, timeout=300)
        assert result.returncode == 0, result.stderr
        return [line.split("↳ ", 1)[1] for line in result.stdout.splitlines() if "↳ " in line]

    assert any(re.match(r"oneDNN (convolution|reorder), \S+, ", note) for note in notes("conv2d"))
    product = notes("mm", "--input", "torch.ones(3, 4), torch.ones(4, 5)")
    assert any(note.startswith("m 5, n 3, k 4") for note in product)
