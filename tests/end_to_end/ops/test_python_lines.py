"""Lines and columns of calls from Python: operators, conversions, iteration, imports and frames of
every kind, from one trace."""
import json
import re

import pytest

# A comment contains the first op of each call in its line, and the source text of the call.
PROGRAM = '''
import asyncio
import functools
import torch
import outer
x, y = torch.ones(4), torch.ones(4)
def operators(x, y):
    x + y  # add.Tensor: x + y
    x * y; x * x  # mul.Tensor: x * y | mul.Tensor: x * x
    x > 0  # gt.Scalar: x > 0
    x == y  # eq.Tensor: x == y
    x[1]  # select.int: x[1]
    x[2] = 5.0  # lift_fresh: x[2]
    -x  # neg: -x
    bool(x[:1])  # slice.Tensor: x[:1] | is_nonzero: bool(x[:1])
    float(x[:1])  # slice.Tensor: x[:1] | item: float(x[:1])
    with torch.no_grad():
        x - y  # sub.Tensor: x - y
    x += y  # add_.Tensor: x += y
    x @ y  # matmul: x @ y
    (x + y) * (x / y)  # add.Tensor: x + y | div.Tensor: x / y | mul.Tensor: (x + y) * (x / y)
    while x[0] < 0: pass  # select.int: x[0] | lt.Scalar: x[0] < 0 | is_nonzero: x[0] < 0
    torch.add(x, y)  # add.Tensor: torch.add(x, y)
    x.mul(y).neg()  # mul.Tensor: x.mul(y) | neg: x.mul(y).neg()
    list(map(torch.relu, [x, y]))  # relu: list(map(torch.relu, [x, y]))
    functools.partial(torch.sub, x)(y)  # sub.Tensor: functools.partial(torch.sub, x)(y)
    torch.nn.Parameter(y)  # detach: torch.nn.Parameter(y)
    f"{x[0]}"  # select.int: x[0] | item: {x[0]}
    for r in x: pass  # unbind.int: for
    sorted([y[0]], key=torch.sum)  # select.int: y[0] | sum: sorted([y[0]], key=torch.sum)
def comprehended(x):
    [a + 1 for a in (x, x)]  # add.Tensor: a + 1
    list(b * 2 for b in (x, x))  # mul.Tensor: b * 2
def generator(x):
    yield x + 1  # add.Tensor: x + 1
    yield x - 1  # sub.Tensor: x - 1
async def coroutine(x):
    await asyncio.sleep(0)
    return x / 2  # div.Tensor: x / 2
class Thing:
    def __init__(self, x): self.x = x
    @property
    def doubled(self): return self.x * 2  # mul.Tensor: self.x * 2
    def __getattr__(self, name): return self.x - 3  # sub.Tensor: self.x - 3
def raises(x):
    try: x @ torch.ones(5)
    except RuntimeError: x - 2  # sub.Tensor: x - 2
    finally: x * 4  # mul.Tensor: x * 4
# PyTorch runs the op of record_function without the GIL.
def without_gil(x):
    with torch.autograd.profiler.record_function(""):
        x ** 2  # pow.Tensor_Scalar: x ** 2
for i in range(2):
    operators(x, y)
    comprehended(y)
    for value in generator(y): pass
    asyncio.run(coroutine(y))
    Thing(y).doubled
    Thing(y).missing
    raises(y)
    without_gil(y)  # pow.Tensor_Scalar: without_gil(y)
'''
OUTER = "import torch\n\n\nimport inner\ntorch.ones(2) + 1\n"
INNER = "import torch\ntorch.ones(2) - 1\n"


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lines")
    for name, text in (("program", PROGRAM), ("outer", OUTER), ("inner", INNER)):
        (folder / f"{name}.py").write_text(text)
    return folder / "program.py"


def traced_roots(optrace, python, program):
    report = program.with_suffix(".json")
    result = optrace("run", "--python", python, "--format", "json", "-o", report, program,
                     timeout=300)
    assert result.returncode == 0, result.stderr
    content = json.loads(report.read_text())
    return content["roots"]


@pytest.fixture(scope="module")
def roots(optrace, python, program):
    return traced_roots(optrace, python, program)


@pytest.fixture(scope="module")
def found(roots):
    return calls(roots)


def walk(frames, parent=None):
    pending = [(frame, parent) for frame in frames]
    while pending:
        frame, above = pending.pop()
        yield frame, above
        pending += [(child, frame) for child in frame["children"]]


def first_op(frame):
    return next((one["op"].removeprefix("aten::") for one, _ in walk([frame]) if one["op"]), None)


def calls(roots):
    """Returns (line, op) -> the source ranges of calls from Python code of the program."""
    found = {}
    for frame, above in walk(roots):
        if above is None or above["layer"] != "python" or not frame["source"]:
            continue
        if above["source"]["file"].endswith("program.py"):
            place = frame["source"]["call_range"]
            ops = {one["op"].removeprefix("aten::") for one, _ in walk([frame]) if one["op"]}
            for op in ops:
                found.setdefault((frame["source"]["call_line"], op), []).append(place)
    return found


def expected():
    for number, line in enumerate(PROGRAM.splitlines(), 1):
        code, _, comment = line.partition("  # ")
        for part in comment.split(" | ") if comment else []:
            op, text = part.split(": ", 1)
            yield number, op, code.index(text) + 1, text


@pytest.mark.parametrize("number,op,column,text", list(expected()))
def test_every_call_has_its_line_and_columns(found, number, op, column, text):
    places = found.get((number, op))
    assert places, sorted(map(str, found))
    spans = {(place["column"], place["end_line"], place["end_column"]) for place in places}
    if op == "unbind.int":
        assert {span[0] for span in spans} == {column}  # The whole statement, as in tracebacks.
    elif not text.startswith("{"):  # Python 3.11 has the columns of whole f-strings.
        assert (column, number, column + len(text)) in spans


def test_only_lines_that_call_are_named(found):
    lines = {number for number, *_ in expected()}
    called = {line for line, op in found}
    own = {number for number, line in enumerate(PROGRAM.splitlines(), 1)
           if re.search(r"torch\.ones|operators\(x, y\)$|comprehended\(y\)|in generator|"
                        r"asyncio.run|Thing\(y\)\.|raises\(y\)|^import outer|torch.no_grad|"
                        r"record_function", line)}
    assert called <= lines | own


def test_calls_on_one_line_are_two_frames(found):
    places = found[next(n for n, op, _, text in expected() if text == "x * x"), "mul.Tensor"]
    assert sorted(place["column"] for place in places) == [5, 12]


def test_an_import_is_called_where_it_is_written(roots):
    modules = {frame["name"]: (frame["source"]["call_line"], above["name"])
               for frame, above in walk(roots)
               if frame["name"] in ("outer.<module>", "inner.<module>") and above}
    assert modules["outer.<module>"] == (1 + PROGRAM.splitlines().index("import outer"),
                                         "__main__.<module>")
    assert modules["inner.<module>"] == (4, "outer.<module>")


def test_check_reports_the_true_line(optrace, program, roots):
    result = optrace("check", program.with_suffix(".json"), "--expect", "never calls aten::matmul",
                     "--format", "github")
    assert result.returncode == 1, result.stderr
    line = next(number for number, op, *_ in expected() if op == "matmul")
    assert re.search(rf"program\.py,line={line},endLine={line},col=5,endColumn=10::",
                     result.stdout), result.stdout
    assert "__main__.<…>" not in result.stdout
    assert "__main__.<module>" in result.stdout


@pytest.mark.verify
@pytest.mark.parametrize("version", ["3.9", "3.10", "3.12", "3.13"])
def test_lines_in_other_pythons(optrace, repository, program, version):
    python = repository / f".venv-{version}/bin/python"
    if not python.exists():
        pytest.skip(f"cannot run here: there is no {python}; setup/make-python-venvs.sh makes it")
    found = calls(traced_roots(optrace, python, program))
    for number, op, column, _ in expected():
        places = found.get((number, op))
        assert places, (number, op, sorted(map(str, found)))
        if version in ("3.9", "3.10"):
            assert places == [None] * len(places)  # These versions have no columns.
        elif op not in ("unbind.int", "item"):
            assert column in {place["column"] for place in places}, (number, op, places)
