"""Small files that cause much work: time and memory stay within a multiple of a file's size
(SECURITY.md).

Each command runs under system limits on its memory and its processor time, far above the documented
bounds and far below the cost of the files before there were bounds.
"""
import json
import os
import random
import resource

import pytest

from hostile_files import FUNCTION, OP, function, path, python_function, trace

DONE, USAGE = 0, 2
MEMORY, SECONDS = 768 << 20, 30


def limited():
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))


@pytest.fixture
def run(optrace, tmp_path):
    """run(command, content, ...): the command with a file of that content as its first operand."""
    def started(command, content, *arguments):
        operand = tmp_path / "hostile"
        operand.write_bytes(content)
        return optrace(command, operand, *arguments, "-o", tmp_path / "output",
                       preexec_fn=limited)
    return started


def frame(name="f", children="", **more):
    keys = {"layer": "kernel", "name": name, **more}
    return json.dumps(keys)[:-1] + f', "children": [{children}]}}'


def report(roots):
    return ('{"schema": "optrace.report/1", "roots": [' + roots + "]}").encode()


def deep_report(depth):
    leaf = frame("leaf")
    opening = frame()[:-2]
    return report((opening + leaf + ",") * depth + leaf + "]}" * depth)


MANY = 1_000_000 // 3
REPORTS = {
    "a detail of many objects": report(frame(detail={"x": [{}] * MANY})),
    "a detail of many lists": report(frame(detail={"variants": [[]] * MANY})),
    "calls that are no calls": report(frame(detail={"calls": [{}] * MANY})),
    "one long file name": report(frame(source={"file": "a" * 400_000, "line": 1}) + ","
                                 + ",".join([frame(source={"file": "b", "line": 1})] * 4000)),
    "one long name": report(frame("a" * 400_000) + "," + ",".join([frame()] * 8000)),
    "deeply nested": deep_report(8000),
    "many roots": report(",".join([frame()] * 16_000)),
}


SHOW = """
import optrace, resource, sys
resource.setrlimit(resource.RLIMIT_DATA, ({memory}, {memory}))
resource.setrlimit(resource.RLIMIT_CPU, ({seconds}, {seconds}))
report = optrace.load(sys.argv[1])
sizes = [len(text) for text in (report.report(), report._repr_html_(), report.to_json())]
assert max(sizes) < 100 * len(open(sys.argv[1]).read()), sizes
"""


@pytest.mark.parametrize("what", REPORTS)
def test_a_report(run, run_program, python, build, tmp_path, what):
    content = REPORTS[what]
    assert len(content) < 1_500_000
    result = run("check", content, "--expect", "ops >= 0")
    assert result.returncode == DONE, result.stderr
    result = run("compare", content, tmp_path / "hostile")
    assert result.returncode == DONE, result.stderr
    shown = run_program([python, "-c", SHOW.format(memory=MEMORY, seconds=SECONDS),
                         str(tmp_path / "hostile")],
                        env={**os.environ, "PYTHONPATH": str(build / "python")})
    assert shown.returncode == 0, shown.stderr


def traces():
    many = b'{"x": [' + b"{}," * MANY + b"{}]}"
    yield "metadata of a megabyte", trace(many), None
    yield "metadata that repeats", trace(b'{"x": "' + b"a" * (60 << 20) + b'"}'), "is too large"
    yield "paths that repeat", trace(functions=[function("f", 0)], paths=[path(0)] * 1_000_000
                                     ), "is too large"
    long = "_Z" + "a" * 900_000
    yield "a long symbol", trace(functions=[function(long, 0)], paths=[path(0)] * 5000), "repeat"
    yield "a long library", trace(modules=["/" + "a" * 900_000], functions=[function("f")],
                                  paths=[path(0)] * 5000), "repeat"
    yield "a long file", trace(python_functions=[python_function("f", "a" * 900_000)],
                               paths=[path(0, 1)] * 5000), "repeat"
    records = [json.dumps({"op": "aten::x", "schema": "x", "arguments": [
        {"name": "a", "value": [[[]] * 100] * 100}], "n": i}) for i in range(17)]
    yield "records that many paths name", trace(op_records=records, paths=[
        path(0, OP, ops=range(1, 17))] * 5000), "repeat"
    yield "too many records", trace(op_records=records, paths=[path(0, OP, ops=[1] * 500)]
                                    ), "a count is too large"
    yield "a long chain", trace(functions=[function("_ZN2at4_ops3add4callEv", 0)], paths=[
        path(0, parent=i - 1 if i else None) for i in range(20_000)]), None


def chains():
    """Yields traces in which a search from each path or through each record would take minutes."""
    many = 100_000
    padding = json.dumps({"x": random.Random(7).randbytes(200_000).hex()}).encode()

    def below(symbols, below, last=0, records=(), **more):
        """Returns a chain of these functions in turn, with as many functions or ops at its end."""
        chain = [path(i % symbols, parent=i - 1 if i else None) for i in range(many)]
        ends = [path(last, below, parent=many - 1, line=i + 1, **more) for i in range(many)]
        return chain + ends

    def made(symbols, paths, **more):
        return trace(meta=padding, functions=[function(symbol, 0) for symbol in symbols],
                     paths=paths, **more)

    op = [json.dumps({"op": "aten::x", "schema": "x", "arguments": []})]
    steps = ["_ZNK3c1010Dispatcher9callBoxedERKNS_14OperatorHandleEPSt6vectorINS_6IValueESaIS5_EE",
             "_ZNK3c1014OperatorHandle9callBoxedEPSt6vectorINS_6IValueESaIS2_EE"]
    yield "ops below a long chain", made(steps, below(2, OP), op_records=op)
    unboxed = "_ZN3c104impl28wrap_kernel_functor_unboxed_IiE4callEv"
    yield "kernels below a long chain", made([steps[1], unboxed], below(1, FUNCTION, last=1))
    again = "_ZNK3c1014OperatorHandle15redispatchBoxedEv"
    yield "redispatches in a long chain", made([again], [
        path(0, parent=i - 1 if i else None) for i in range(many)] + [
            path(0, OP, parent=many - 1)], op_records=op)
    implementation = "_ZN4dnnl4impl3cpu3x647executeEv"
    yield "implementations in a long chain", made([implementation], below(1, FUNCTION))
    called = [json.dumps({"kind": "gemm", "call": f"f{i}", "library": "cuBLAS"})
              for i in range(many)]
    kernel, folded = "_ZN2at6native3addEv", "_ZN3c106detail1fEv"
    for name, records in (
            ("calls of many functions", called),
            ("many kernels", [json.dumps({"kind": "kernel", "kernel": f"k{i}"})
                              for i in range(many)]),
            ("many functions that fail", [json.dumps({"kind": "failed", "call": f"f{i}"})
                                          for i in range(many)])):
        yield name, made([kernel, folded], [path(0)] + [
            path(1, parent=0, line=i + 1, ops=range(i, min(i + 16, many)))
            for i in range(1, many, 16)], op_records=["{}", *records[1:]])


def test_what_is_searched_for_from_each_path(run):
    for name, content in chains():
        result = run("report", content, "--format", "json")
        assert result.returncode == DONE, (name, result.stderr)


@pytest.mark.parametrize("name, content, refused", [pytest.param(*t, id=t[0]) for t in traces()])
def test_a_trace(run, name, content, refused):
    for arguments in ([], ["--format", "json", "--all"]):
        result = run("report", content, *arguments)
        if refused:
            assert result.returncode == USAGE and refused in result.stderr, result.stderr
        else:
            assert result.returncode == DONE, result.stderr


@pytest.fixture
def check(optrace, tmp_path):
    """check(rules): the command with a small report and a file of these rules."""
    def started(rules):
        (tmp_path / "report.json").write_bytes(REPORTS["many roots"][:200].split(b",{")[0] + b"]}")
        (tmp_path / "rules.yaml").write_text(rules)
        return optrace("check", tmp_path / "report.json", "--expect", tmp_path / "rules.yaml",
                       preexec_fn=limited)
    return started


@pytest.mark.parametrize("rules, said", [
    ("rules:\n" + "".join(f"- never calls unknown_{i}\n" for i in range(20_000)),
     "than 10000 rules"),
    ("rules:\n- &a calls " + "x" * 1900 + "\n" + "- *a\n" * 190_000, "than 10000 rules"),
    ("rules: [" + "*unknown, " * 20_000 + "]", "anchor is not defined"),
    ("{" + ", ".join(f"k{i}: 1" for i in range(20_000)) + "}", "is unknown"),
    ("[" * 500_000, "not a file of rules"),
    ("rules: " + "{a: " * 200_000, "not a file of rules"),
    ("- " * 500_000, "not a file of rules"),
    ("? " * 500_000, "not a file of rules"),
    ("a: &a [" + "&b [" * 100 + "]" * 101, "not a file of rules"),
    ("rules: '" + "\n" * 900_000 + "'", "missing or empty"),
], ids=range(10))
def test_rules(check, rules, said):
    result = check(rules)
    assert result.returncode == USAGE and said in result.stderr, result.stderr[-500:]


def test_unknown_names(check):
    result = check("rules:\n" + "".join(f"- never calls unknown_{i}\n" for i in range(300)))
    assert result.returncode == USAGE and "300 could not be decided" in result.stdout
