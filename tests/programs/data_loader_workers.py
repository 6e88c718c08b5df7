"""A DataLoader with two worker processes."""
import torch
from torch.utils.data import DataLoader, Dataset


class Squares(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.full((2,), float(index)).square()


if __name__ == "__main__":
    loader = DataLoader(Squares(), batch_size=2, num_workers=2)
    print([batch.sum().item() for batch in loader])
