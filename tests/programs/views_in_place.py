"""Views, and what is written through them, with gradients."""
import torch

x = torch.zeros(4, 4)
x.view(-1)[::5].fill_(1)
x.T[0].add_(2)
x.unfold(0, 2, 2).mul_(2)
leaf = torch.ones(4, requires_grad=True)
y = leaf * 1
y[:2] *= 3
y.transpose(0, 0).add_(1)
y.chunk(2)[1].detach().exp()
y.sum().backward()
print(x.sum().item(), leaf.grad.tolist(), x.expand(2, 4, 4).contiguous().is_contiguous())
