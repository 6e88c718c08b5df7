"""Interpreters beside the main one, which has torch."""
import _xxsubinterpreters as interpreters

from rounds import bits, rounds, step

for number in rounds():
    other = interpreters.create()
    interpreters.run_string(other, "import json, sys\nprint(json.dumps([1]), sys.getprofile())")
    interpreters.destroy(other)
    print(number, bits(*step(number)))
