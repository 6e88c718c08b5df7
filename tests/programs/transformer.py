"""A transformer encoder that learns to copy tokens, with a mask, then in evaluation mode."""
import torch
from torch import nn
from torch.nn import functional as F


class Copier(nn.Module):
    def __init__(self, tokens=11, width=16):
        super().__init__()
        self.embedding = nn.Embedding(tokens, width)
        self.position = nn.Parameter(torch.zeros(6, width))
        layer = nn.TransformerEncoderLayer(width, 2, 32, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, tokens)

    def forward(self, tokens):
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
        return self.head(self.encoder(self.embedding(tokens) + self.position, mask))

    def greedy(self, tokens):
        return self(tokens).argmax(-1)


torch.manual_seed(0)
model = Copier()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
tokens = torch.randint(0, 11, (4, 6))
for _ in range(3):
    logits = model(tokens)
    loss = F.cross_entropy(logits.flatten(0, 1), tokens.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
model.eval()
with torch.no_grad():
    print(f"{loss.item():.2f} {model.greedy(tokens).shape}")
