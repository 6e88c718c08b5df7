"""A tenth of the sweep over every op of OpInfo, module and optimizer (`make sweep` runs all): all
are traced, reach a kernel whose definition is in the index, and have the same results as untraced,
bit by bit.
"""
import sys

import pytest

# Calls of the tenth that reach no kernel with a definition -> reason. Each must indeed reach none.
NO_KERNEL = {}

pytestmark = pytest.mark.verify


@pytest.fixture(scope="module")
def sweep(repository):
    sys.path.insert(0, str(repository / "tests/sweep"))
    try:
        import sweep as module
    finally:
        sys.path.pop(0)
    return module


@pytest.fixture(scope="module")
def results(sweep, build, python):
    calls = sweep.tenth(sweep.list_calls(python)["calls"])
    return sweep.trace(calls, build, python)


def named(results):
    return ["%s%s" % (result["op"], " --backward" * result["backward"]) for result in results]


def test_the_tenth_is_of_everything(results):
    """The tenth has ops, modules and optimizers, forward and backward, more than 120 in all."""
    kinds = {(result["kind"], result["backward"]) for result in results}
    assert kinds == {("op", False), ("op", True), ("module", False), ("module", True),
                     ("optimizer", False)}
    assert len(results) > 120


def test_all_are_traced(sweep, results):
    assert {result["op"]: result.get("error") or result.get("died") for result in results
            if result["outcome"] != "traced" and result["op"] not in sweep.EXCEPTIONS} == {}


def test_what_is_excused_indeed_fails(sweep, results):
    """An exception that can be traced must be removed from the table."""
    assert named(result for result in results
                 if result["op"] in sweep.EXCEPTIONS and result["outcome"] == "traced") == []


def test_all_give_what_they_give_untraced(sweep, results):
    traced = [result for result in results
              if result["outcome"] == "traced" and result["op"] not in sweep.UNWRITTEN]
    assert named(result for result in traced if not result["repeatable"]) == []
    assert named(result for result in traced if not result["equal"]) == []


def test_all_reach_a_kernel_with_a_definition(results):
    found = {result["op"] for result in results
             if result["outcome"] == "traced" and result["kernel"] is None}
    assert found == set(NO_KERNEL)
    for result in results:
        if result["outcome"] == "traced" and result["op"] not in NO_KERNEL:
            assert result["kernel"]["file"] and result["kernel"]["line"] > 0
