"""torch.profiler with stacks, once per round: prints how often it counted two ops."""
from torch.profiler import ProfilerActivity, profile

from rounds import bits, rounds, step

for number in rounds():
    with profile(activities=[ProfilerActivity.CPU], with_stack=True,
                 record_shapes=True) as profiler:
        results = step(number)
    seen = {event.key: event.count for event in profiler.key_averages()}
    stacks = sum(bool(event.stack) for event in profiler.events())
    print(number, bits(*results), seen["aten::conv2d"], seen["aten::convolution_backward"],
          stacks > 0)
