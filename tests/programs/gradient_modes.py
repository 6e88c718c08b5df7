"""no_grad, enable_grad, inference_mode, detach and anomaly detection."""
import torch

x = torch.ones(3, requires_grad=True)
with torch.no_grad():
    a = x * 2
    with torch.enable_grad():
        b = x * 3
with torch.inference_mode():
    c = x * 4
with torch.autograd.detect_anomaly(check_nan=False):
    b.sum().backward()
print(a.requires_grad, b.requires_grad, c.is_inference(), x.grad.tolist(),
      (x.detach() + 1).sum().item())
