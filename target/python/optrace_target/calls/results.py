"""Bitwise comparison of the results of two runs of a call."""
import ctypes
import hashlib


def digest(torch, values):
    """Returns a text that is equal for two results if, and only if, all their contents are equal.

    Tensors are compared by their bytes, so NaN equals NaN and 0.0 does not equal -0.0; numbers,
    strings and the like by their repr(); other objects by their type.
    """
    hashed = hashlib.sha256()
    with torch.no_grad():
        for part in _parts(torch, values):
            hashed.update(part)
            hashed.update(b"\0")
    return hashed.hexdigest()


def _parts(torch, value):
    if isinstance(value, torch.Tensor):
        yield repr((tuple(value.shape), value.dtype, value.layout, value.requires_grad)).encode()
        for dense in _dense(torch, value.detach()):
            yield _bytes(torch, dense)
        return
    if isinstance(value, dict):
        for key, item in value.items():
            yield repr(key).encode()
            yield from _parts(torch, item)
        return
    if isinstance(value, (list, tuple)):
        yield b"%s of %d" % (type(value).__name__.encode(), len(value))
        for item in value:
            yield from _parts(torch, item)
        return
    if isinstance(value, (bool, int, float, complex, str, bytes, type(None), torch.dtype,
                          torch.device, torch.layout, torch.memory_format)):
        yield repr(value).encode("utf-8", "surrogateescape")
        return
    yield type(value).__qualname__.encode()


def _dense(torch, tensor):
    """Returns the dense tensors that make up a tensor of any layout."""
    if tensor.is_nested:
        if tensor.layout == torch.jagged:
            return [tensor.values(), tensor.offsets()]
        return list(tensor.unbind())
    if tensor.layout == torch.sparse_coo:
        return [tensor._indices(), tensor._values()]
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    if tensor.layout != torch.strided:
        return [tensor.to_dense()]
    return [tensor]


def _bytes(torch, tensor):
    if tensor.device.type == "meta":
        return b"meta"
    if tensor.is_quantized:
        tensor = tensor.int_repr()
    tensor = tensor.resolve_conj().resolve_neg().cpu().contiguous()
    return ctypes.string_at(tensor.data_ptr(), tensor.numel() * tensor.element_size())
