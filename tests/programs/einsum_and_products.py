"""einsum, tensordot, batched and plain products."""
import torch

torch.manual_seed(0)
a, b = torch.randn(2, 3, 4), torch.randn(2, 4, 5)
print(f"{torch.einsum('bij,bjk->bik', a, b).sum().item():.3f} {torch.bmm(a, b).sum().item():.3f}")
print(f"{torch.einsum('bij,bjk,bik->', a, b, a @ b).item():.3f}")
print(f"{torch.tensordot(a, b, ([2], [1])).sum().item():.3f} "
      f"{torch.kron(a[0], b[0]).sum().item():.3f}")
print(f"{torch.linalg.multi_dot([a[0], b[0], b[0].T]).sum().item():.3f}")
print(f"{torch.addmm(torch.ones(3, 5), a[0], b[0], beta=2).sum().item():.3f}")
