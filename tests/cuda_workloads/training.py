"""Trains a small network under autocast for ten steps; fixtures/cuda/h200-training.json is what a
GPU launched for it."""
import torch

torch.manual_seed(0)
model = torch.nn.Sequential(
    torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.BatchNorm2d(16), torch.nn.ReLU(),
    torch.nn.Conv2d(16, 16, 3, padding=1), torch.nn.Flatten(),
    torch.nn.Linear(16 * 32 * 32, 10)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
images = torch.randn(16, 3, 32, 32).cuda()
labels = torch.randint(0, 10, (16,)).cuda()
for _ in range(10):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
loss.item()
