"""A residual convolutional network in training and evaluation, as image tutorials have it."""
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(width)
        self.second = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x):
        return torch.relu(x + self.second(self.norm(self.first(x)).relu()))


def accuracy(model, images, labels):
    model.eval()
    with torch.inference_mode():
        return (model(images).argmax(1) == labels).float().mean().item()


torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(3, 8, 7, stride=2), Block(8), nn.MaxPool2d(2), Block(8),
                      nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(8, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 2)
images, labels = torch.randn(16, 3, 32, 32), torch.arange(16) % 4
for _ in range(2):
    optimizer.zero_grad(set_to_none=True)
    nn.functional.cross_entropy(model(images), labels, label_smoothing=0.1).backward()
    optimizer.step()
    schedule.step()
print(0 <= accuracy(model, images, labels) <= 1)
