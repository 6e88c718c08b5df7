"""Trains a GPT of 4 layers with AdamW for 20 steps. Prints the median milliseconds of a step."""
import statistics
import time

import torch
from torch import nn

STEPS = 20
WARM_UP = 3
WORDS, LENGTH, WIDTH, HEADS, LAYERS, BATCH = 512, 64, 128, 4, 4, 8


class Block(nn.Module):
    """A layer of Language Models are Unsupervised Multitask Learners (Radford et al. 2019): layer
    normalization before each part."""

    def __init__(self):
        super().__init__()
        self.before_attention = nn.LayerNorm(WIDTH)
        self.queries_keys_values = nn.Linear(WIDTH, 3 * WIDTH)
        self.project = nn.Linear(WIDTH, WIDTH)
        self.feed_forward = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH),
                                          nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.queries_keys_values(self.before_attention(x)).split(width, dim=2)
        query, key, value = (part.view(batch, length, HEADS, width // HEADS).transpose(1, 2)
                             for part in parts)
        attended = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.project(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.feed_forward(x)


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.places = nn.Embedding(LENGTH, WIDTH)
        self.layers = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.head = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False))

    def forward(self, words):
        places = torch.arange(words.shape[1])
        return self.head(self.layers(self.words(words) + self.places(places)))


def main():
    torch.manual_seed(0)
    model = Gpt()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    text = torch.randint(WORDS, (BATCH, LENGTH + 1))
    times = []
    for _ in range(STEPS):
        begin = time.perf_counter()
        scores = model(text[:, :-1])
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), text[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(time.perf_counter() - begin)
    print(f"{statistics.median(times[WARM_UP:]) * 1e3:.2f}")


main()
