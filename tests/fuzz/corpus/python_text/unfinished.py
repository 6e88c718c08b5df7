f(
import torch
torch.ü😀.a