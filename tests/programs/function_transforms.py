"""grad, jacrev, hessian, jvp and vjp."""
import torch
from torch.func import grad, hessian, jacrev, jvp, vjp, vmap


def energy(x):
    return (x.sin() * x).sum()


x = torch.linspace(0, 1, 4)
print(grad(energy)(x).sum().item())
print(jacrev(torch.cumsum, argnums=0)(x, 0).sum().item())
print(hessian(energy)(x).diagonal().sum().item())
print(jvp(energy, (x,), (torch.ones(4),))[1].item())
print(vjp(torch.exp, x)[1](torch.ones(4))[0].sum().item())
print(vmap(grad(energy))(torch.stack([x, x])).sum().item())
