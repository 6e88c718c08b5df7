"""Calls of oneDNN, BLAS and LAPACK on the CPU, decoded into the report."""
import functools
import json
import os
import re
import textwrap

import pytest

NEWEST_LATER = ["python", pytest.param("newest_python", marks=pytest.mark.verify)]


@pytest.fixture(scope="module")
def runs_of(request, optrace, run_program, tmp_path_factory):
    """runs_of(name of a fixture, a Python) -> Runs."""
    return functools.cache(lambda name: Runs(request.getfixturevalue(name), optrace, run_program,
                                             tmp_path_factory))


@pytest.fixture(scope="module", params=["python", "newest_python"])
def runs(request, runs_of):
    return runs_of(request.param)


class Runs:
    """Runs of programs in one Python, each made once for each value of ONEDNN_VERBOSE."""

    def __init__(self, python, optrace, run_program, tmp_path_factory):
        self._python = python
        self._optrace = optrace
        self._run_program = run_program
        self._folder = tmp_path_factory.mktemp("programs")
        self._traces = {}  # By program.
        self.traced = functools.cache(self._traced)
        self.untraced = functools.cache(self._untraced)

    def _traced(self, text, verbose=None, status=0):
        """Returns (CompletedProcess, report, tree) of `optrace run`."""
        trace = self._traces[text] = self._folder / f"{len(self._traces)}.trace"
        result = self._optrace("run", "--python", self._python, "--trace", trace, "-o", os.devnull,
                               self._program(text), environment={"ONEDNN_VERBOSE": verbose},
                               timeout=300)
        assert result.returncode == status, result.stderr
        shown = [self._optrace("report", trace, "--format", form) for form in ("json", "text")]
        assert all(one.returncode == 0 for one in shown), shown
        return result, json.loads(shown[0].stdout), shown[1].stdout

    def check(self, text, *rules):
        """Returns the CompletedProcess of `optrace check` for a program that was traced last."""
        return self._optrace("check", self._traces[text],
                             *[word for rule in rules for word in ("--expect", rule)])

    def _untraced(self, text, verbose=None):
        """Returns the CompletedProcess of the program without optrace."""
        variables = {name: value for name, value in os.environ.items() if name != "ONEDNN_VERBOSE"}
        if verbose is not None:
            variables["ONEDNN_VERBOSE"] = verbose
        return self._run_program([self._python, str(self._program(text))], env=variables,
                                 timeout=300)

    def _program(self, text):
        program = self._folder / "program.py"
        program.write_text(textwrap.dedent(text))
        return program


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
def traced(runs):
    return runs.traced(PROGRAM)


def onednn_lines(text):
    """Returns (primitive, implementation, propagation, problem) of each line of oneDNN's log."""
    found = []
    for line in text.splitlines():
        match = re.match(r"onednn_verbose(?:,v1)?(?:,primitive)?,exec,\w+,(.*)", line)
        if match:
            fields = match.group(1).split(",")
            found.append((fields[0], fields[1], fields[2], fields[-2]))
    return found


def test_onednn_calls_are_those_that_it_tells_of_itself(traced, runs):
    _, report, _ = traced
    told = onednn_lines(runs.untraced(PROGRAM, "1").stdout)
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


def test_a_query_of_the_workspace_is_no_call(traced, runs):
    """PyTorch asks sgesdd_ for the size of its workspace first. sgetrf_ has none."""
    result = runs.check(PROGRAM, "calls sgesdd_ == 1", "calls sgetrf_ == 1",
                        "calls at::native::lapackSvd == 2")
    assert result.returncode == 0, result.stdout


def test_a_batched_product_tells_its_batch(traced):
    found = [(name, record) for name, record in library_calls(traced[1], "batched")]
    assert [name for name, _ in found] == ["cblas_sgemm_batch"]
    record = found[0][1]
    assert [record[key] for key in ("m", "n", "k", "batch", "type")] == [40, 20, 30, 10, "float32"]


def test_results_and_output_are_what_they_are_without(traced, runs):
    """What oneDNN says of itself is left out of the output of the program without optrace."""
    result, *_ = traced
    lines = runs.untraced(PROGRAM, "1").stdout.splitlines()
    assert result.stdout.splitlines() == [line for line in lines if "onednn_verbose" not in line]
    assert result.stdout.count("\n") == 10


def test_the_tree_says_it_in_a_line(traced):
    *_, tree = traced
    notes = [line.split("↳ ", 1)[1] for line in tree.splitlines() if "↳ " in line]
    assert any(re.match(r"oneDNN (convolution|reorder), \S+, ", note) for note in notes)
    assert any(note.startswith("m 5, n 3, k 4") for note in notes)


def without_times(text):
    """Returns the lines without their times, which differ in every run."""
    return [re.sub(r",[0-9.e-]+$", "", line) for line in text.splitlines()]


@pytest.mark.parametrize("python_of", NEWEST_LATER)
@pytest.mark.parametrize("variable", ["1", pytest.param("2", marks=pytest.mark.verify),
                                      pytest.param("profile_exec", marks=pytest.mark.verify)])
def test_a_user_who_asks_for_lines_by_the_environment_gets_them(runs_of, python_of, variable):
    runs = runs_of(python_of)
    result, report, _ = runs.traced(PROGRAM, variable)
    alone = runs.untraced(PROGRAM, variable)
    assert onednn_lines(alone.stdout)
    assert without_times(result.stdout) == without_times(alone.stdout)
    found = [name for name, _ in library_calls(report, "convolution")]
    assert found.count("convolution") == 1


SAYS = """
    import ctypes
    import os
    import sys
    import threading
    import torch
    from torch.backends import mkldnn

    libc = ctypes.CDLL(None)
    image, weights = torch.ones(2, 3, 8, 8), torch.ones(8, 3, 3, 3)

    def prints():
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

    def asks_for_a_while():
        def call():
            torch.nn.functional.conv2d(image, weights)

        call()
        print("off", flush=True)
        with mkldnn.verbose(mkldnn.VERBOSE_ON):
            call()
        print("off", flush=True)
        with mkldnn.verbose(mkldnn.VERBOSE_ON_CREATION):
            call()
        print("off", flush=True)
        call()

    def forks_and_fails():
        def call():
            torch.nn.functional.conv2d(image, weights)
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
        torch.nn.functional.conv2d(image, torch.ones(4, 2, 3, 3))

    for part in (prints, asks_for_a_while, forks_and_fails):
        print("part", flush=True)
        part()
"""


@pytest.fixture(scope="module", params=NEWEST_LATER)
def said(request, runs_of):
    """(parts of the traced program's output, of the untraced one's, standard error, report)."""
    runs = runs_of(request.param)
    traced, report, _ = runs.traced(SAYS, status=1)
    parts, alone = (result.stdout.split("part\n")[1:]
                    for result in (traced, runs.untraced(SAYS)))
    assert len(parts) == len(alone) == 3
    return parts, alone, traced.stderr, report


def test_what_the_program_prints_is_left_alone(said):
    (prints, *_), (alone, *_), *_ = said
    assert prints == alone
    assert prints.count("\n") == 82


def test_a_user_who_asks_for_lines_for_a_while_gets_them(said):
    (_, asked, _), (_, alone, _), _, report = said
    assert onednn_lines(alone)
    assert without_times(asked) == without_times(alone)
    assert sum(record["calls"] for name, record in library_calls(report, "asks_for_a_while")
               if name == "convolution") == 4


def test_forks_and_exceptions_leave_no_line_behind(said):
    (*_, forked), (*_, alone), errors, report = said
    assert forked == alone == "child\nparent\n"
    assert "RuntimeError" in errors
    names = [name for name, _ in library_calls(report, "forks_and_fails")]
    assert "convolution" in names and "sgemm_" in names
