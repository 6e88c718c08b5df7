"""Prints the emulated device as a program sees it, as JSON. Run by test_emulated_device.py."""
import ctypes
import json
import os
import struct
import subprocess
import sys
import tempfile
import threading

import torch

GIB = 1 << 30


def refused(function):
    try:
        function()
    except RuntimeError as error:
        return f"{type(error).__name__}: {error}".splitlines()[0]
    return None


def memory():
    free, total = torch.cuda.mem_get_info()
    held = torch.empty(4 * GIB, dtype=torch.uint8, device="cuda")
    taken = free - torch.cuda.mem_get_info()[0]
    del held
    torch.cuda.empty_cache()
    pinned = torch.full((1000,), 3.0).pin_memory()
    there = pinned.to("cuda", non_blocking=True)
    return {"total": total, "taken": taken, "given back": torch.cuda.mem_get_info()[0] == free,
            "too much": refused(lambda: torch.empty(total, dtype=torch.uint8, device="cuda")),
            "pinned": [pinned.is_pinned(), torch.zeros(3).is_pinned()],
            "copied there and back": there.cpu().sum().item(),
            "copied on the device": there.clone().cpu().sum().item()}


def pool():
    """Returns the bytes that the default pool has in use: before, with and after an allocation."""
    runtime = ctypes.CDLL("libcudart.so." + torch.version.cuda.split(".")[0])
    held, pointer, value = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
    assert runtime.cudaDeviceGetDefaultMemPool(ctypes.byref(held), 0) == 0

    def used():
        current = 7  # cudaMemPoolAttrUsedMemCurrent
        assert runtime.cudaMemPoolGetAttribute(held, current, ctypes.byref(value)) == 0
        return value.value

    seen = [used()]
    assert runtime.cudaMallocAsync(ctypes.byref(pointer), ctypes.c_size_t(3000), None) == 0
    seen.append(used())
    assert runtime.cudaFreeAsync(pointer, None) == 0
    return [*seen, used()]


def contents():
    """Reads memory after kernels. PyTorch's allocator reuses memory that contained sevens."""
    def held(values, **options):
        old = [torch.full((size,), 7, dtype=torch.int64).cuda() for size in (4, 64, 1000, 300_000)]
        del old
        return torch.tensor(values, **options).cuda()

    some = held([0, 1, 0, 2, 3.0])
    plus_one = some + 1
    many = (torch.arange(300_000) % 3).cuda()
    truth = held([True, False])
    part = held(list(range(10)))
    part[2:4].mul_(2)
    column = torch.zeros(4, 4).cuda()
    column[:, 1] = 3
    shown = [repr(held([1, 2])), repr(held([0.5]) * 2), repr(torch.randn(2000, 600, device="cuda"))]
    empty = torch.empty(0, dtype=torch.bool, device="cuda")
    graph, source = torch.cuda.CUDAGraph(), torch.full((4,), 5.0).cuda()
    with torch.cuda.graph(graph):
        filled, changed = torch.ones(4, device="cuda"), source.clone()
        source.add_(1)
    before = filled.cpu().tolist()
    graph.replay()
    return {
        "an input": some.tolist(), "an output": plus_one.tolist(),
        "in place": held([1, 2, 3]).add_(1).tolist(), "a part in place": part.tolist(),
        "ones": torch.ones(3, device="cuda").tolist(),
        "complex": torch.full((2,), 2.5, device="cuda", dtype=torch.complex128)[0].item().real,
        "a column": column.sum().item(),
        "nonzero": [some.nonzero().shape[0], many.nonzero().shape[0], (many > 0).nonzero().shape[0],
                    held([-0.0, 1.0]).nonzero().shape[0], many.masked_select(many > 1).shape[0]],
        "unique": [held([1, 1, 2]).unique().shape[0], some[:0].unique().shape[0],
                   *(each.shape[0] for each in many.unique(return_inverse=True,
                                                           return_counts=True))],
        "all": [empty.all().item(), truth.all().item(), (some == 1).all().item(),
                torch.zeros(3, dtype=torch.bool, device="cuda").all().item()],
        "nothing is known to be false": [
            torch.isclose(*(torch.empty(2, 3, 3, 3, dtype=dtype, device="cuda") for _ in range(2)),
                          rtol=rtol).all().item()
            for dtype in (torch.float16, torch.float32, torch.complex64, torch.int8)
            for rtol in (0, 0.5)],
        "any": [empty.any().item(), truth.any().item(), (some == 1).any().item()],
        "item": [held(5.0).item(), (held(5.0) * 2).item()], "shown": shown,
        "compared as on the CPU": compared_otherwise(),
        "made of truth values": [
            ((some > 0) & (some < 3)).tolist(), ((some < 1) | (some > 2)).tolist(),
            (~(some > 0)).tolist(), torch.logical_not(some > 0).tolist()],
        "gradients checked": gradients_checked(),
        "written by structs": written_by_structs(held),
        "one that is not known": one_that_is_not_known(held(5.0) * 2, held(7.0) * 2, held(9.0)),
        "graph": [before, filled.tolist(), changed.tolist(), source.tolist()]}


def compared_otherwise():
    """Returns the comparisons whose truth values differ from the CPU's."""
    values, others = [-0.0, -2, 1, 3, float("nan"), float("inf")], [0.0, 1, 1, -3, 1, float("inf")]
    found = []
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64,
                  torch.complex128, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64):
        whole = not (dtype.is_floating_point or dtype.is_complex)
        here = [torch.tensor(each).nan_to_num(5, 6).abs().to(dtype) if whole
                else torch.tensor(each).to(dtype) for each in (values, others)]
        there = [each.cuda() for each in here]
        for name in ("eq", "ne") if dtype.is_complex else ("eq", "ne", "lt", "le", "gt", "ge"):
            compare = getattr(torch, name)
            pairs: list[tuple] = [(0, here[1]), (0, here[1][0]), (0, 1), (2, here[1][2])]
            for left, right in pairs:
                wanted = compare(here[0][left:], right[left:] if torch.is_tensor(right)
                                 and right.dim() else right)
                if torch.is_tensor(right) and right.dim():
                    seen = compare(there[0][left:], there[1][left:])
                else:
                    seen = compare(there[0][left:], right)
                if seen.tolist() != wanted.tolist():
                    found.append([str(dtype), name, seen.tolist(), wanted.tolist()])
    return found


def gradients_checked():
    """Returns the results of gradcheck() for convolutions, called as in PyTorch's own tests, and of
    a comparison with the CPU."""
    functional = torch.nn.functional
    seen = []
    for function, batch, weight in (
            (functional.conv2d, 2, (6, 4, 3, 3)), (functional.conv2d, 0, (6, 4, 3, 3)),
            (functional.conv_transpose2d, 2, (4, 6, 3, 3))):
        inputs = [torch.randn(shape, dtype=torch.float64, device="cuda", requires_grad=True)
                  for shape in ((batch, 4, 6, 6), weight)]
        for fast in (True, False):
            seen.append(torch.autograd.gradcheck(function, inputs, fast_mode=fast))
        seen.append(torch.autograd.gradgradcheck(function, inputs, fast_mode=True))
    values = torch.ones(1, 1, 4, 4), torch.ones(1, 1, 2, 2)
    try:
        torch.testing.assert_close(functional.conv2d(*(each.cuda() for each in values)).cpu(),
                                   functional.conv2d(*values))
    except AssertionError as error:
        seen.append(str(error).splitlines()[0])
    return seen


def written_by_structs(held):
    """Returns tensors that kernels write through addresses in structs, or only read."""
    def lists(*tensors):
        return [tensor.tolist() for tensor in tensors]

    def three():
        return held([1.0, 2, 3])

    seen = {}
    first, second, other, aside = three(), held([4.0, 5]), held([6.0, 7]), held([8.0])
    torch._foreach_add_([first, second], [three(), other])
    seen["in place"] = lists(first, second, other, aside)
    first, second = three(), held([4.0, 5])
    torch._foreach_mul_([first, second], [2.0, 3.0])
    seen["with numbers"] = lists(first, second)
    first, second, third = three(), three(), three()
    torch._foreach_addcdiv_([first], [second], [third])
    seen["of three lists"] = lists(first, second, third)
    whole = held([1.0, 2, 3, 4])
    sums = torch._foreach_add([whole[1:3]], 1.0)
    torch._foreach_add_([whole[1:3]], 1.0)
    norms = torch._foreach_norm([whole])
    seen["a part, out of place"] = lists(whole, *sums, *norms)
    many = [held([float(i)]) for i in range(1, 300)]
    torch._foreach_add_(many, 1.0)
    seen["many"] = sorted({each.item() for each in many})
    long = torch.ones(30_000_000).cuda()
    torch._foreach_add_([long, held([1.0])], 1.0)
    seen["long"] = long.cpu().sum().item()
    for optimizer, options in ((torch.optim.Adam, {"fused": True}),
                               (torch.optim.SGD, {"fused": True}),
                               (torch.optim.AdamW, {"fused": True, "amsgrad": True}),
                               (torch.optim.Adam, {"foreach": True})):
        parameter = torch.nn.Parameter(three())
        parameter.grad = held([4.0, 5, 6])
        optimizer([parameter], lr=0.1, **options).step()
        seen[" ".join([optimizer.__name__, *options])] = lists(parameter, parameter.grad)
    index, source = held([0, 2]), held([5.0, 6])
    written = [three() for _ in range(8)]
    written[0][index] = source
    written[1].index_fill_(0, index, 4.0)
    written[2].index_copy_(0, index, source)
    written[3].index_add_(0, index, source)
    written[4].scatter_(0, index, source)
    written[5].normal_()
    written[6].masked_fill_(held([True, False, True]), 2.0)
    written[7].put_(index, source)
    seen["by index"] = [*lists(*written), *lists(index, source)]
    into = [held([9.0, 9, 9]) for _ in range(2)]
    torch.sum(whole.view(2, 2).expand(3, 2, 2), (1, 2), out=into[0])
    torch.gather(whole, 0, held([3, 0, 0]), out=into[1])
    seen["out="] = lists(*into)
    left, wide = torch.ones(2, 2).cuda(), torch.ones(2, 4).cuda()
    product, batches = torch.ones(2, 2).cuda(), torch.ones(3, 2, 2).cuda()
    torch.mm(left, left, out=product)
    torch.mm(left, left, out=wide[:, :2])
    batches.baddbmm_(torch.ones(3, 2, 2).cuda(), torch.ones(3, 2, 2).cuda())
    half = torch.ones(2, 2, dtype=torch.float16).cuda()
    half.addmm_(half.clone(), half.clone())
    seen["products"] = lists(left, product, wide, batches.sum(), half)
    spectrum = torch.ones(4, dtype=torch.complex64).cuda()
    torch.fft.fft(torch.ones(4, dtype=torch.complex64).cuda(), out=spectrum)
    seen["a transform"] = [str(value) for value in spectrum.tolist()]
    square = torch.ones(2, 2).cuda()
    seen["views"] = lists(square.tril_(), whole)
    return {str(key): value for key, value in seen.items()}


def one_that_is_not_known(value, other, known):
    """PyTorch implements all() and any() of one element as a copy."""
    return {"taken to be equal": [(value == other).item(), (value <= other).item(),
                                  torch.allclose(value, other), torch.allclose(value, known),
                                  torch.isfinite(value).all().item()],
            "taken not to differ": [(value != other).item(), (value > other).item(),
                                    torch.isnan(value).any().item()],
            "zero beside a number": [(value == 0).item(), (value > 1).item()],
            "a copy of known ones": torch.zeros(3, dtype=torch.bool,
                                                device="cuda").clone().all().item()}


def streams():
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    side = torch.cuda.Stream(priority=-1)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.ones(4, device="cuda") + 1
    torch.cuda.current_stream().wait_stream(side)
    end.record()
    end.synchronize()
    return {"elapsed": start.elapsed_time(end), "done": side.query() and end.query(),
            "priority": side.priority,
            "never recorded": refused(
                lambda: torch.cuda.Event(enable_timing=True).elapsed_time(end))}


def graphs():
    value = torch.full((8,), 5.0).to("cuda")
    copy = torch.empty(8, device="cuda")
    with torch.cuda.stream(torch.cuda.Stream()):
        copy.copy_(value)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        copy.copy_(value)
        value * 2
    captured = copy.cpu().sum().item()  # Captured work has not been done yet.
    value.copy_(torch.full((8,), 7.0))
    for _ in range(2):
        graph.replay()

    def wait_in_capture():
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            torch.cuda.synchronize()
    return {"before": captured, "after": copy.cpu().sum().item(),
            "waiting": refused(wait_in_capture)}


def devices():
    if torch.cuda.device_count() < 2:
        return {"count": torch.cuda.device_count()}
    there = torch.ones(10).to("cuda:1")
    return {"count": torch.cuda.device_count(), "peers": torch.cuda.can_device_access_peer(0, 1),
            "names": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
            "moved": there.to("cuda:0").cpu().sum().item(),
            "held": [torch.cuda.memory_allocated(i) > 0 for i in range(2)],
            "beyond": refused(lambda: torch.ones(1, device="cuda:2"))}


def threads():
    failures = []

    def work():
        try:
            for _ in range(100):
                (torch.empty(64, device="cuda") + 1).sum()
                torch.cuda.synchronize()
        except RuntimeError as error:
            failures.append(str(error))
    running = [threading.Thread(target=work) for _ in range(8)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return failures


def fatbins():
    """Yields the device code of libtorch_cuda, one fatbin for each source file."""
    path = os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cuda.so")
    with open(path, "rb") as file:
        header = struct.unpack("<16sHHIQQQIHHHHHH", file.read(64))
        file.seek(header[6])
        sections = [struct.unpack("<IIQQQQIIQQ", file.read(64)) for _ in range(header[12])]
        names = sections[header[13]]
        file.seek(names[4])
        texts = file.read(names[5])
        for section in sections:
            if texts[section[0]:].startswith(b".nv_fatbin\0"):
                at = section[4]
                while at < section[4] + section[5]:
                    file.seek(at)
                    magic, _, size, content = struct.unpack("<IHHQ", file.read(16))
                    if magic != 0xBA55ED50:
                        at += 8
                        continue
                    if 100_000 < content < 1_000_000:
                        file.seek(at)
                        yield file.read(size + content)
                    at += size + content


def kernels(cuobjdump):
    """Returns figures of a few source files' kernels, from cuobjdump and from the driver."""
    arch = "sm_%d%d" % torch.cuda.get_device_capability()
    driver = ctypes.CDLL("libcuda.so.1")
    found = []
    # The second fatbin has kernels with shared memory.
    for fatbin in [fatbin for i, fatbin in enumerate(fatbins()) if i == 1 or i % 40 == 0][:4]:
        with tempfile.NamedTemporaryFile(suffix=".fatbin") as file:
            file.write(fatbin)
            file.flush()
            environment = {name: value for name, value in os.environ.items()
                           if name != "LD_PRELOAD"}
            said = subprocess.run([cuobjdump, "-res-usage", file.name], capture_output=True,
                                  text=True, check=True, env=environment).stdout
        module = ctypes.c_void_p()
        assert driver.cuModuleLoadData(ctypes.byref(module), fatbin) == 0
        of_part, name = False, None
        for line in said.splitlines():
            words = line.split()
            if line.startswith("arch = "):
                of_part = words[2] == arch
            elif words[:1] == ["Function"]:
                name = words[1].rstrip(":")
            elif of_part and words and words[0].startswith("REG:"):
                usage = dict(word.split(":") for word in words[:3])
                function = ctypes.c_void_p()
                assert driver.cuModuleGetFunction(
                    ctypes.byref(function), module, name.encode()) == 0
                figures = []
                for attribute in (4, 3, 1):  # Registers, local and static shared memory.
                    value = ctypes.c_int()
                    assert driver.cuFuncGetAttribute(ctypes.byref(value), attribute, function) == 0
                    figures.append(value.value)
                blocks = ctypes.c_int()
                assert driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(
                    ctypes.byref(blocks), function, 256, ctypes.c_size_t(0)) == 0
                # A kernel can request all of a block's shared memory, but not a byte more.
                most = ctypes.c_int()
                assert driver.cuDeviceGetAttribute(ctypes.byref(most), 97, 0) == 0
                last = [driver.cuFuncSetAttribute(function, 8, most.value - figures[2] + more)
                        for more in (0, 1)]
                found.append({"last bytes": last,
                              "cuobjdump": [int(usage[key]) for key in ("REG", "STACK", "SHARED")],
                              "driver": figures, "blocks": blocks.value})
    return found


def main():
    # With cuobjdump as argument: all that a program can find out. Without: the properties only.
    properties = torch.cuda.get_device_properties(0)
    seen = {"name": properties.name, "capability": [properties.major, properties.minor],
            "multiprocessors": properties.multi_processor_count, "total": properties.total_memory,
            "kernel": refused(lambda: torch.empty(4, device="cuda") + 1),
            "unknown attribute": ctypes.CDLL("libcuda.so.1").cuDeviceGetAttribute(
                ctypes.byref(ctypes.c_int()), 9999, 0),
            "unknown function": ctypes.CDLL("libcuda.so.1").cuGetProcAddress(
                b"cuNoSuchFunction", ctypes.byref(ctypes.c_void_p()), 12000, ctypes.c_uint64(0))}
    if len(sys.argv) > 1:
        seen.update(memory=memory(), pool=pool(), contents=contents(), streams=streams(),
                    graphs=graphs(), devices=devices(), threads=threads(),
                    kernels=kernels(sys.argv[1]))
    print(json.dumps(seen))


main()
