"""Pickled tensors, state dicts and modules, copied and loaded."""
import copy
import io
import pickle

import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3)).eval()
buffer = io.BytesIO()
torch.save(model.state_dict(), buffer)
buffer.seek(0)
clone = copy.deepcopy(model)
print(clone.load_state_dict(torch.load(buffer, weights_only=True)))
x = pickle.loads(pickle.dumps(torch.arange(6.0).reshape(2, 3)))
print(f"{(clone(x) - model(x)).abs().sum().item():.1f}", x[:, 1].clone().tolist())
