"""Errors that ops raise, caught and passed on through Python and C++ frames."""
import torch


class Failing(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return x.clone()

    @staticmethod
    def backward(context, gradient):
        raise ValueError("no gradient")


def attempt(function):
    try:
        function()
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        print(type(error).__name__, str(error).split("\n")[0][:60])


x = torch.ones(3, requires_grad=True)
for _ in range(2):
    attempt(lambda: torch.ones(2, 3) @ torch.ones(2, 3))
    attempt(lambda: torch.ones(2)[5])
    attempt(lambda: Failing.apply(x * 2).sum().backward())
    attempt(lambda: torch.linalg.cholesky(-torch.eye(2)))
    attempt(lambda: torch.add("no tensor", 1))
print(x.exp().sum().item())
