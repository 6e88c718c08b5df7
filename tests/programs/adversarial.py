"""A generator and a discriminator in turns, with weight norm, and gradients of gradients."""
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm


def mlp(inputs, outputs):
    return nn.Sequential(weight_norm(nn.Linear(inputs, 16)), nn.LeakyReLU(0.2),
                         nn.Linear(16, outputs))


def penalty(critic, real):
    real = real.detach().requires_grad_()
    gradient, = torch.autograd.grad(critic(real).sum(), real, create_graph=True)
    return gradient.norm(dim=1).sub(1).square().mean()


torch.manual_seed(0)
generator, critic = mlp(4, 2), mlp(2, 1)
optimizers = [torch.optim.RMSprop(net.parameters(), lr=0.01) for net in (generator, critic)]
real = torch.randn(8, 2) + 3
for _ in range(2):
    fake = generator(torch.randn(8, 4))
    loss = critic(fake.detach()).mean() - critic(real).mean() + 10 * penalty(critic, real)
    optimizers[1].zero_grad()
    loss.backward()
    optimizers[1].step()
    optimizers[0].zero_grad()
    (-critic(fake).mean()).backward()
    optimizers[0].step()
print(loss.isfinite().item())
