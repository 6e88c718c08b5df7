"""Threads with 64 kB of stack that call small ops."""
import threading

import torch

from rounds import bits, rounds

threading.stack_size(64 * 1024)
for number in rounds():
    results = {}

    def work(i):
        results[i] = bits(torch.ones(4).add(i))

    threads = [threading.Thread(target=work, args=(number + i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(number, sorted(results.items()))
