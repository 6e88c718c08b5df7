"""The `optrace` command: replaces this process with the compiled program."""
import os
import pathlib
import sys


def main():
    # This Python is traced if it has torch and no other one is asked for. It also runs
    # `optrace mcp` and PyTorch's code generators.
    os.environ["OPTRACE_OWN_PYTHON"] = sys.executable
    program = pathlib.Path(__file__).parent / "bin/optrace"
    os.execv(program, ["optrace", *sys.argv[1:]])
