"""A fixed tenth of some of PyTorch's test files has the same outcomes under `optrace run`."""
import json
import sys

import pytest

pytestmark = pytest.mark.verify

FILES = ("test_view_ops", "test_python_dispatch")
EVERY = 10


def test_the_outcomes_are_the_same(optrace, run_program, repository, source, python, tmp_path):
    table = tmp_path / "table.json"
    ran = run_program([sys.executable, "-B",
                       repository / "tests/pytorch_tests/run_pytorch_tests.py",
                       "--optrace", *optrace.command, "--python", python,
                       "--source", source,
                       "--every", str(EVERY), "--json", table, *FILES], timeout=900)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    rows = json.loads(table.read_text())
    assert [row["file"] for row in rows] == list(FILES)
    for row in rows:
        assert row["passed"] > 5 and row["ran"] == row["tests"], row
