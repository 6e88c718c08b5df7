"""Complex tensors and their views."""
import torch

torch.manual_seed(0)
z = torch.randn(4, 4, dtype=torch.complex64, requires_grad=True)
w = (z @ z.conj().T).abs().sum() + torch.view_as_real(z).pow(2).sum() + z.angle().sum()
w.backward()
print(f"{w.item():.3f} {z.grad.abs().sum().item():.3f}")
print(f"{torch.polar(torch.ones(3), torch.arange(3.0)).real.sum().item():.3f}")
