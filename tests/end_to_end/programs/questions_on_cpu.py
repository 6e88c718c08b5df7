"""What people asked about, on the CPU: one function for each question (docs/questions.md)."""
import warnings

import torch
from torch import nn
from torch.nn import functional


def fast_path_taken():
    layer = nn.TransformerEncoderLayer(16, 2, 16, batch_first=True).eval()
    with torch.no_grad():
        layer(torch.randn(2, 4, 16))


def fast_path_not_taken():
    layer = nn.TransformerEncoderLayer(16, 2, 16, batch_first=True).eval()
    layer(torch.randn(2, 4, 16))  # The parameters require gradients.


def onednn_in_inference():
    convolution = nn.Conv2d(3, 8, 3).eval()
    with torch.no_grad():
        convolution(torch.randn(4, 3, 56, 56))


def dilated(dtype):
    images, weight = torch.randn(4, 3, 28, 28, dtype=dtype), torch.randn(8, 3, 3, 3, dtype=dtype)
    return functional.conv2d(images, weight, dilation=2)


def dilated_fast():
    return dilated(torch.float32)


def dilated_slow():
    return dilated(torch.float64)


def channels_last_input():
    convolution = nn.Conv2d(16, 16, 3)
    images = torch.randn(4, 16, 28, 28).contiguous(memory_format=torch.channels_last)
    features = convolution(images)
    return features.view(4, -1) if features.is_contiguous() else features.reshape(4, -1)


def copy_before_product():
    left = torch.randn(8, 32, 64)
    weight = torch.randn(64, 16, requires_grad=True)
    return torch.matmul(left.transpose(0, 1), weight)


def vmap_without_batching_rule():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.vmap(torch.histc)(torch.randn(6, 5))


def autocast():
    linear = nn.Linear(16, 16)
    with torch.autocast("cpu", torch.bfloat16):
        return linear(linear(torch.randn(4, 16))).prod()


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    fast_path_taken()
    fast_path_not_taken()
    onednn_in_inference()
    dilated_fast()
    dilated_slow()
    channels_last_input()
    copy_before_product()
    vmap_without_batching_rule()
    autocast()


if __name__ == "__main__":
    main()
