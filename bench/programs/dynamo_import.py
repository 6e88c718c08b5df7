"""Imports torch._dynamo, as torch.compile and the optimizers do."""
import torch
import torch._dynamo

torch.ones(1)
