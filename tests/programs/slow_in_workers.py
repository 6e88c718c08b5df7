"""Situations for the rule `idle-worker` of `optrace findings`; see slow_on_cpu.py."""
import torch
from torch.utils import data

rows = data.TensorDataset(torch.arange(6.0))


class Squares(data.Dataset):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return torch.tensor(float(index)).square()


class Stream(data.IterableDataset):
    def __init__(self, count):
        self.count = count

    def __iter__(self):
        worker = data.get_worker_info()
        for number in range(worker.id, self.count, worker.num_workers):
            yield torch.full((2,), float(number))


def workers(number, dataset, **options):
    return data.DataLoader(dataset, num_workers=number, **options)


def fewer_batches_than_workers():
    for _ in workers(2, data.Subset(rows, [0])):  # idle-worker
        pass
    for _ in workers(2, rows, batch_size=6):  # idle-worker
        pass
    for _ in workers(2, rows, batch_size=4, drop_last=True):  # idle-worker
        pass
    for _ in workers(2, rows, batch_size=8, shuffle=True):  # idle-worker
        pass
    for _ in workers(2, rows, sampler=data.SubsetRandomSampler([3])):  # idle-worker
        pass
    for _ in workers(2, rows, batch_sampler=[[0, 1, 2]]):  # idle-worker
        pass
    for _ in workers(3, Squares(1)):  # idle-worker
        pass
    for _ in workers(2, Squares(3), batch_size=3, collate_fn=torch.stack):  # idle-worker
        pass
    lasting = workers(2, Squares(1), persistent_workers=True)
    for _ in range(2):
        for _ in lasting:  # idle-worker
            pass
    next(iter(workers(2, Squares(2), batch_size=2)))  # idle-worker
    for _ in workers(2, Stream(1)):  # idle-worker
        pass


def as_many_batches_as_workers():
    for _ in workers(2, data.Subset(rows, [0, 1])):  # not idle-worker
        pass
    for _ in workers(2, rows, batch_size=4):  # not idle-worker
        pass
    for _ in workers(2, rows, batch_size=3, drop_last=True):  # not idle-worker
        pass
    for _ in workers(0, rows, batch_size=8):  # not idle-worker
        pass
    for _ in workers(1, Squares(1)):  # not idle-worker
        pass
    for _ in workers(2, rows, sampler=data.SubsetRandomSampler([3, 4])):  # not idle-worker
        pass
    for _, _ in zip(range(2), workers(2, rows, batch_size=3)):  # not idle-worker
        pass
    lasting = workers(2, Squares(2), persistent_workers=True)
    for _ in range(2):
        for _ in lasting:  # not idle-worker
            pass
    for _ in workers(2, Stream(2)):  # not idle-worker
        pass
    for _ in workers(2, Stream(4), batch_size=2, prefetch_factor=1):  # not idle-worker
        pass
    workers(2, Squares(1))  # not idle-worker


fewer_batches_than_workers()
as_many_batches_as_workers()
