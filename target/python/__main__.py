"""The program that `optrace OP` starts in the Python to be traced: `PYTHON target DESCRIPTOR`.

Only this file and optrace_target/protocol.py must be valid in every Python version, so that an old
one gets an error message instead of a syntax error. Everything else is in the package beside it.
"""
import sys

OLDEST = (3, 9)


def main():
    descriptor = int(sys.argv[1])
    folder = sys.path.pop(0)  # Names in this folder must not shadow the traced program's modules.
    if sys.version_info[:2] < OLDEST or sys.implementation.name != "cpython":
        import json
        import os

        sys.dont_write_bytecode = True
        sys.path.insert(0, folder)
        from optrace_target.protocol import Key, Message

        name = getattr(getattr(sys, "implementation", None), "name", "cpython")
        version = list(sys.version_info[:3])
        message = {Key.MESSAGE: Message.PYTHON, Key.IMPLEMENTATION: name, Key.VERSION: version,
                   Key.TORCH: None, Key.MODULES: []}
        os.write(descriptor, (json.dumps(message) + "\n").encode("ascii"))
        sys.exit(0)
    sys.path.insert(0, folder)
    from optrace_target import session
    sys.path.remove(folder)
    session.run(descriptor)


main()
