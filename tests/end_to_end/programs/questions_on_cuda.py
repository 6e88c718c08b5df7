"""What people asked about, on a CUDA device: one function for each question (docs/questions.md)."""
import torch
from torch.nn import functional


def heads(count, dtype):
    return torch.zeros(1, count, 128, 64, device="cuda", dtype=dtype)


def attention_flash():
    query = heads(8, torch.float16)
    functional.scaled_dot_product_attention(query, query, query, is_causal=True)


def attention_efficient():
    query = heads(8, torch.float32)
    functional.scaled_dot_product_attention(query, query, query)


def attention_with_mask():
    query = heads(8, torch.float16)
    mask = torch.zeros(128, 128, device="cuda", dtype=torch.float16)
    functional.scaled_dot_product_attention(query, query, query, mask)


def attention_math():
    query = heads(8, torch.float32)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        functional.scaled_dot_product_attention(query, query, query)


def grouped_queries(dtype):
    key = heads(2, dtype)
    functional.scaled_dot_product_attention(heads(8, dtype), key, key, enable_gqa=True)


def grouped_queries_fast():
    grouped_queries(torch.float16)


def grouped_queries_slow():
    grouped_queries(torch.float32)


def convolve():
    images = torch.zeros(2, 4, 16, 16, device="cuda")
    weight = torch.zeros(4, 4, 3, 3, device="cuda")
    return functional.conv2d(images, weight)


def benchmarked():
    torch.backends.cudnn.deterministic = False
    convolve()


def deterministic():
    torch.backends.cudnn.deterministic = True
    convolve()
    torch.backends.cudnn.deterministic = False


def not_deterministic():
    image = torch.zeros(1, 1, 4, 4, device="cuda", requires_grad=True)
    larger = functional.interpolate(image, scale_factor=2.0, mode="bilinear")
    torch.use_deterministic_algorithms(True)
    try:
        larger.sum().backward()
    except RuntimeError as error:
        print(str(error).partition(" does not have")[0])
    torch.use_deterministic_algorithms(False)


def synchronisations():
    values = torch.zeros(16, device="cuda")
    for _ in range(2):
        values.sum().item()
        values.nonzero()
        values[values > 1]
        values.cpu()
    torch.cuda.synchronize()


def main():
    attention_flash()
    attention_efficient()
    attention_with_mask()
    attention_math()
    grouped_queries_fast()
    grouped_queries_slow()
    benchmarked()
    deterministic()
    not_deterministic()
    synchronisations()


if __name__ == "__main__":
    main()
