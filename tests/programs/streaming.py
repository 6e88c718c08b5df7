"""An asynchronous generator of batches, consumed by tasks, with work in a thread."""
import asyncio

import torch


async def batches(count):
    for number in range(count):
        await asyncio.sleep(0)
        yield torch.arange(4.0) + number


def predict(model, batch):
    with torch.no_grad():
        return model(batch).sigmoid().item()


async def consume(model, queue):
    answers = []
    while (batch := await queue.get()) is not None:
        answers.append(await asyncio.to_thread(predict, model, batch))
    return answers


async def main(model):
    queue = asyncio.Queue()
    task = asyncio.create_task(consume(model, queue))
    async for batch in batches(3):
        queue.put_nowait(batch / batch.max())
    queue.put_nowait(None)
    means = [batch.mean() async for batch in batches(2)]
    return len(await task), torch.stack(means)


print(asyncio.run(main(torch.nn.Linear(4, 1))))
