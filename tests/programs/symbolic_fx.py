"""A graph of torch.fx, changed and run, and its shapes."""
import operator

import torch
from torch import fx
from torch.fx.passes.shape_prop import ShapeProp


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x + 1).sum(dim=0)


graph = fx.symbolic_trace(Model())
for node in graph.graph.nodes:
    if node.target is operator.add:
        node.target = operator.mul
graph.recompile()
x = torch.arange(6.0).reshape(2, 3)
ShapeProp(graph).propagate(x)
print(graph(x).tolist(), fx.Interpreter(graph).run(x).tolist())
