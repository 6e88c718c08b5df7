"""Tensors whose dimensions have names."""
import warnings

import torch

warnings.simplefilter("ignore")
x = torch.arange(6.0).reshape(2, 3).refine_names("N", "C")
print(x.sum("C").tolist(), x.align_to("C", "N").shape,
      (x + x.rename(None).refine_names("N", "C")).names)
print(x.flatten(("N", "C"), "all").names, x.softmax("C").sum().item())
