"""An extension in C++, built once (TORCH_EXTENSIONS_DIR) and loaded while the program runs."""
import torch
from torch.utils.cpp_extension import load_inline

SOURCE = """
#include <torch/extension.h>
at::Tensor twice_of_positive(const at::Tensor& x) { return at::relu(x).mul(2); }
at::Tensor sum_of_squares(const at::Tensor& x) { return twice_of_positive(x).pow(2).sum(); }
"""
module = load_inline("optrace_test_extension", SOURCE,
                     functions=["twice_of_positive", "sum_of_squares"])
x = torch.linspace(-1, 1, 5, requires_grad=True)
y = module.sum_of_squares(x)
y.backward()
print(y.item(), x.grad.tolist())
