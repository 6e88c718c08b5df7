"""No verdict of `optrace check` about random programs contradicts their own accounts."""
import sys

import pytest

pytestmark = pytest.mark.verify

RULES = 700


def test_verdicts_are_those_of_the_programs_accounts(optrace, python, run_program, repository,
                                                     tmp_path):
    run = run_program([sys.executable, repository / "tests/truth/random_programs.py",
                       *optrace.command, python, tmp_path, "1", "4", str(RULES)])
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-4000:]
