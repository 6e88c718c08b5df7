"""The `optrace` command: runs the program that was built for it, in our place."""
import os
import pathlib
import sys


def main():
    # Ops are traced in the Python that optrace was installed for, unless told otherwise.
    os.environ.setdefault("OPTRACE_PYTHON", sys.executable)
    program = pathlib.Path(__file__).parent / "bin/optrace"
    os.execv(program, ["optrace", *sys.argv[1:]])
