"""A model under torch.profiler, with a schedule and ranges of its own."""
import torch
from torch.profiler import ProfilerActivity, profile, record_function, schedule

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh())
x = torch.randn(2, 4)
with profile(activities=[ProfilerActivity.CPU], record_shapes=True,
             schedule=schedule(wait=1, warmup=1, active=2)) as profiled:
    for _ in range(4):
        with record_function("step"):
            model(x).sum().backward()
        profiled.step()
print(next(one.count for one in profiled.key_averages() if one.key == "aten::linear"))
