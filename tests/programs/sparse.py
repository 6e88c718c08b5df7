"""COO and CSR tensors."""
import torch

torch.manual_seed(0)
dense = torch.randn(4, 4).relu()
coo = dense.to_sparse().coalesce()
csr = dense.to_sparse_csr()
x = torch.randn(4, 2)
print(coo.values().numel(), f"{torch.sparse.mm(coo, x).sum().item():.3f}")
print(f"{(csr @ x).sum().item():.3f}", f"{torch.sparse.sum(coo).item():.3f}")
print(f"{(coo + coo).to_dense().sum().item():.3f}")
embedding = torch.nn.Embedding(10, 3, sparse=True)
embedding(torch.tensor([1, 2, 1])).sum().backward()
print(embedding.weight.grad.is_sparse, embedding.weight.grad.coalesce().values().shape)
