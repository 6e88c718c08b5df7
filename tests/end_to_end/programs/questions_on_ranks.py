"""DTensor on two ranks of gloo (docs/questions.md). Run with --children."""
import os
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor


def local_product(mesh):
    rows = distribute_tensor(torch.ones(4, 4), mesh, [Shard(0)])
    return torch.mm(rows, distribute_tensor(torch.ones(4, 4), mesh, [Replicate()]))


def redistributing_product(mesh):
    rows = distribute_tensor(torch.ones(4, 4), mesh, [Shard(0)])
    return torch.mm(rows, distribute_tensor(torch.ones(4, 4), mesh, [Shard(0)]))


def work(rank, store):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    local_product(mesh)
    redistributing_product(mesh)
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        mp.start_processes(work, (os.path.join(folder, "store"),), nprocs=2, start_method="fork")
