"""The tests that xdist_suite.py runs."""
import pytest

from rounds import bits, step


@pytest.mark.parametrize("number", range(24))
def test_step(number):
    assert bits(*step(number)) == bits(*step(number))


def test_that_fails():
    assert bits(*step(1)) == bits(*step(2))
