"""functional_call, stacked modules and an ensemble by vmap."""
import copy

import torch
from torch.func import functional_call, stack_module_state, vmap

torch.manual_seed(0)
models = [torch.nn.Linear(4, 2) for _ in range(3)]
parameters, buffers = stack_module_state(models)
base = copy.deepcopy(models[0]).to("meta")
x = torch.ones(5, 4)
ensemble = vmap(lambda p, b: functional_call(base, (p, b), (x,)))(parameters, buffers)
print(tuple(ensemble.shape), f"{ensemble.sum().item():.3f}")
print(f"{functional_call(models[0], {'bias': torch.zeros(2)}, (x,)).sum().item():.3f}")
