"""Random numbers and distributions."""
import torch
from torch import distributions

torch.manual_seed(0)
for it in (distributions.Normal(0.0, 1.0), distributions.Categorical(torch.ones(4)),
           distributions.Gamma(2.0, 1.0),
           distributions.MultivariateNormal(torch.zeros(2), torch.eye(2))):
    sample = it.sample((3,))
    print(type(it).__name__, f"{it.log_prob(sample).sum().item():.3f}")
normal = distributions.Normal(0.0, 1.0)
print(f"{distributions.kl_divergence(normal, distributions.Normal(1.0, 2.0)).item():.3f}")
print(torch.randperm(5).tolist(), torch.multinomial(torch.ones(4), 2).numel(),
      torch.bernoulli(torch.ones(2) / 2).numel())
