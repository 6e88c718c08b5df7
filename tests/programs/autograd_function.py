"""autograd.Function, double backward and gradients of gradients."""
import torch


class Square(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        context.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(context, gradient):
        x, = context.saved_tensors
        return gradient * 2 * x


x = torch.arange(3.0, requires_grad=True)
y = Square.apply(x).exp().sum()
first, = torch.autograd.grad(y, x, create_graph=True)
first.sum().backward()
print(f"{first.sum().item():.2f} {x.grad.sum().item():.2f}")
