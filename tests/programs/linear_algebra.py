"""Decompositions, solvers and norms."""
import torch

torch.manual_seed(0)
a = torch.randn(6, 6, dtype=torch.float64)
s = a @ a.T + 6 * torch.eye(6, dtype=torch.float64)
print(f"{torch.linalg.svdvals(a).sum().item():.4f}")
print(f"{torch.linalg.cholesky(s).trace().item():.4f}")
print(f"{torch.linalg.solve(s, a).sum().item():.4f}")
print(f"{torch.linalg.eigvalsh(s).sum().item():.4f} {torch.linalg.det(s).log().item():.4f}")
print(f"{torch.linalg.qr(a)[1].abs().sum().item():.4f} {torch.linalg.inv(s).norm().item():.4f}")
print(f"{torch.linalg.lstsq(a, a[:, :2]).solution.sum().item():.4f}")
