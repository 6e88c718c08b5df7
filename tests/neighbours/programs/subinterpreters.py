"""Subinterpreters beside the main interpreter, which has imported torch."""
import _xxsubinterpreters as interpreters

import torch

from rounds import bits, rounds

for number in rounds():
    other = interpreters.create()
    interpreters.run_string(other, "import json, sys\nprint(json.dumps([1]), sys.getprofile())")
    interpreters.destroy(other)
    print(number, bits(torch.arange(8.0).add(number).softmax(0)))
