"""Small programs that between them use every part of PyTorch's CUDA host code.

WORKLOADS has each by name: a function of (torch, device), device being "cuda" or "cuda:N". They
finish on a GPU and on the emulated device, where kernels don't run and device memory reads as
zeros: none depends on values. What a workload needs beyond a CUDA torch is in NEEDS.
"""
import contextlib
import os
import tempfile
import warnings

WORKLOADS = {}

# name -> smallest compute capability (major, minor), from PyTorch's own checks.
NEEDS_CAPABILITY = {
    "fp8_scaled_mm": (8, 9),
    "attention_flash": (8, 0),
    "attention_cudnn": (8, 0),
    "compile_elementwise": (7, 0),
    "compile_training_step": (7, 0),
}
# name -> how many devices.
NEEDS_DEVICES = {"two_devices_copy": 2, "data_parallel": 2, "nccl_two_devices": 2}


def workload(function):
    WORKLOADS[function.__name__] = function
    return function


def _random(torch, device, *shape, **options):
    return torch.randn(*shape, device=device, **options)


def _train(torch, model, *inputs, steps=1, optimizer=None):
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        output = model(*inputs)
        (output[0] if isinstance(output, tuple) else output).float().sum().backward()
        optimizer.step()


# Elementwise


@workload
def add_broadcast(torch, device):
    return _random(torch, device, 8, 1, 16) + _random(torch, device, 4, 16)


@workload
def activations(torch, device):
    x = _random(torch, device, 64, 64, requires_grad=True)
    functional = torch.nn.functional
    for function in (functional.relu, functional.gelu, functional.silu, functional.elu,
                     functional.softplus, functional.hardswish, functional.mish,
                     functional.leaky_relu, torch.sigmoid, torch.tanh, functional.glu):
        function(x).sum().backward()


@workload
def unary_math(torch, device):
    x = torch.rand(1000, device=device)
    for name in ("exp", "log", "sqrt", "sin", "erf", "floor", "reciprocal", "abs", "lgamma"):
        getattr(torch, name)(x)


@workload
def jiterated_special_functions(torch, device):
    x = torch.rand(128, device=device)
    torch.special.zeta(x, x)
    torch.special.i0e(x)
    torch.special.bessel_j0(x)
    torch.gcd(torch.ones(8, dtype=torch.int32, device=device),
              torch.ones(8, dtype=torch.int32, device=device))


@workload
def jiterator(torch, device):
    code = "template <typename T> T twice(T x) { return x + x; }"
    function = torch.cuda.jiterator._create_jit_fn(code)
    function(torch.rand(128, device=device))


@workload
def integers_and_bits(torch, device):
    x = torch.arange(256, device=device, dtype=torch.int32)
    return (x & 15) | (x << 2) ^ (x // 3) % 7


@workload
def complex_arithmetic(torch, device):
    x = torch.randn(64, dtype=torch.complex64, device=device)
    return (x * x.conj()).abs() + torch.view_as_real(x).sum(-1)


@workload
def comparisons_and_where(torch, device):
    x = _random(torch, device, 100)
    return torch.where(x > 0, x, -x).clamp(0, 1)


@workload
def conversions(torch, device):
    x = _random(torch, device, 100)
    for name in ("float16", "bfloat16", "float64", "int8", "int64", "bool", "complex64",
                 "float8_e4m3fn", "float8_e5m2"):
        x.to(getattr(torch, name)).to(torch.float32)


@workload
def strided_copies(torch, device):
    x = _random(torch, device, 32, 48, 8)
    x.transpose(0, 1).contiguous()
    x[::2].copy_(x[1::2])
    return torch.cat([x, x], 1), torch.stack([x, x]), x.flip(0), x.roll(3, 1)


@workload
def lerp_and_addcmul(torch, device):
    x, y, z = (_random(torch, device, 100) for _ in range(3))
    return torch.addcmul(torch.lerp(x, y, 0.3), y, z), torch.addcdiv(x, y, z)


# Reductions and scans


@workload
def sums_and_means(torch, device):
    x = _random(torch, device, 64, 128, 32)
    return x.sum(), x.mean(1), x.var(-1), x.std((0, 2)), x.prod(2), x.half().sum(0)


@workload
def extremes(torch, device):
    x = _random(torch, device, 64, 128)
    return x.max(), x.min(1), x.argmax(0), x.aminmax(), x.amax((0, 1)), (x > 0).any()


@workload
def norms(torch, device):
    x = _random(torch, device, 64, 128)
    return x.norm(), torch.linalg.vector_norm(x, 1, dim=1), torch.logsumexp(x, 1)


@workload
def scans(torch, device):
    x = _random(torch, device, 64, 128)
    x.cumsum(1), x.cumprod(0), x.cummax(1), x.logcumsumexp(1)
    return x.flatten().cumsum(0)


@workload
def histograms(torch, device):
    x = _random(torch, device, 1000)
    torch.histc(x, bins=10, min=-1, max=1)
    return torch.bincount(torch.zeros(100, dtype=torch.int64, device=device), minlength=8)


# Matrix products


@workload
def mm(torch, device):
    return _random(torch, device, 128, 64) @ _random(torch, device, 64, 32)


@workload
def mm_transposed(torch, device):
    return _random(torch, device, 64, 128).t() @ _random(torch, device, 32, 64).t()


@workload
def mm_half(torch, device):
    x = _random(torch, device, 128, 128, dtype=torch.float16)
    return x @ x


@workload
def mm_bfloat16(torch, device):
    x = _random(torch, device, 128, 128, dtype=torch.bfloat16)
    return x @ x


@workload
def mm_tf32(torch, device):
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        return _random(torch, device, 128, 128) @ _random(torch, device, 128, 128)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


@workload
def mm_double_and_complex(torch, device):
    x = _random(torch, device, 32, 32, dtype=torch.float64)
    y = _random(torch, device, 32, 32, dtype=torch.complex64)
    z = _random(torch, device, 32, 32, dtype=torch.complex128)
    return x @ x, y @ y, z @ z.mH


@workload
def mm_int8(torch, device):
    x = torch.ones(64, 64, dtype=torch.int8, device=device)
    return torch._int_mm(x, x)


@workload
def fp8_scaled_mm(torch, device):
    x = _random(torch, device, 64, 64).to(torch.float8_e4m3fn)
    y = _random(torch, device, 64, 64).to(torch.float8_e4m3fn).t()
    one = torch.ones((), device=device)
    return torch._scaled_mm(x, y, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)


@workload
def bmm(torch, device):
    x = _random(torch, device, 8, 32, 64)
    y = _random(torch, device, 8, 64, 16)
    x.half().bmm(y.half()), x.bfloat16().bmm(y.bfloat16()), x.double().bmm(y.double())
    return x.bmm(y)


@workload
def addmm(torch, device):
    x = _random(torch, device, 64, 64)
    return torch.addmm(x[0], x, x), torch.addmm(x, x, x, beta=0.5, alpha=2)


@workload
def addmm_gelu(torch, device):
    x = _random(torch, device, 64, 64, dtype=torch.float16)
    return torch._addmm_activation(x[0], x, x, use_gelu=True)


@workload
def baddbmm(torch, device):
    x = _random(torch, device, 4, 32, 32)
    return torch.baddbmm(x, x, x)


@workload
def vectors(torch, device):
    x = _random(torch, device, 64)
    y = _random(torch, device, 64, 64)
    return x.dot(x), y.mv(x), torch.outer(x, x), torch.addr(y, x, x), torch.vdot(x, x)


@workload
def einsum(torch, device):
    return torch.einsum("bij,bjk->ik", _random(torch, device, 4, 8, 16),
                        _random(torch, device, 4, 16, 8))


@workload
def linear_training(torch, device):
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(),
                                torch.nn.Linear(128, 10)).to(device)
    _train(torch, model, _random(torch, device, 32, 64))


# Convolutions


def _convolve(torch, device, layer, *shape, dtype=None, memory_format=None):
    layer = layer.to(device, dtype)
    x = _random(torch, device, *shape, dtype=dtype)
    if memory_format:
        layer, x = layer.to(memory_format=memory_format), x.to(memory_format=memory_format)
    x.requires_grad_()
    output = layer(x)
    output.sum().backward()
    return output


@workload
def conv1d(torch, device):
    return _convolve(torch, device, torch.nn.Conv1d(4, 8, 3), 2, 4, 64)


@workload
def conv2d(torch, device):
    return _convolve(torch, device, torch.nn.Conv2d(3, 16, 3, padding=1), 2, 3, 32, 32)


@workload
def conv2d_half(torch, device):
    return _convolve(torch, device, torch.nn.Conv2d(8, 16, 3), 2, 8, 32, 32, dtype=torch.float16)


@workload
def conv2d_double(torch, device):
    return _convolve(torch, device, torch.nn.Conv2d(8, 16, 3), 2, 8, 32, 32, dtype=torch.float64)


@workload
def conv2d_channels_last(torch, device):
    return _convolve(torch, device, torch.nn.Conv2d(8, 16, 3, stride=2), 2, 8, 32, 32,
                     dtype=torch.float16, memory_format=torch.channels_last)


@workload
def conv2d_grouped_dilated(torch, device):
    return _convolve(torch, device, torch.nn.Conv2d(8, 16, 3, groups=4, dilation=2), 2, 8, 32, 32)


@workload
def conv2d_depthwise(torch, device):
    return _convolve(torch, device, torch.nn.Conv2d(16, 16, 3, groups=16), 2, 16, 32, 32)


@workload
def conv2d_benchmark(torch, device):
    torch.backends.cudnn.benchmark = True
    try:
        return _convolve(torch, device, torch.nn.Conv2d(3, 24, 5), 2, 3, 40, 40)
    finally:
        torch.backends.cudnn.benchmark = False


@workload
def conv2d_without_cudnn(torch, device):
    with torch.backends.cudnn.flags(enabled=False):
        return _convolve(torch, device, torch.nn.Conv2d(3, 16, 3), 2, 3, 32, 32)


@workload
def conv3d(torch, device):
    return _convolve(torch, device, torch.nn.Conv3d(2, 4, 3), 1, 2, 8, 16, 16)


@workload
def conv_transpose2d(torch, device):
    return _convolve(torch, device, torch.nn.ConvTranspose2d(8, 4, 3, stride=2), 2, 8, 16, 16)


@workload
def conv_transpose3d(torch, device):
    return _convolve(torch, device, torch.nn.ConvTranspose3d(4, 2, 2), 1, 4, 8, 8, 8)


@workload
def residual_block(torch, device):
    nn = torch.nn
    model = nn.Sequential(nn.Conv2d(3, 8, 7, stride=2, padding=3, bias=False), nn.BatchNorm2d(8),
                          nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1), nn.Conv2d(8, 8, 3),
                          nn.BatchNorm2d(8), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                          nn.Linear(8, 10)).to(device)
    _train(torch, model, _random(torch, device, 2, 3, 64, 64), steps=2)


# Normalisation and softmax


def _normalise(torch, device, layer, *shape, **options):
    x = _random(torch, device, *shape, **options).requires_grad_()
    output = layer.to(device)(x)
    output.sum().backward()
    return output


@workload
def batch_norm_training(torch, device):
    return _normalise(torch, device, torch.nn.BatchNorm2d(8), 4, 8, 16, 16)


@workload
def batch_norm_half_channels_last(torch, device):
    x = _random(torch, device, 4, 8, 16, 16, dtype=torch.float16)
    x = x.to(memory_format=torch.channels_last).requires_grad_()
    torch.nn.BatchNorm2d(8).to(device)(x).sum().backward()


@workload
def batch_norm_evaluation(torch, device):
    return torch.nn.BatchNorm2d(8).to(device).eval()(_random(torch, device, 4, 8, 16, 16))


@workload
def layer_norm(torch, device):
    return _normalise(torch, device, torch.nn.LayerNorm(64), 8, 16, 64)


@workload
def group_and_instance_norm(torch, device):
    _normalise(torch, device, torch.nn.GroupNorm(4, 8), 2, 8, 16, 16)
    return _normalise(torch, device, torch.nn.InstanceNorm2d(8), 2, 8, 16, 16)


@workload
def rms_norm_and_response_norm(torch, device):
    _normalise(torch, device, torch.nn.RMSNorm(64), 8, 64)
    return _normalise(torch, device, torch.nn.LocalResponseNorm(3), 2, 8, 16, 16)


@workload
def softmax(torch, device):
    x = _random(torch, device, 16, 2000, requires_grad=True)
    x.softmax(-1).sum().backward()
    return x.log_softmax(0), x.half().softmax(-1)


# Attention


def _attend(torch, device, backend=None, dtype=None, **options):
    from torch.nn.attention import SDPBackend, sdpa_kernel
    query, key, value = (_random(torch, device, 2, 4, 64, 64, dtype=dtype or torch.float16)
                         .requires_grad_() for _ in range(3))
    with sdpa_kernel(getattr(SDPBackend, backend)) if backend else contextlib.nullcontext():
        output = torch.nn.functional.scaled_dot_product_attention(query, key, value, **options)
    output.sum().backward()
    return output


@workload
def attention(torch, device):
    return _attend(torch, device)


@workload
def attention_float(torch, device):
    return _attend(torch, device, dtype=torch.float32, is_causal=True)


@workload
def attention_masked(torch, device):
    mask = torch.zeros(64, 64, device=device, dtype=torch.float16)
    return _attend(torch, device, attn_mask=mask)


@workload
def attention_math(torch, device):
    return _attend(torch, device, "MATH")


@workload
def attention_efficient(torch, device):
    return _attend(torch, device, "EFFICIENT_ATTENTION", is_causal=True)


@workload
def attention_flash(torch, device):
    return _attend(torch, device, "FLASH_ATTENTION", is_causal=True, dropout_p=0.1)


@workload
def attention_cudnn(torch, device):
    return _attend(torch, device, "CUDNN_ATTENTION")


@workload
def multihead_attention(torch, device):
    model = torch.nn.MultiheadAttention(64, 4, batch_first=True).to(device)
    x = _random(torch, device, 2, 16, 64)
    _train(torch, model, x, x, x)
    with torch.no_grad():
        return model.eval()(x, x, x, need_weights=False)


# Recurrent networks


@workload
def lstm(torch, device):
    _train(torch, torch.nn.LSTM(16, 32, num_layers=2, bidirectional=True, dropout=0.1).to(device),
           _random(torch, device, 10, 4, 16))


@workload
def gru_half(torch, device):
    _train(torch, torch.nn.GRU(16, 32, batch_first=True).to(device, torch.float16),
           _random(torch, device, 4, 10, 16, dtype=torch.float16))


@workload
def rnn_evaluation(torch, device):
    with torch.no_grad():
        return torch.nn.RNN(16, 32).to(device).eval()(_random(torch, device, 10, 4, 16))


@workload
def lstm_packed(torch, device):
    packed = torch.nn.utils.rnn.pack_padded_sequence(_random(torch, device, 10, 3, 16), [10, 7, 2])
    output, _ = torch.nn.LSTM(16, 32).to(device)(packed)
    output.data.sum().backward()


@workload
def recurrent_cells(torch, device):
    x = _random(torch, device, 4, 16)
    torch.nn.LSTMCell(16, 8).to(device)(x)[0].sum().backward()
    torch.nn.GRUCell(16, 8).to(device)(x).sum().backward()


# Indices


@workload
def embedding(torch, device):
    indices = torch.zeros(8, 16, dtype=torch.int64, device=device)
    _train(torch, torch.nn.Embedding(100, 32, padding_idx=3).to(device), indices)


@workload
def embedding_bag(torch, device):
    indices = torch.zeros(16, dtype=torch.int64, device=device)
    offsets = torch.tensor([0, 5, 9], device=device)
    for mode in ("sum", "mean", "max"):
        layer = torch.nn.EmbeddingBag(100, 32, mode=mode).to(device)
        layer(indices, offsets).sum().backward()


@workload
def indexing(torch, device):
    x = _random(torch, device, 10, 20, requires_grad=True)
    indices = torch.tensor([1, 3, 5], device=device)
    (x[indices].sum() + x[:, indices].sum() + x.index_select(1, indices).sum()).backward()
    y = x.detach().clone()
    y[indices] = 1.0
    y.index_add_(0, indices, y[:3].clone())
    y.index_put_((indices,), y[:3].clone(), accumulate=True)
    return y.take(indices)


@workload
def gather_and_scatter(torch, device):
    x = _random(torch, device, 10, 20)
    indices = torch.zeros(10, 20, dtype=torch.int64, device=device)
    x.gather(1, indices)
    x.scatter_add_(0, indices, x.clone())
    return x.scatter_reduce(1, indices, x, "amax"), x.scatter(1, indices, 2.0)


@workload
def masks(torch, device):
    x = _random(torch, device, 10, 20)
    mask = x > 0
    return x.masked_fill(mask, 0.0), x[mask], mask.nonzero(), x.masked_select(mask), torch.tril(x)


@workload
def sorting(torch, device):
    x = _random(torch, device, 8, 3000)
    return x.sort(), x.argsort(dim=0), x.topk(5), x.kthvalue(3), x.median(), x.flatten().sort()


@workload
def unique_and_search(torch, device):
    x = torch.arange(100, device=device)
    torch.unique(x, return_inverse=True, return_counts=True), torch.unique_consecutive(x)
    return torch.searchsorted(x, x), torch.isin(x, x[:2]), x.mode()


# Random numbers


@workload
def random_numbers(torch, device):
    generator = torch.Generator(device).manual_seed(3)
    torch.rand(100, device=device, generator=generator)
    torch.randint(0, 10, (100,), device=device), torch.randperm(1000, device=device)
    x = torch.empty(100, device=device)
    return x.normal_(), x.exponential_(), x.bernoulli_(0.3), x.cauchy_(), x.geometric_(0.5)


@workload
def distributions(torch, device):
    x = torch.ones(4, 10, device=device)
    torch.multinomial(x, 3), torch.poisson(x), torch._standard_gamma(x)
    return torch.distributions.Normal(x, x, validate_args=False).rsample()


@workload
def dropout(torch, device):
    x = _random(torch, device, 64, 64, requires_grad=True)
    torch.nn.functional.dropout(x, 0.3).sum().backward()
    return torch.nn.functional.alpha_dropout(x, 0.2, training=True)


@workload
def generator_state(torch, device):
    state = torch.cuda.get_rng_state()
    torch.cuda.set_rng_state(state)
    torch.cuda.manual_seed_all(5)
    return torch.cuda.initial_seed()


# Fourier transforms


@workload
def fft_complex(torch, device):
    x = torch.randn(4, 64, dtype=torch.complex64, device=device)
    return torch.fft.fft(x), torch.fft.ifft(x), torch.fft.fft2(x), torch.fft.fftn(x.cdouble())


@workload
def fft_real(torch, device):
    x = _random(torch, device, 4, 100, requires_grad=True)
    torch.fft.irfft(torch.fft.rfft(x)).sum().backward()
    return torch.fft.rfft2(x), torch.fft.rfft(x.half()[:, :64]), torch.fft.fftshift(x)


@workload
def stft(torch, device):
    window = torch.hann_window(32, device=device)
    x = _random(torch, device, 2, 400)
    return torch.stft(x, 32, window=window, return_complex=True)


# Linear algebra


@workload
def svd(torch, device):
    x = _random(torch, device, 2, 16, 8)
    for driver in ("gesvd", "gesvdj", "gesvda"):
        torch.linalg.svd(x, full_matrices=False, driver=driver)
    return torch.linalg.svdvals(x.double()), torch.linalg.svd(_random(torch, device, 100, 50))


@workload
def eigh(torch, device):
    torch.linalg.eigh(_random(torch, device, 4, 16, 16))
    torch.linalg.eigh(_random(torch, device, 64, 64, dtype=torch.complex64))
    return torch.linalg.eigvalsh(_random(torch, device, 600, 600, dtype=torch.float64))


@workload
def eig(torch, device):
    return torch.linalg.eig(_random(torch, device, 8, 8))


@workload
def qr(torch, device):
    x = _random(torch, device, 3, 16, 8, requires_grad=True)
    torch.linalg.qr(x)[1].sum().backward()
    reflectors, tau = torch.geqrf(x.detach())
    torch.ormqr(reflectors, tau, x.detach())
    return torch.linalg.householder_product(reflectors, tau)


@workload
def cholesky(torch, device):
    x = torch.eye(16, device=device)
    factor = torch.linalg.cholesky(x)
    torch.linalg.cholesky(x.expand(4, 16, 16).contiguous())
    torch.cholesky_inverse(factor)
    return torch.cholesky_solve(x, factor)


@workload
def solve(torch, device):
    x = torch.eye(16, device=device)
    batch = x.expand(4, 16, 16).contiguous()
    torch.linalg.solve(batch, batch), torch.linalg.solve(x.cdouble(), x.cdouble())
    torch.linalg.solve_triangular(x, x, upper=True)
    return torch.linalg.solve(x, x[0])


@workload
def lu(torch, device):
    x = _random(torch, device, 16, 16)
    factors, pivots = torch.linalg.lu_factor(x)
    torch.linalg.lu_solve(factors, pivots, x)
    factors, pivots = torch.linalg.lu_factor(x.expand(5, 16, 16).contiguous())
    return torch.linalg.lu(x), torch.linalg.lu_solve(factors, pivots, factors)


@workload
def inverses(torch, device):
    x = torch.eye(16, device=device)
    torch.linalg.pinv(_random(torch, device, 8, 4)), torch.linalg.matrix_exp(x)
    torch.linalg.inv(x.expand(3, 16, 16).contiguous())
    return torch.linalg.inv(x), torch.linalg.det(x), torch.linalg.slogdet(x)


@workload
def lstsq(torch, device):
    torch.linalg.lstsq(_random(torch, device, 3, 16, 4), _random(torch, device, 3, 16, 2))
    return torch.linalg.lstsq(_random(torch, device, 16, 4), _random(torch, device, 16, 2))


@workload
def ldl(torch, device):
    x = torch.eye(16, device=device)
    factors, pivots = torch.linalg.ldl_factor(x)
    return torch.linalg.ldl_solve(factors, pivots, x)


# Sparse


def _csr(torch, device, size=16, dtype=None):
    rows = torch.arange(size + 1)
    columns = torch.arange(size)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "Sparse CSR tensor support is in beta state"
        return torch.sparse_csr_tensor(rows, columns, torch.ones(size, dtype=dtype),
                                       (size, size)).to(device)


@workload
def sparse_coo_mm(torch, device):
    indices = torch.tensor([[0, 1, 2], [2, 0, 1]], device=device)
    x = torch.sparse_coo_tensor(indices, torch.ones(3, device=device), (3, 3))
    x.coalesce(), (x + x).to_dense()
    return torch.sparse.mm(x, _random(torch, device, 3, 4))


@workload
def sparse_csr_mm(torch, device):
    x = _csr(torch, device)
    return x @ _random(torch, device, 16, 8), x @ _random(torch, device, 16)


@workload
def sparse_csr_product(torch, device):
    x = _csr(torch, device)
    return x @ x, torch.add(x, x)


@workload
def sparse_sampled_addmm(torch, device):
    return torch.sparse.sampled_addmm(_csr(torch, device), _random(torch, device, 16, 8),
                                      _random(torch, device, 8, 16))


@workload
def sparse_triangular_solve(torch, device):
    x = _csr(torch, device)
    return (torch.triangular_solve(_random(torch, device, 16, 4), x, upper=False),
            torch.triangular_solve(_random(torch, device, 16, 1), x, upper=False))


@workload
def sparse_bsr_mm(torch, device):
    x = torch.sparse_bsr_tensor(torch.tensor([0, 1, 2]), torch.tensor([0, 1]),
                                torch.ones(2, 16, 16), (32, 32)).to(device)
    return torch.addmm(_random(torch, device, 32, 8), x, _random(torch, device, 32, 8))


# Images, pooling, losses


@workload
def pooling(torch, device):
    x = _random(torch, device, 2, 4, 32, 32, requires_grad=True)
    functional = torch.nn.functional
    for output in (functional.max_pool2d(x, 2), functional.avg_pool2d(x, 3),
                   functional.adaptive_avg_pool2d(x, 4), functional.adaptive_max_pool2d(x, 4),
                   functional.lp_pool2d(x, 2, 2)):
        output.sum().backward()
    return functional.max_pool3d(x, 2), functional.max_pool2d(x.half(), 2)


@workload
def interpolation(torch, device):
    x = _random(torch, device, 2, 4, 16, 16, requires_grad=True)
    for mode in ("nearest", "bilinear", "bicubic", "area"):
        torch.nn.functional.interpolate(x, scale_factor=2, mode=mode).sum().backward()


@workload
def grid_sample(torch, device):
    x = _random(torch, device, 2, 4, 16, 16, requires_grad=True)
    grid = torch.nn.functional.affine_grid(torch.zeros(2, 2, 3, device=device), (2, 4, 8, 8),
                                           align_corners=False)
    return torch.nn.functional.grid_sample(x, grid, align_corners=False).sum().backward()


@workload
def padding_and_folding(torch, device):
    x = _random(torch, device, 2, 4, 16, 16, requires_grad=True)
    functional = torch.nn.functional
    for mode in ("constant", "reflect", "replicate", "circular"):
        functional.pad(x, (1, 2, 1, 2), mode=mode).sum().backward()
    return functional.fold(functional.unfold(x, 3), (16, 16), 3), functional.pixel_shuffle(x, 2)


@workload
def losses(torch, device):
    x = _random(torch, device, 8, 10, requires_grad=True)
    y = torch.zeros(8, dtype=torch.int64, device=device)
    functional = torch.nn.functional
    target = torch.zeros(8, 10, device=device)
    for loss in (functional.cross_entropy(x, y), functional.nll_loss(x, y),
                 functional.mse_loss(x, target), functional.smooth_l1_loss(x, target),
                 functional.binary_cross_entropy_with_logits(x, target),
                 functional.kl_div(x, target), functional.multi_margin_loss(x, y)):
        loss.backward()


@workload
def ctc_loss(torch, device):
    x = _random(torch, device, 20, 4, 10, requires_grad=True)
    # What cuDNN takes: targets of int32 in a row, all inputs equally long, blank 0.
    targets = torch.ones(12, dtype=torch.int32)
    torch.nn.functional.ctc_loss(x.log_softmax(2), targets, [20] * 4, [3] * 4).backward()
    lengths = [torch.full((4,), length, dtype=torch.int32).to(device) for length in (20, 3)]
    torch.nn.functional.ctc_loss(x.log_softmax(2), targets.to(device), *lengths).backward()
    targets = torch.ones(4, 3, dtype=torch.int64, device=device)
    torch.nn.functional.ctc_loss(x.log_softmax(2), targets, [20] * 4, [3] * 4).backward()


# Optimizers and whole training steps


def _optimize(torch, device, name, **options):
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Linear(16, 4)).to(device)
    optimizer = getattr(torch.optim, name)(model.parameters(), **options)
    _train(torch, model, _random(torch, device, 8, 16), steps=2, optimizer=optimizer)


@workload
def foreach_functions(torch, device):
    tensors = [_random(torch, device, 10 + size) for size in range(20)]
    torch._foreach_add_(tensors, 1.0)
    torch._foreach_mul_(tensors, [2.0] * 20)
    return torch._foreach_norm(tensors)


@workload
def sgd(torch, device):
    _optimize(torch, device, "SGD", lr=0.1, momentum=0.9, foreach=True)


@workload
def sgd_fused(torch, device):
    _optimize(torch, device, "SGD", lr=0.1, momentum=0.9, fused=True)


@workload
def adam(torch, device):
    _optimize(torch, device, "Adam", foreach=True)


@workload
def adam_capturable(torch, device):
    _optimize(torch, device, "Adam", foreach=True, capturable=True)


@workload
def adam_fused(torch, device):
    _optimize(torch, device, "Adam", fused=True)


@workload
def adamw_fused(torch, device):
    _optimize(torch, device, "AdamW", fused=True, amsgrad=True)


@workload
def other_optimizers(torch, device):
    _optimize(torch, device, "RMSprop", lr=0.1)
    _optimize(torch, device, "Adagrad", lr=0.1)


@workload
def gradient_clipping(torch, device):
    model = torch.nn.Linear(16, 16).to(device)
    model(_random(torch, device, 4, 16)).sum().backward()
    return torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)


@workload
def autocast_and_grad_scaler(torch, device):
    model = torch.nn.Linear(16, 16).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    with torch.autocast("cuda", dtype=torch.float16):
        loss = torch.nn.functional.mse_loss(model(_random(torch, device, 4, 16)),
                                            torch.zeros(4, 16, device=device))
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()


@workload
def checkpointed_backward(torch, device):
    from torch.utils.checkpoint import checkpoint
    model = torch.nn.Linear(16, 16).to(device)
    x = _random(torch, device, 4, 16, requires_grad=True)
    checkpoint(model, x, use_reentrant=False).sum().backward()


@workload
def function_transforms(torch, device):
    from torch.func import grad, jvp, vmap
    weight = _random(torch, device, 16, 16)
    x = _random(torch, device, 8, 16)
    vmap(grad(lambda row: (row @ weight).sin().sum()))(x)
    return jvp(lambda value: (value @ weight).tanh(), (x,), (x,))


@workload
def double_backward(torch, device):
    layer = torch.nn.Conv2d(3, 4, 3).to(device)
    x = _random(torch, device, 1, 3, 8, 8, requires_grad=True)
    gradient, = torch.autograd.grad(layer(x).square().sum(), x, create_graph=True)
    gradient.sum().backward()


def transformer(torch, device, layers=12, width=64):
    layer = torch.nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True)
    return torch.nn.TransformerEncoder(layer, layers, enable_nested_tensor=False).to(device)


@workload
def transformer_training_step(torch, device):
    model = transformer(torch, device)
    optimizer = torch.optim.AdamW(model.parameters())
    _train(torch, model, _random(torch, device, 2, 32, 64), optimizer=optimizer)


@workload
def transformer_autocast_evaluation(torch, device):
    model = transformer(torch, device, layers=2).eval()
    with torch.no_grad(), torch.autocast("cuda", dtype=torch.bfloat16):
        return model(_random(torch, device, 2, 32, 64))


# The device: memory, streams, graphs, several devices


@workload
def host_copies(torch, device):
    x = torch.arange(1000, dtype=torch.float32)
    assert torch.equal(x.to(device).cpu(), x)
    pinned = x.pin_memory()
    y = pinned.to(device, non_blocking=True)
    torch.cuda.synchronize()
    back = torch.empty_like(x).pin_memory()
    back.copy_(y, non_blocking=True)
    torch.cuda.synchronize()
    assert torch.equal(back, x)


@workload
def item_and_numpy(torch, device):
    x = torch.tensor([3.5], device=device)
    assert x.item() == 3.5
    assert x.cpu().numpy().tolist() == [3.5] and x.tolist() == [3.5]


@workload
def memory_functions(torch, device):
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    x = torch.empty(1 << 20, dtype=torch.uint8, device=device)
    assert torch.cuda.memory_allocated() == before + (1 << 20)
    assert torch.cuda.max_memory_allocated() >= before + (1 << 20)
    free, total = torch.cuda.mem_get_info()
    assert 0 < free < total == torch.cuda.get_device_properties(device).total_memory
    torch.cuda.memory_summary(), torch.cuda.memory_snapshot()
    del x
    assert torch.cuda.memory_allocated() == before


@workload
def out_of_memory(torch, device):
    _, total = torch.cuda.mem_get_info()
    try:
        torch.empty(total + (1 << 30), dtype=torch.uint8, device=device)
    except torch.cuda.OutOfMemoryError as error:
        assert "out of memory" in str(error)
    else:
        raise AssertionError("more memory than there is")


@workload
def device_properties(torch, device):
    properties = torch.cuda.get_device_properties(device)
    assert (properties.major, properties.minor) == torch.cuda.get_device_capability(device)
    assert properties.multi_processor_count > 0 and properties.name
    assert torch.cuda.is_bf16_supported(including_emulation=False) == (properties.major >= 8)
    return torch.cuda.current_blas_handle(), torch.cuda.get_arch_list()


@workload
def streams_and_events(torch, device):
    side = torch.cuda.Stream(priority=-1)
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    x = _random(torch, device, 100)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = x * 2
        y.record_stream(side)
    torch.cuda.current_stream().wait_stream(side)
    end.record()
    end.synchronize()
    assert end.query() and side.query()
    assert start.elapsed_time(end) >= 0


@workload
def cuda_graph(torch, device):
    model = torch.nn.Linear(16, 16).to(device)
    x = _random(torch, device, 4, 16)
    with torch.no_grad():
        model(x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            output = model(x).relu()
        for _ in range(3):
            graph.replay()
    graph.reset()
    return output


@workload
def graphed_training(torch, device):
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Dropout(0.1)).to(device)
    x = _random(torch, device, 4, 16, requires_grad=True)
    graphed = torch.cuda.make_graphed_callables(model, (x,))
    graphed(x).sum().backward()


@workload
def memory_pools(torch, device):
    pool = torch.cuda.graph_pool_handle()
    graph = torch.cuda.CUDAGraph()
    x = _random(torch, device, 16)
    with torch.cuda.graph(graph, pool=pool):
        x + 1
    graph.replay()


@workload
def nvtx_ranges(torch, device):
    with torch.cuda.nvtx.range("a range"):
        return _random(torch, device, 4) + 1


@workload
def profiler(torch, device):
    from torch.profiler import ProfilerActivity, profile
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiled:
        _random(torch, device, 16, 16) @ _random(torch, device, 16, 16)
        torch.cuda.synchronize()
    assert any(event.key == "aten::mm" for event in profiled.key_averages())


@workload
def two_devices_copy(torch, device):
    x = torch.arange(100).to("cuda:0")
    y = x.to("cuda:1")
    assert y.device.index == 1 and torch.equal(y.cpu(), x.cpu())
    torch.cuda.can_device_access_peer(0, 1)
    with torch.cuda.device(1):
        z = torch.ones(10, device="cuda")
        assert z.device.index == 1
    x.copy_(y, non_blocking=True)
    torch.cuda.synchronize(1)


@workload
def data_parallel(torch, device):
    model = torch.nn.DataParallel(torch.nn.Linear(16, 4).to("cuda:0"), device_ids=[0, 1])
    output = model(_random(torch, "cuda:0", 8, 16))
    assert output.shape == (8, 4)
    output.sum().backward()


@workload
def nccl_two_devices(torch, device):
    tensors = [torch.ones(16, device=f"cuda:{index}") for index in range(2)]
    torch.cuda.nccl.all_reduce(tensors)
    torch.cuda.nccl.broadcast(tensors)
    return torch.cuda.nccl.version()


# Distributed, one rank


@contextlib.contextmanager
def _one_rank(torch):
    folder = tempfile.mkdtemp()
    torch.distributed.init_process_group("nccl", init_method=f"file://{folder}/store", rank=0,
                                         world_size=1)
    try:
        yield torch.distributed
    finally:
        torch.distributed.destroy_process_group()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{folder}/store")
        os.rmdir(folder)


@workload
def nccl_collectives(torch, device):
    with _one_rank(torch) as distributed:
        x = torch.arange(16.0).to(device)
        distributed.all_reduce(x)
        distributed.broadcast(x, 0)
        gathered = torch.empty(16, device=device)
        distributed.all_gather_into_tensor(gathered, x)
        distributed.reduce_scatter_tensor(gathered, x)
        distributed.all_gather([gathered], x)
        distributed.all_to_all_single(gathered, x)
        distributed.reduce(x, 0)
        distributed.barrier()
        torch.cuda.synchronize()
        assert torch.equal(gathered.cpu(), torch.arange(16.0)), "one rank: what went in"


@workload
def distributed_data_parallel(torch, device):
    with _one_rank(torch):
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(16, 4).to(device))
        _train(torch, model, _random(torch, device, 8, 16), steps=2)


@workload
def nccl_in_a_graph(torch, device):
    with _one_rank(torch) as distributed:
        x = _random(torch, device, 16)
        distributed.all_reduce(x)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            distributed.all_reduce(x)
        graph.replay()
        torch.cuda.synchronize()
        graph.reset()


# Code made while the program runs


@workload
def scripted_fusion(torch, device):
    @torch.jit.script
    def function(x, y):
        return torch.sigmoid(x * y + x) * torch.tanh(y)
    x = _random(torch, device, 64, 64)
    for _ in range(3):  # The first two runs are profiled.
        function(x, x)


@workload
def compile_elementwise(torch, device):
    torch.compiler.reset()
    function = torch.compile(lambda x, y: (x * y).relu().sum(-1))
    x = _random(torch, device, 64, 64)
    return function(x, x)


@workload
def compile_training_step(torch, device):
    torch.compiler.reset()
    model = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.GELU(),
                                torch.nn.LayerNorm(32)).to(device)
    _train(torch, torch.compile(model), _random(torch, device, 8, 32))
