"""torch.profiler with stacks, time and again: what it saw of each op."""
import torch
from torch.profiler import ProfilerActivity, profile

from rounds import bits, rounds, step

for number in rounds():
    with profile(activities=[ProfilerActivity.CPU], with_stack=True, record_shapes=True) as profiler:
        results = step(number)
    seen = {event.key: event.count for event in profiler.key_averages()}
    stacks = sum(bool(event.stack) for event in profiler.events())
    print(number, bits(*results), seen["aten::conv2d"], seen["aten::convolution_backward"], stacks > 0)
