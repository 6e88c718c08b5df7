"""LSTM, GRU and packed sequences, with their backward pass."""
import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

torch.manual_seed(0)
x = torch.randn(5, 3, 4, requires_grad=True)
for kind in (torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN):
    packed = pack_padded_sequence(x, torch.tensor([5, 3, 2]))
    output, _ = kind(4, 6, num_layers=2, bidirectional=True)(packed)
    padded, lengths = pad_packed_sequence(output)
    padded.sum().backward()
    print(kind.__name__, lengths.tolist(), f"{padded.sum().item():.3f}")
print(f"{x.grad.sum().item():.3f}")
