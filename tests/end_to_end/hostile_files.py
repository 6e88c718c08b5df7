"""Makes traces and indexes with a correct checksum and arbitrary wrong contents
(docs/trace-format.md, docs/index-format.md).
"""
import ctypes
import functools
import json
import struct

ZSTD = ctypes.CDLL("libzstd.so.1")
ZSTD.ZSTD_compress.restype = ZSTD.ZSTD_compressBound.restype = ctypes.c_size_t
XXHASH = ctypes.CDLL("libxxhash.so.0")
XXHASH.XXH3_64bits.restype = ctypes.c_uint64

FUNCTION, PYTHON, OP = 0, 1, 4  # Kinds of paths.

TAKEN_ONCE = bytes([0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0])  # Numbers of a path.


@functools.cache
def number(value):
    digits = bytearray()
    while value >= 0x80:
        digits.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(digits) + bytes([value])


def text(value):
    value = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
    return number(len(value)) + value


def table(entries):
    return number(len(entries)) + b"".join(entries)


def function(symbol, module=1):
    return number(module) + number(0) + text(symbol) + text("") + number(1) + number(0)


def python_function(name, file="train.py", line=1):
    return text(name) + text(file) + number(line)


def path(what, kind=FUNCTION, parent=None, ops=(), line=0):
    """Returns a path that was taken once; `ops` are the numbers of op records."""
    records = b"".join(number(record) + b"\0\1" for record in ops)
    return (number(kind * 2) + number(0 if parent is None else parent + 1) + number(what + 1) +
            number(line) + TAKEN_ONCE + number(len(ops)) + records + bytes(6))


def compressed(content):
    room = ctypes.create_string_buffer(ZSTD.ZSTD_compressBound(ctypes.c_size_t(len(content))))
    size = ZSTD.ZSTD_compress(room, ctypes.c_size_t(len(room)), content,
                              ctypes.c_size_t(len(content)), 3)
    return room.raw[:size]


def trace(meta=b"{}", modules=(), functions=(), python_functions=(), paths=(), op_records=(),
          threads=1):
    """Returns the bytes of a trace. `meta` is JSON text or a value."""
    meta = meta if isinstance(meta, bytes) else json.dumps(meta).encode()
    sections = [meta, table([text(p) + text("") + number(0) for p in modules]), table(functions),
                table(python_functions), number(0) * 8 + table(paths),
                table([text(record) for record in op_records])]
    sections += [number(7) + number(0) * 3] * threads
    body = b""
    for position, content in enumerate(sections):
        stored = compressed(content)
        body += struct.pack("<IIQQ", min(position + 1, 7), 0, len(stored), len(content)) + stored
    return b"OPTRACE\0" + struct.pack("<IIQ", 7, len(sections), xxh3(body)) + body


def xxh3(content):
    return XXHASH.XXH3_64bits(content, ctypes.c_size_t(len(content)))


def changed_index(content, changes):
    """Returns an index with texts replaced by others, which must not be longer."""
    head = struct.Struct("<8sIIQQQQ")
    magic, version, count, size, start, blocks, _ = head.unpack_from(content)
    data = content[start:]
    for old, new in changes.items():
        assert len(new) <= len(old) and old + b"\0" in data, old
        data = data.replace(old + b"\0", new.ljust(len(old), b"x") + b"\0")
    block = 32 << 10
    checksums = b"".join(struct.pack("<Q", xxh3(data[at:at + block]))
                         for at in range(0, len(data), block))
    assert len(checksums) == 8 * blocks
    table = content[head.size:head.size + 24 * count] + checksums
    padding = content[head.size + len(table):start]
    head_bytes = head.pack(magic, version, count, size, start, blocks, xxh3(table))
    return head_bytes + table + padding + data
