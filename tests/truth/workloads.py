"""Small, deterministic programs that together cover much of PyTorch.

Each function below builds its tensors and returns a callable without arguments that does the same
work every time. Tensors are tiny: every instruction of the work is single-stepped.
"""
import torch
import torch.nn.functional as F
from torch import nn


def group_norm_step():
    """A group-norm and GELU network trained by SGD with momentum."""
    model = nn.Sequential(nn.Linear(8, 8), nn.GroupNorm(2, 8), nn.GELU(), nn.Linear(8, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, foreach=False)
    inputs, targets = torch.randn(4, 8), torch.tensor([0, 1, 2, 3])

    def work():
        optimizer.zero_grad()
        F.cross_entropy(model(inputs), targets, label_smoothing=0.1).backward()
        optimizer.step()

    return work


def embedding_bag_similarity():
    """Bags of embeddings compared by cosine similarity, forward and backward."""
    bags = nn.EmbeddingBag(10, 6, mode="mean")
    tokens, offsets = torch.tensor([1, 2, 4, 5, 4, 3]), torch.tensor([0, 3])
    other = torch.randn(2, 6)

    def work():
        bags.zero_grad()
        loss = 1 - F.cosine_similarity(bags(tokens, offsets), other, dim=1)
        loss.square().mean().backward()

    return work


def indexing():
    """einsum, scatter, gather, index_put, cumsum, sorting and selection."""
    left, right = torch.randn(2, 3, 4), torch.randn(2, 4, 3)
    index = torch.tensor([[0, 1, 2], [2, 0, 1]])
    rows = torch.tensor([0, 1, 0])

    def work():
        product = torch.einsum("bij,bjk->bik", left, right)
        table = torch.zeros(2, 3).scatter_add(1, index, product[:, 0])
        picked = table.gather(1, index).cumsum(1)
        picked.index_put_((rows, torch.tensor([2, 1, 0])), torch.ones(3), accumulate=True)
        values, order = picked.sort(dim=1, descending=True)
        torch.where(values > 0, values, order.to(values.dtype)).topk(2).values.sum().item()
        left.index_select(1, rows).masked_fill(left[:, :3] > 0.5, 0.0).logsumexp(-1)
        torch.cat([left[0], right[0].t()]).unique_consecutive(dim=0)

    return work


def pooling_and_normalization():
    """Pooling, interpolation and batch norm, in training and in evaluation mode."""
    norm = nn.BatchNorm2d(2)
    image = torch.randn(2, 2, 4, 4)

    def work():
        norm.zero_grad()
        norm.train()
        smaller = F.max_pool2d(norm(image), 2)
        larger = F.interpolate(smaller, scale_factor=2, mode="bilinear", align_corners=False)
        F.adaptive_avg_pool2d(larger, 1).flatten(1).sum().backward()
        norm.eval()
        with torch.no_grad():
            F.pixel_shuffle(F.avg_pool2d(norm(image), 2, ceil_mode=True).repeat(1, 2, 1, 1), 2)

    return work


def masked_attention():
    """Attention with a mask and inputs that require gradients, followed by a layer norm."""
    query, key, value = (torch.randn(1, 2, 3, 4, requires_grad=True) for _ in range(3))
    mask = torch.tensor([[True, False, True], [True, True, False], [True, True, True]])

    def work():
        query.grad = key.grad = value.grad = None
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        F.layer_norm(mixed.transpose(1, 2).reshape(1, 3, 8), (8,)).pow(2).mean().backward()

    return work


class Clamped(torch.autograd.Function):
    """Clamps below zero; the backward pass doubles the gradient."""

    @staticmethod
    def forward(context, values):
        context.save_for_backward(values)
        return values.clamp(min=0)

    @staticmethod
    def backward(context, gradient):
        (values,) = context.saved_tensors
        return gradient * 2 * (values > 0)


def in_place_and_views():
    """In-place ops, views, copies and a custom function in the autograd graph."""
    start = torch.randn(3, 4)
    weight = torch.randn(3, 4, requires_grad=True)
    half = torch.randn(4, dtype=torch.float64)

    def work():
        weight.grad = None
        values = start.clone()
        values.add_(1.5).div_(2).mul_(start)
        values[1:].copy_(half).clamp_(-1, 1)
        values.t().select(0, 1).zero_().fill_(0.25)
        values.unsqueeze(0).expand(2, 3, 4).contiguous().view(6, 4).chunk(2)
        Clamped.apply(weight * values).narrow(1, 0, 2).sub_(0.5).abs_().sum().backward()
        torch.stack([values, weight.detach()]).permute(2, 0, 1).flip(0).std(dim=(1, 2))

    return work


def recurrent_by_hand():
    """A gated recurrent cell unrolled in Python, with an exception that crosses PyTorch."""
    cell = nn.GRUCell(3, 4)
    inputs = torch.randn(2, 2, 3)

    def work():
        cell.zero_grad()
        hidden = torch.zeros(2, 4)
        for part in inputs:
            hidden = cell(part, hidden)
        try:
            hidden @ hidden
        except RuntimeError:
            hidden = hidden + 1
        F.smooth_l1_loss(torch.tanh(hidden), torch.ones_like(hidden)).backward()

    return work


WORKLOADS = {function.__name__: function for function in (
    group_norm_step, embedding_bag_similarity, indexing, pooling_and_normalization,
    masked_attention, in_place_and_views, recurrent_by_hand)}
