"""Optimizers in their foreach, fused and plain forms."""
import torch

torch.manual_seed(0)
for kind, options in [(torch.optim.SGD, {"momentum": 0.9, "nesterov": True}),
                      (torch.optim.Adam, {}), (torch.optim.RMSprop, {}), (torch.optim.Adagrad, {})]:
    for foreach in (False, True):
        parameters = [torch.nn.Parameter(torch.randn(4, 4)) for _ in range(3)]
        optimizer = kind(parameters, lr=0.1, foreach=foreach, **options)
        for _ in range(2):
            optimizer.zero_grad()
            sum((p * p).sum() for p in parameters).backward()
            optimizer.step()
        print(kind.__name__, foreach, f"{sum(p.sum().item() for p in parameters):.4f}")
