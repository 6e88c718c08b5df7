"""Hooks of modules, tensors and autograd nodes."""
import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh())
seen = []
model[0].register_forward_hook(lambda module, inputs, output: output * 2)
model.register_forward_pre_hook(lambda module, inputs: (inputs[0] + 1,))
model[1].register_full_backward_hook(lambda module, grad_in, grad_out: seen.append(
    round(grad_out[0].sum().item(), 3)))
x = torch.ones(2, 4, requires_grad=True)
x.register_hook(lambda gradient: gradient.clamp(-1, 1))
y = model(x)
y.grad_fn.register_prehook(lambda gradients: seen.append(len(gradients)))
y.sum().backward()
print(seen, f"{x.grad.sum().item():.3f}")
