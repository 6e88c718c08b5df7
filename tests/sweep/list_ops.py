"""list_ops.py TARGET: prints every call of the sweep as JSON. Run by the Python whose torch is
traced. TARGET is the folder of optrace's own target program (target/python)."""
import json
import sys

sys.path.insert(0, sys.argv[1])

import torch

from optrace_target.calls.opinfo import OpInfoDatabase


def main():
    database = OpInfoDatabase(torch, "cpu")
    infos = {}
    for name in database.names():
        for info in database.find(name):
            infos[".".join(filter(None, [info.name, info.variant_test_name]))] = info
    if database.missing is not None:
        sys.exit("no op_db: " + database.missing)
    calls = []
    for name, info in infos.items():
        calls.append({"op": name, "kind": "op", "backward": False})
        if info.supports_autograd and any(
                dtype.is_floating_point or dtype.is_complex
                for dtype in info.supported_backward_dtypes("cpu")):
            calls.append({"op": name, "kind": "op", "backward": True})
    for name in dir(torch.nn):
        kind = getattr(torch.nn, name)
        if isinstance(kind, type) and issubclass(kind, torch.nn.Module):
            calls.append({"op": "nn." + name, "kind": "module", "backward": False})
            calls.append({"op": "nn." + name, "kind": "module", "backward": True})
    for name in dir(torch.optim):
        kind = getattr(torch.optim, name)
        if (isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer)
                and kind is not torch.optim.Optimizer):
            calls.append({"op": "optim." + name, "kind": "optimizer", "backward": False})
    json.dump({"torch": torch.__version__, "calls": calls}, sys.stdout)


main()
