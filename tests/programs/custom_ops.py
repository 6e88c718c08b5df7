"""Ops that torch.library registers, with autograd and a kernel in Python."""
import torch

library = torch.library.Library("optrace_programs", "DEF")
library.define("scale(Tensor x, float by) -> Tensor")
library.impl("scale", lambda x, by: x * by, "CompositeExplicitAutograd")


@torch.library.custom_op("optrace_programs::cube", mutates_args=())
def cube(x: torch.Tensor) -> torch.Tensor:
    return x.detach().clone().pow(3)


def backward(ctx, gradient):
    return gradient * 3 * ctx.saved_tensors[0] ** 2


def setup(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


cube.register_autograd(backward, setup_context=setup)
x = torch.arange(4.0, requires_grad=True)
cube(x).sum().backward()
print(torch.ops.optrace_programs.scale(x.detach(), 2.0).sum().item(), x.grad.sum().item())
