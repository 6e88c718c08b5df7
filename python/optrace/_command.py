"""The `optrace` command: replaces this process with the compiled program."""
import os
import pathlib
import sys


def main():
    # Ops are traced in the Python that optrace is installed for, unless the variable is set.
    os.environ.setdefault("OPTRACE_PYTHON", sys.executable)
    os.environ["OPTRACE_PACKAGE_PYTHON"] = sys.executable  # For `optrace mcp`.
    program = pathlib.Path(__file__).parent / "bin/optrace"
    os.execv(program, ["optrace", *sys.argv[1:]])
