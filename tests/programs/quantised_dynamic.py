"""Linear layers and an LSTM, quantised dynamically."""
import torch
from torch import nn

torch.manual_seed(0)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(8, 8)
        self.linear = nn.Linear(8, 4)

    def forward(self, x):
        return self.linear(self.lstm(x)[0])


model = torch.ao.quantization.quantize_dynamic(Model().eval(), {nn.LSTM, nn.Linear})
x = torch.randn(3, 2, 8)
with torch.no_grad():
    for _ in range(2):
        y = model(x)
print(f"{y.sum().item():.3f}")
