"""The pytest plugin: real pytest on users' test files."""
import os
import re
import textwrap
import xml.etree.ElementTree

import pytest

from usual_cache import copy_plans

PASSED = 0
FAILED = 1
USAGE = 4

MODEL = """
    import pytest, torch, unittest

    def convolve():
        return torch.nn.functional.conv2d(torch.ones(1, 3, 8, 8), torch.ones(4, 3, 3, 3))
"""


class Outcome:
    """The results of a pytest run, by test."""

    def __init__(self, ended, results):
        self.status = ended.returncode
        self.output = ended.stdout + ended.stderr
        self.cases = {}
        if not results.exists():
            return
        for case in xml.etree.ElementTree.parse(results).iter("testcase"):
            name = case.get("name")
            for child in case:
                if child.tag in ("failure", "error", "skipped"):
                    self.cases[name] = child.tag, child.text or ""
            self.cases.setdefault(name, ("passed", ""))

    def text(self, name, tag):
        assert name in self.cases, self.output
        assert self.cases[name][0] == tag, self.output
        return self.cases[name][1]

    def tags(self):
        return {name: tag for name, (tag, text) in self.cases.items()}


@pytest.fixture
def run_pytest(build, python, run_program, tmp_path):
    """run_pytest(code, *options) -> Outcome of the tests in `code`, run by a separate pytest."""
    package = build / "python"
    assert list(package.glob("optrace/_optrace*.so")), f"{package} has no module"

    def run(code, *options, header=MODEL, folder=tmp_path, path=(), environment=None,
            plugin=("-p", "optrace.pytest_plugin"), timeout=400):
        (folder / "test_it.py").write_text(textwrap.dedent(header) + textwrap.dedent(code))
        results = tmp_path / "results.xml"
        results.unlink(missing_ok=True)
        variables = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "CI": "",
                     # Independent of the colours and the width of this test's terminal.
                     "COLUMNS": "200", "PYTEST_ADDOPTS": "", **(environment or {})}
        variables["PYTHONPATH"] = os.pathsep.join(
            [*map(str, path), str(package), *filter(None, [os.environ.get("PYTHONPATH")])])
        ended = run_program(
            [python, "-B", "-m", "pytest", "-p", "no:cacheprovider", *plugin, "--rootdir", folder,
             "-o", "junit_family=xunit1", "--junitxml", results, *map(str, options),
             str(folder / "test_it.py")], timeout=timeout, env=variables, cwd=tmp_path)
        return Outcome(ended, results)
    return run


def test_the_marker(run_pytest, optrace, tmp_path):
    rules = tmp_path / "tests/rules.yaml"
    rules.parent.mkdir()
    rules.write_text("rules:\n"
                     "- {expect: ops <= 1, name: few ops, because: each costs a microsecond}\n")
    ran = run_pytest("""
        @pytest.fixture
        def model():
            torch.ones(3).exp()
            yield convolve
            torch.ones(3).sin()

        @pytest.mark.optrace(expect=["calls aten::conv2d == 1", "never calls aten::exp",
                                     "never calls aten::sin"])
        def test_holds(model):
            model()

        @pytest.mark.optrace(expect=["calls aten::conv2d", "never calls at::native::convolution"])
        def test_breaks(model):
            model()  # The test's own line.

        @pytest.mark.optrace(expect="rules.yaml")
        def test_file(model):
            model()

        @pytest.mark.optrace(expect={"rules": ["no copy", {"expect": "ops == 7", "name": "seven"}]})
        def test_dict():
            torch.ones(3)

        @pytest.mark.optrace({"expect": "calls aten::ones", "because": "it is there"})
        def test_one_rule():
            torch.ones(3)

        @pytest.mark.optrace(expect="never calls aten::ones")
        def test_own_failure():
            torch.ones(3)
            assert "own" == "failure"

        @pytest.mark.optrace(expect="never calls aten::ones")
        def test_skips():
            pytest.skip("by itself")

        @pytest.mark.xfail(strict=True)
        @pytest.mark.optrace(expect="never calls aten::ones")
        def test_expected():
            torch.ones(3)

        def ones():
            return torch.ones(3)

        @pytest.mark.optrace(expect="calls aten::ones")
        @pytest.mark.parametrize("make", [
            ones, pytest.param(lambda: ones().mul(2), id="mul",
                               marks=pytest.mark.optrace(expect="never calls aten::mul"))])
        def test_each(make):
            make()

        @pytest.mark.optrace(expect="calls aten::ones")
        class TestAll:
            def test_one(self):
                torch.ones(3)

            @pytest.mark.optrace(expect="never calls aten::ones")
            def test_both(self):
                torch.ones(3)

        class Case(unittest.TestCase):
            def setUp(self):
                torch.ones(3).exp()

            @pytest.mark.optrace(expect=["calls aten::ones == 1", "never calls aten::exp"])
            def test_good(self):
                torch.ones(3)

            @pytest.mark.optrace(expect="calls aten::exp")
            def test_bad(self):
                torch.ones(3)

            @pytest.mark.optrace(expect="calls aten::exp")
            def test_own(self):
                self.assertEqual("own", "failure")

            @pytest.mark.optrace(expect="calls aten::exp")
            def test_skipped(self):
                self.skipTest("by itself")
        """, "--strict-markers", "--optrace-traces", "kept", folder=tmp_path / "tests")
    assert ran.status == FAILED
    assert ran.tags() == {
        "test_holds": "passed", "test_breaks": "failure", "test_file": "failure",
        "test_dict": "failure", "test_one_rule": "passed", "test_own_failure": "failure",
        "test_skips": "skipped", "test_expected": "skipped", "test_each[ones]": "passed",
        "test_each[mul]": "failure", "test_one": "passed", "test_both": "failure",
        "test_good": "passed", "test_bad": "failure", "test_own": "failure",
        "test_skipped": "skipped"}, ran.output

    # The rule, the finding, and the call path with lines, which begins at the test, not in pytest.
    said = ran.text("test_breaks", "failure")
    assert said.startswith("optrace: never calls at::native::convolution: called 1 time\n")
    assert "passed  calls aten::conv2d: called 1 time" in said
    assert "failed  never calls at::native::convolution: called 1 time" in said
    assert "1 of 2 rules passed, 1 failed" in said
    way = [line.strip() for line in said.splitlines() if re.match(" +(under|at) ", line)]
    # First the test's own line, then the line in the program's function that it calls.
    lines = (tmp_path / "tests/test_it.py").read_text().splitlines()
    own = next(i for i, line in enumerate(lines, 1) if "The test's own line" in line)
    assert way[0].startswith("under test_it.test_breaks") and way[0].endswith(f"test_it.py:{own}")
    assert way[1].startswith("under test_it.convolve")
    assert said.splitlines()[-1] == f"test_it.py:{own - 2}: Failed"
    assert way[-1].startswith("at at::native::convolution  aten/src/ATen/native/Convolution.cpp:")
    told = said.replace(str(tmp_path), "")
    assert "_pytest" not in told and "Traceback" not in told and "pytest_plugin" not in told
    assert "few ops: " in ran.text("test_file", "failure")
    assert "because each costs a microsecond" in ran.text("test_file", "failure")
    assert "seven: " in ran.text("test_dict", "failure")
    assert "expected: ops == 7" in ran.text("test_dict", "failure")
    assert "assert 'own' == 'failure'" in ran.text("test_own_failure", "failure")
    assert "aten::ones" not in ran.text("test_own_failure", "failure").split("Error")[-1]
    assert "aten::mul" in ran.text("test_each[mul]", "failure")
    assert "optrace: calls aten::exp: never called" in ran.text("test_bad", "failure")
    assert "optrace:" not in ran.text("test_own", "failure")
    assert "optrace: never calls at::native::convolution" in ran.output.split("short test")[1]

    kept = sorted(path.name for path in (tmp_path / "kept").iterdir())
    # All traces but those of tests that failed or were skipped by themselves.
    assert len(kept) == len(ran.cases) - 4, kept
    trace = next((tmp_path / "kept").glob("*test_breaks*"))
    assert optrace("check", trace, "--expect", "calls aten::conv2d").returncode == 0


def test_markers_that_are_wrong(run_pytest, tmp_path):
    (tmp_path / "bad.yaml").write_text("ruls: []\n")
    ran = run_pytest("""
        import asyncio
        wrong = {
            "none": pytest.mark.optrace, "empty": pytest.mark.optrace(expect=[]),
            "unknown_argument": pytest.mark.optrace(expect="ops <= 1", expects=1),
            "no_flag": pytest.mark.optrace(expect="ops <= 1", allow_unknown="yes"),
            "no_rule": pytest.mark.optrace(expect="lunches <= 1"),
            "bad_file": pytest.mark.optrace(expect="bad.yaml"),
            "no_file": pytest.mark.optrace(expect="missing.yaml"),
            "number": pytest.mark.optrace(expect=7),
            "inner": pytest.mark.optrace(expect=["no copy", None]),
            "bad_dict": pytest.mark.optrace(expect={"ruls": []}),
            "bad_key": pytest.mark.optrace(expect={"expect": "no copy", "becuase": "x"}),
            "not_json": pytest.mark.optrace(expect={"rules": [object()]})}

        @pytest.mark.parametrize("name", [pytest.param(name, marks=mark, id=name)
                                          for name, mark in wrong.items()])
        def test_wrong(name):
            open("ran", "w").close()

        @pytest.mark.optrace(expect="no copy")
        async def test_async():
            pass

        @pytest.mark.optrace(expect="never calls aten::bogus")
        def test_unknown_op():
            torch.ones(3)

        @pytest.mark.optrace(expect="never calls aten::bogus", allow_unknown=True)
        def test_unknown_allowed():
            torch.ones(3)

        @pytest.mark.optrace(expect="ops <= 1")
        def test_nothing_traced():
            pass

        @pytest.mark.optrace(expect="ops <= 1")
        def test_in_another(optrace):
            with optrace.trace():
                pass
        """)
    assert ran.status == FAILED

    def said(name, tag="error"):
        text = ran.text(name, tag)
        assert "Traceback" not in text and "During handling" not in text, text
        return text
    for name, words in {
            "none": "missing a required argument: 'expect'", "empty": "the list of rules is empty",
            "unknown_argument": "unexpected keyword argument 'expects'", "no_flag": "'yes'",
            "no_rule": "'lunches' can't be counted", "bad_file": "bad.yaml:1",
            "no_file": "missing.yaml", "number": "7 is not a rule", "inner": "None is not a rule",
            "bad_dict": "'ruls' is unknown", "bad_key": "'becuase' is unknown",
            "not_json": "contains values that JSON can't represent"}.items():
        text = said(f"test_wrong[{name}]")
        assert words in text and "@pytest.mark.optrace" in text, text
    assert "async" in said("test_async")
    assert not (tmp_path / "ran").exists()
    assert "no known name matches aten::bogus" in said("test_unknown_op", "failure")
    assert ran.tags()["test_unknown_allowed"] == "passed"
    assert "the report is empty" in said("test_nothing_traced", "failure")
    assert "Traces can't be nested" in ran.text("test_in_another", "failure")


def test_the_fixture(run_pytest, tmp_path):
    ran = run_pytest("""
        def test_parts(optrace):
            torch.ones(3).exp()
            with optrace.trace(python_frames=False) as first:
                torch.ones(3)
            with optrace.trace() as second:
                torch.ones(3).mul(2)  # The fixture's own line.
            found = optrace.check(first, ["calls aten::ones == 1", "never calls aten::exp"])
            assert found and found.passed and found.status == "passed"
            assert [rule["found"] for rule in found.rules] == ["called 1 time", "never called"]
            optrace.check(second, "never calls aten::mul")

        def test_error(optrace):
            with optrace.trace() as t:
                torch.ones(3)
            optrace.check(t, "lunches <= 1")

        def test_raises(optrace):
            with optrace.trace() as t:
                torch.ones(3)
            with pytest.raises(AssertionError, match="can't be decided|no known name"):
                optrace.check(t, "calls aten::bogus")
            optrace.check(t, "never calls aten::bogus", allow_unknown=True)

        @pytest.mark.usefixtures("optrace")
        class Case(unittest.TestCase):
            def test_case(self):
                pass
        """, "--optrace-traces", tmp_path / "kept")
    assert ran.status == FAILED
    said = ran.text("test_parts", "failure")
    assert "AssertionError: optrace: never calls aten::mul: called 1 time" in said
    assert "at aten::mul" in said
    # The function with the block was called before the trace began.
    lines = (tmp_path / "test_it.py").read_text().splitlines()
    own = next(i for i, line in enumerate(lines, 1) if "The fixture's own line" in line)
    assert re.search(rf"under test_it.test_parts .*test_it.py:{own}\n", said), said
    assert "pytest_plugin.py" not in said
    assert "'lunches' can't be counted" in ran.text("test_error", "failure")
    assert ran.tags()["test_raises"] == ran.tags()["test_case"] == "passed"
    assert len(list((tmp_path / "kept").glob("*test_parts*"))) == 2


def test_nothing_is_loaded_for_other_tests(run_pytest):
    ran = run_pytest("""
        def loaded():
            return {"torch", "optrace._optrace"} & set(sys.modules)

        def test_plain():
            assert "optrace.pytest_plugin" in sys.modules
            assert not loaded() and sys.getprofile() is None

        def test_fixture_that_is_not_used(optrace):
            assert not loaded()

        @pytest.mark.skip
        @pytest.mark.optrace(expect="calls aten::ones")
        def test_skipped():
            pass

        def test_after_it():
            assert not loaded()

        @pytest.mark.optrace(expect="calls aten::ones")
        def test_marked():
            import torch
            torch.ones(3)

        def test_after():
            assert len(loaded()) == 2 and sys.getprofile() is None
        """, header="import pytest, sys\n")
    assert ran.status == PASSED, ran.output


def test_the_entry_point(run_pytest, repository, tmp_path):
    """pytest finds the plugin by pyproject.toml's entry point, written as by pip; -p works, too."""
    said = (repository / "pyproject.toml").read_text()
    table = said.split("[project.entry-points.pytest11]")[1].split("[")[0]
    installed = tmp_path / "site/optrace-0.1.0.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: optrace\nVersion: 0.1.0\n")
    (installed / "entry_points.txt").write_text(
        "[pytest11]\n" + "\n".join(line.replace('"', "") for line in table.splitlines()
                                   if "=" in line) + "\n")
    for plugin in ((), ("-p", "optrace.pytest_plugin")):
        ran = run_pytest("""
            @pytest.mark.optrace(expect="never calls aten::ones")
            def test_marked():
                torch.ones(3)
            """, plugin=plugin, path=[installed.parent])
        assert "calls aten::ones" in ran.text("test_marked", "failure")


def test_xdist(run_pytest, tmp_path):
    ran = run_pytest("""
        @pytest.mark.parametrize("number", range(6))
        @pytest.mark.optrace(expect="never calls aten::mul")
        def test_many(number):
            torch.ones(3).add(1) if number % 3 else torch.ones(3).mul(2)
        """, "-n", "2", "--optrace-traces", "kept")
    assert ran.status == FAILED
    assert [ran.tags()[f"test_many[{i}]"] for i in range(6)] == [
        "failure", "passed", "passed"] * 2, ran.output
    assert "at aten::mul" in ran.text("test_many[0]", "failure")
    assert "gw0" in ran.output and "gw1" in ran.output
    assert len(list((tmp_path / "kept").iterdir())) == 6


def test_what_is_missing(run_pytest, tmp_path):
    """Without torch, the compiled module or a compiler, tests that need it fail and name it."""
    without = """
        @pytest.mark.optrace(expect="ops <= 3")
        def test_it():
            pass

        def test_other():
            pass
        """
    for name, code, words in (
            ("torch", "raise ImportError('no torch here')", "no torch"),
            ("optrace", "raise ImportError('not built')", "can't be loaded")):
        folder = tmp_path / name
        folder.mkdir()
        hook = folder / "sitecustomize.py"
        module = "torch" if name == "torch" else "optrace._optrace"
        hook.write_text(textwrap.dedent(f"""
            import sys
            class Hidden:
                def find_spec(self, name, path=None, target=None):
                    if name == {module!r}:
                        {code}
            sys.meta_path.insert(0, Hidden())
            """))
        ran = run_pytest(without, header="import pytest\n", path=[folder], folder=folder)
        assert ran.status == FAILED, ran.output
        assert ran.tags()["test_other"] == "passed"
        assert words in ran.cases["test_it"][1], ran.output
        assert "Traceback" not in ran.cases["test_it"][1]
    without_op_agents = tmp_path / "cache"
    copy_plans(without_op_agents)
    ran = run_pytest("""
        @pytest.mark.optrace(expect="no kernel of dtype float64")
        def test_records():
            torch.ones(3)

        @pytest.mark.optrace(expect="calls aten::ones")
        def test_calls():
            torch.ones(3)
        """, environment={"PATH": "/nonexistent", "CXX": "", "OPTRACE_PREBUILT": "0",
                          "OPTRACE_CACHE_DIR": str(without_op_agents)})
    assert "compiler" in ran.text("test_records", "failure")
    assert ran.tags()["test_calls"] == "passed"


def test_the_documentation(run_pytest, repository):
    example = (repository / "docs/pytest.md").read_text().split("```python\n")[1].split("```")[0]
    ran = run_pytest("\n" + example)
    assert ran.status == PASSED, ran.output
    assert ran.tags() == {"test_convolution": "passed", "test_a_step": "passed"}
    # The marker is listed with its arguments.
    assert "@pytest.mark.optrace(expect, *, allow_unknown=False)" in run_pytest(
        "", "--markers").output
