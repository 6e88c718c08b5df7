"""Runs inside gdb (13 or later): writes gdb's frames at given functions.

    gdb -nx -batch -iex "set auto-load off" -x gdb_session.py --args python gdb_target ...

$OPTRACE_TRUTH_REQUEST is a JSON file: {"libraries": [regular expressions of the files whose symbols
are needed], "cases": [[[library file name, address as linked], ...], ...], "answer": FILE}. The
answer is a list for each case: the stops in their order, each {"at": address as linked, "frames":
[[function, library], ...]}, innermost first, as gdb names them.
"""
import json
import os

import gdb

SETTINGS = (
    "pagination off", "confirm off", "debuginfod enabled off",
    "auto-solib-add off", "print demangle off", "print asm-demangle off",
    "backtrace past-main on", "backtrace past-entry on", "backtrace limit unlimited",
    "breakpoint always-inserted on", "print thread-events off", "print inferior-events off")
DEEPEST = 2000


class Modules:
    """The files that the stopped program has mapped, and their addresses."""

    def __init__(self, process):
        self._spans = []  # (first, last, file name)
        self._bases = {}
        with open("/proc/%d/maps" % process, encoding="utf-8") as maps:
            for line in maps:
                addresses, _, rest = line.partition(" ")
                path = rest.rstrip("\n").partition("/")[2]
                if not path:
                    continue
                first, last = (int(text, 16) for text in addresses.split("-"))
                name = os.path.basename(path)
                self._spans.append((first, last, name))
                if name not in self._bases:
                    self._bases[name] = first - first_address("/" + path)

    def run_time(self, name, address):
        return self._bases[name] + address

    def as_linked(self, address):
        return address - self._bases[self.at(address)]

    def at(self, address):
        for first, last, name in self._spans:
            if first <= address < last:
                return name
        return None


def first_address(path):
    """Returns the page-aligned link address of an ELF file's first loadable segment, 0 if none."""
    with open(path, "rb") as file:
        header = file.read(64)
        if header[:4] != b"\x7fELF":
            return 0
        offset = int.from_bytes(header[32:40], "little")
        size = int.from_bytes(header[54:56], "little")
        for index in range(int.from_bytes(header[56:58], "little")):
            file.seek(offset + index * size)
            segment = file.read(size)
            if int.from_bytes(segment[:4], "little") == 1:  # PT_LOAD
                return int.from_bytes(segment[16:24], "little") & ~0xFFF
    return 0


def frames(modules, known):
    """Returns real frames only. If the interpreter has debug information, gdb also shows inlined
    functions and guessed tail callers, which have no frame.

    `known` keeps the names: (address, whether an outer frame is there) -> [function, library]. In
    an outer frame gdb names the function of the call, which ends just before the address.
    """
    found = []
    frame = gdb.newest_frame()
    while frame is not None and len(found) < DEEPEST:
        if frame.type() not in (gdb.INLINE_FRAME, gdb.TAILCALL_FRAME):
            key = frame.pc(), bool(found)
            if key not in known:
                known[key] = [frame.name(), modules.at(key[0])]
            found.append(known[key])
        frame = frame.older()
    return found


def main():
    with open(os.environ["OPTRACE_TRUTH_REQUEST"], encoding="utf-8") as file:
        request = json.load(file)
    for setting in SETTINGS:
        gdb.execute("set " + setting)
    gdb.execute("handle SIGUSR1 stop print nopass", to_string=True)
    gdb.execute("run", to_string=True)
    process = gdb.selected_inferior().pid
    assert process, "the program ended before it was ready"
    modules = Modules(process)
    for pattern in request["libraries"]:
        gdb.execute("sharedlibrary " + pattern, to_string=True)
    start = gdb.Breakpoint("optrace_truth_start")
    stop = gdb.Breakpoint("optrace_truth_stop")
    answer, known = [], {}
    for case in request["cases"]:
        gdb.execute("continue", to_string=True)
        assert gdb.newest_frame().name() == start.location, gdb.newest_frame().name()
        leaves = [gdb.Breakpoint("*%d" % modules.run_time(*leaf)) for leaf in case]
        stops = []
        while True:
            gdb.execute("continue", to_string=True)
            if gdb.newest_frame().name() == stop.location:
                break
            stops.append({"at": modules.as_linked(gdb.newest_frame().pc()),
                          "frames": frames(modules, known)})
        for leaf in leaves:
            leaf.delete()
        answer.append(stops)
    gdb.execute("kill", to_string=True)
    with open(request["answer"], "w", encoding="utf-8") as file:
        json.dump(answer, file)


try:
    main()
except Exception as error:  # gdb would continue after a Python error and exit with 0.
    print("gdb_session: %s: %s" % (type(error).__name__, error))
    gdb.execute("quit 1")
