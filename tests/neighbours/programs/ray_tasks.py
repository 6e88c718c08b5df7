"""Ray: tasks and an actor in processes of its own."""
import logging
import os

import ray

from rounds import bits, rounds, step

ray.init(num_cpus=2, include_dashboard=False, logging_level=logging.CRITICAL, log_to_driver=False,
         runtime_env={"env_vars": {"PYTHONPATH": os.path.dirname(os.path.abspath(__file__))}})


@ray.remote
def task(number):
    return bits(*step(number))


@ray.remote
class Counter:
    def __init__(self):
        self.count = 0

    def add(self, number):
        self.count += 1
        return self.count, bits(*step(number))


counter = Counter.remote()  # type: ignore[attr-defined]  # The decorator adds it.
for number in rounds():
    print(number, *ray.get([task.remote(number + i) for i in range(4)]),
          ray.get(counter.add.remote(number)))
ray.shutdown()
