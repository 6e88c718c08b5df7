"""A training loop in bfloat16 on the CPU: autocast, a scaler, accumulated gradients, a schedule."""
import torch
from torch import nn
from torch.nn import functional as F


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(1, 8, 3, stride=2)
        self.norm = nn.GroupNorm(2, 8)
        self.head = nn.Linear(8, 3)

    def forward(self, images):
        return self.head(F.silu(self.norm(self.stem(images))).mean((2, 3)))


def train(model, optimizer, scaler, images, labels):
    for number, (some, their) in enumerate(zip(images.chunk(4), labels.chunk(4))):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.cross_entropy(model(some), their) / 2
        scaler.scale(loss).backward()
        if number % 2:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    return loss.item()


@torch.no_grad()
def evaluate(model, images):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return model.eval()(images).argmax(1)


torch.manual_seed(0)
model = Classifier()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=3)
scaler = torch.amp.GradScaler("cpu")
images, labels = torch.randn(12, 1, 9, 9), torch.arange(12) % 3
for _ in range(2):
    loss = train(model, optimizer, scaler, images, labels)
    schedule.step()
print(f"{loss:.2f} {evaluate(model, images).shape}")
