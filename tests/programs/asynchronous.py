"""Coroutines that call ops between awaits, and an executor's thread."""
import asyncio

import torch


async def work(number):
    x = torch.full((2,), float(number))
    await asyncio.sleep(0)
    y = x.exp()
    await asyncio.sleep(0)
    return y.sum().item()


async def main():
    values = await asyncio.gather(*(work(number) for number in range(3)))
    loop = asyncio.get_running_loop()
    values.append(await loop.run_in_executor(None, lambda: torch.ones(3).sin().sum().item()))
    return values


print([round(value, 3) for value in asyncio.run(main())])
