"""gevent: monkey-patched threads that switch in the middle of Python functions."""
from gevent import monkey

monkey.patch_all()

import gevent  # noqa: E402

from rounds import bits, rounds, step  # noqa: E402


def work(number):
    gevent.sleep(0.001 * (number % 3))
    results = step(number)
    gevent.sleep(0)
    return bits(*results)


for number in rounds():
    jobs = [gevent.spawn(work, number + i) for i in range(8)]
    gevent.joinall(jobs)
    print(number, *(job.value for job in jobs))
