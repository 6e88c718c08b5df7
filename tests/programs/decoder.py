"""A decoder as language models have it: rotary positions, grouped heads, a cache, generation."""
import torch
from torch import nn
from torch.nn import functional as F


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6))


def rotate_half(x):
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


class Attention(nn.Module):
    def __init__(self, width, heads, groups):
        super().__init__()
        self.heads, self.groups, size = heads, groups, width // heads
        self.query = nn.Linear(width, width, bias=False)
        self.pair = nn.Linear(width, 2 * groups * size, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.register_buffer("steps", 10000 ** (-torch.arange(0, size, 2) / size))

    def positions(self, start, length):
        angles = torch.arange(start, start + length).float()[:, None] * self.steps
        angles = torch.cat((angles, angles), dim=-1)
        return angles.cos(), angles.sin()

    def forward(self, x, cache):
        batch, length, width = x.shape
        start = cache[0].shape[2] if cache else 0
        q = self.query(x).view(batch, length, self.heads, -1).transpose(1, 2)
        k, v = self.pair(x).view(batch, length, 2 * self.groups, -1).transpose(1, 2).chunk(2, 1)
        cos, sin = self.positions(start, length)
        q, k = (one * cos + rotate_half(one) * sin for one in (q, k))
        if cache:
            k, v = torch.cat((cache[0], k), dim=2), torch.cat((cache[1], v), dim=2)
        cache[:] = k, v
        k, v = (one.repeat_interleave(self.heads // self.groups, dim=1) for one in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=length > 1)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first, self.second = RMSNorm(width), RMSNorm(width)
        self.attention = Attention(width, 4, 2)
        self.gate, self.up = nn.Linear(width, 2 * width), nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x, cache):
        x = x + self.attention(self.first(x), cache)
        y = self.second(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    def __init__(self, tokens=17, width=16):
        super().__init__()
        self.embedding = nn.Embedding(tokens, width)
        self.layers = nn.ModuleList(Layer(width) for _ in range(2))
        self.norm = RMSNorm(width)

    def forward(self, tokens, caches):
        x = self.embedding(tokens)
        for layer, cache in zip(self.layers, caches):
            x = layer(x, cache)
        return self.norm(x) @ self.embedding.weight.T

    @torch.inference_mode()
    def generate(self, tokens, count):
        caches = [[] for _ in self.layers]
        new = tokens
        for _ in range(count):
            scores = self(new, caches)[:, -1].topk(3)
            choice = torch.multinomial(scores.values.softmax(-1), 1)
            new = scores.indices.gather(-1, choice)
            tokens = torch.cat((tokens, new), dim=1)
        return tokens


torch.manual_seed(0)
model = Decoder()
tokens = torch.randint(0, 17, (2, 5))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
for _ in range(2):
    logits = model(tokens[:, :-1], [[] for _ in model.layers])
    loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
print(model.eval().generate(tokens, 4).shape)
