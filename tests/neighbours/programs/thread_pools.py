"""Thread pools like those of inference servers: queues, futures, a scheduler, inference mode."""
import queue
import threading

import torch

from rounds import bits, rounds

torch.manual_seed(1)
weight = torch.randn(32, 32)
requests = queue.Queue()


def serve():
    while (job := requests.get()) is not None:
        number, answers, done = job
        with torch.inference_mode():
            x = torch.full((1, 32), float(number))
            for _ in range(8):
                x = torch.nn.functional.silu(x @ weight).softmax(-1)
        answers[number] = bits(x)
        done.release()


workers = [threading.Thread(target=serve) for _ in range(8)]
for worker in workers:
    worker.start()
for number in rounds():
    answers, done = {}, threading.Semaphore(0)
    for i in range(64):
        requests.put((number + i, answers, done))
    for _i in range(64):
        done.acquire()
    print(number, [answers[key] for key in sorted(answers)])
for _ in workers:
    requests.put(None)
for worker in workers:
    worker.join()
