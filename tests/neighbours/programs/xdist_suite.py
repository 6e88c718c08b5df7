"""pytest-xdist: runs test_suite.py in two processes and prints the outcome of each test."""
import pathlib
import sys

import pytest


class Outcomes:
    def __init__(self):
        self.seen = []

    def pytest_runtest_logreport(self, report):
        if report.when == "call":
            self.seen.append((report.nodeid, report.outcome))


outcomes = Outcomes()
status = pytest.main(["-p", "no:terminal", "-p", "no:cacheprovider", "-n", "2",
                      str(pathlib.Path(__file__).with_name("test_suite.py"))], [outcomes])
print(*sorted(outcomes.seen), sep="\n")
sys.exit(status)
