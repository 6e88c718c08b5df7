#!/usr/bin/env python3
"""run_rank.py RANK RANKS STORE: one of RANKS processes, each with a device of its own.

Runs collectives, splits the ranks into even and odd ones, and prints {"rank", "ranks",
"split_ranks"} as JSON.
"""
import json
import sys


def main():
    rank, ranks = int(sys.argv[1]), int(sys.argv[2])
    import torch
    import torch.distributed as distributed
    device = torch.device("cuda", rank)
    torch.cuda.set_device(device)
    # With device_id, the communicator is created immediately, and groups are split from it.
    distributed.init_process_group("nccl", init_method=f"file://{sys.argv[3]}", rank=rank,
                                   world_size=ranks, device_id=device)
    x = torch.ones(16, device=device)
    distributed.all_reduce(x)
    distributed.broadcast(x, 0)
    if rank == 0:
        distributed.send(x, ranks - 1)
    elif rank == ranks - 1:
        distributed.recv(x, 0)
    distributed.barrier()
    halves = [list(range(half, ranks, 2)) for half in range(2)]
    group = distributed.split_group(split_ranks=halves)
    distributed.all_reduce(x, group=group)
    torch.cuda.synchronize()
    print(json.dumps({"rank": rank, "ranks": ranks,
                      "split_ranks": distributed.get_world_size(group)}), flush=True)
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
