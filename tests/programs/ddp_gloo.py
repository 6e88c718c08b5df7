"""Two ranks of DistributedDataParallel on gloo. Run with --children."""
import os
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def work(rank, store):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.ones(3, 4) * (rank + 1)).sum().backward()
        optimizer.step()
    total = model.module.weight.detach().sum()
    dist.all_reduce(total)
    if rank == 0:
        print(f"{total.item():.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(work, (os.path.join(folder, "store"),), nprocs=2)
