"""Reads the functions of an ELF file, independently of optrace's and gdb's code."""
import mmap
import struct

_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_FUNCTIONS = (2, 10)  # STT_FUNC, STT_GNU_IFUNC
_SYMTAB, _DYNSYM = 2, 11


class Symbols:
    def __init__(self, path):
        self.addresses = {}  # name -> addresses as linked; local functions may share a name
        self.names = {}  # address -> names
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            self._read(data)

    def _read(self, data):
        assert data[:4] == b"\x7fELF"
        offset, = struct.unpack_from("<Q", data, 40)
        size, count = struct.unpack_from("<HH", data, 58)
        sections = [_SECTION.unpack_from(data, offset + size * i) for i in range(count)]
        tables = ([s for s in sections if s[1] == _SYMTAB]
                  or [s for s in sections if s[1] == _DYNSYM])
        for _, _, _, _, start, length, link, *_ in tables:
            names = data[sections[link][4]:sections[link][4] + sections[link][5]]
            for name, info, _, section, value, _ in _SYMBOL.iter_unpack(data[start:start + length]):
                if info & 15 not in _FUNCTIONS or section == 0 or value == 0:
                    continue
                text = names[name:names.index(b"\0", name)].decode()
                self.addresses.setdefault(text, []).append(value)
                self.names.setdefault(value, []).append(text)

    def aliases(self, symbol):
        """Returns all names that share an address with `symbol` or with another returned name.

        A linker that folds identical code gives several local functions of one name the addresses
        of others, so a name alone is ambiguous.
        """
        found, waiting = {symbol}, [symbol]
        while waiting:
            for address in self.addresses.get(waiting.pop(), ()):
                more = set(self.names[address]) - found
                found |= more
                waiting += more
        return found
