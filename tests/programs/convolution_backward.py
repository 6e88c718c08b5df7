"""Convolutions of several kinds, forwards and backwards."""
import torch

torch.manual_seed(0)
for options in ({}, {"stride": 2, "padding": 1}, {"groups": 4}, {"dilation": 2}):
    layer = torch.nn.Conv2d(4, 8, 3, **options)
    x = torch.randn(2, 4, 10, 10, requires_grad=True)
    y = torch.nn.functional.max_pool2d(layer(x), 2)
    y.square().sum().backward()
    print(tuple(y.shape), f"{layer.weight.grad.sum().item():.2f}")
print(tuple(torch.nn.ConvTranspose1d(2, 3, 4)(torch.randn(1, 2, 5)).shape))
