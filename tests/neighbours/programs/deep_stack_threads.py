"""A pool of threads with stacks of 256 KiB that is never shut down."""
import concurrent.futures
import threading

from rounds import bits, rounds, step

threading.stack_size(256 * 1024)  # oneDNN itself needs more than 64 kB.
pool = concurrent.futures.ThreadPoolExecutor(16)
for number in rounds():
    print(number, *pool.map(lambda i: bits(*step(i)), range(number, number + 16)))
