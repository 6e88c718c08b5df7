"""Trains ResNet-50 on 8 images of 128 x 128 for 12 steps. Prints the median milliseconds of a
step."""
import statistics
import time

import torch
from torch import nn

STEPS = 12
WARM_UP = 3


class Bottleneck(nn.Module):
    """A block of Deep Residual Learning for Image Recognition (He et al. 2015)."""

    def __init__(self, inputs, width, stride):
        super().__init__()
        outputs = 4 * width
        self.way = nn.Sequential(
            nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs))
        self.shortcut = nn.Identity() if stride == 1 and inputs == outputs else nn.Sequential(
            nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        return torch.relu(self.way(x) + self.shortcut(x))


def resnet50():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True),
              nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for block in range(blocks):
            layers.append(Bottleneck(inputs, width, stride if block == 0 else 1))
            inputs = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000))


def main():
    torch.manual_seed(0)
    model = resnet50()
    images = torch.randn(8, 3, 128, 128)
    times = []
    for _ in range(STEPS):
        begin = time.perf_counter()
        model.zero_grad()
        model(images).sum().backward()
        times.append(time.perf_counter() - begin)
    print(f"{statistics.median(times[WARM_UP:]) * 1e3:.2f}")


main()
