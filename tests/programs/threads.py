"""Four threads: one alone, which starts what PyTorch starts once, then three at once."""
import threading

import torch

torch.set_num_threads(1)
results = [None] * 4


def work(number):
    x = torch.full((8,), float(number), requires_grad=True)
    (x.cos() * x).sum().backward()
    results[number] = round(x.grad.sum().item(), 3)


threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
threads[0].start()
threads[0].join()
for thread in threads[1:]:
    thread.start()
for thread in threads[1:]:
    thread.join()
print(results)
