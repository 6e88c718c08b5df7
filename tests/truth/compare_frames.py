"""Compares optrace's native frames with gdb's, name by name.

A chain is the frames of one stop, innermost first, each (symbol, library file name). Only frames
that an unwinder can't see are left out of optrace's: those that their child marks as tail callers.
"""
import collections
import os
import re

import elf_symbols

Difference = collections.namedtuple("Difference", "kind chain detail")


def native_chains(report):
    """Yields (frame, chain, calls, tail_callers) for each native frame entered while recording.

    `frame` is from the report; `tail_callers` are the frames left out of the chain. Inlined
    functions, which debug info of the interpreter gives, have no frame of their own.
    """
    stack: list[tuple] = [(frame, (), ()) for frame in reversed(report["roots"])]
    while stack:
        frame, above, left_out = stack.pop()
        chain = above
        detail = frame["detail"] or {}
        if frame["layer"] != "python" and not detail.get("inlined"):
            if detail.get("tail_call"):
                left_out = (above[0], *left_out)
                above = above[1:]
            chain = ((frame["symbol"], frame["library"]), *above)
            if not detail.get("entered_before_recording"):
                yield frame, chain, frame["calls"], left_out
        stack.extend((child, chain, left_out) for child in reversed(frame["children"]))


def end_points(report):
    """Returns (symbol, library) of the library calls and the leaves, where gdb is to stop."""
    points = set()
    for frame, chain, _, _ in native_chains(report):
        if frame["layer"] in ("python", "runtime") or (frame["detail"] or {}).get("calls_at_least"):
            continue  # Frames without a probe are compared in the chains of the frames below.
        if frame["layer"] == "library" or not any(
                child["layer"] != "python" for child in frame["children"]):
            points.add(chain[0])
    return points


_CLONE = re.compile(r"(\.(constprop|isra|part)\.\d+)+$")


class Names:
    """The names that mean the same function: aliases of an address, and a part that GCC moved."""

    def __init__(self, paths):
        self._paths = {os.path.basename(path): path for path in paths}
        self._symbols = {}
        self._known = {}

    def symbols(self, library):
        if library not in self._symbols:
            path = self._paths.get(library)
            self._symbols[library] = elf_symbols.Symbols(path) if path else None
        return self._symbols[library]

    def same(self, frame):
        """Returns the same (symbol, library) for all names of a function."""
        frame = tuple(frame)
        if frame not in self._known:
            symbol, library = frame
            if symbol is not None:
                symbol = symbol.split(".cold", 1)[0]
                if library.startswith(("libpython", "python")):
                    # gdb reads its debug information, where GCC's clones have the original's name.
                    symbol = _CLONE.sub("", symbol)
                symbols = self.symbols(library)
                if symbols:
                    symbol = min(symbols.aliases(symbol))
            self._known[frame] = (symbol, library)
        return self._known[frame]

    def is_only_one(self, frame):
        """Returns False if several functions of a library have that name."""
        symbol, library = frame
        symbols = self.symbols(library)
        return symbols is None or len(symbols.addresses.get(symbol, ())) <= 1

    def chain(self, frames):
        """Returns the chain below main; above it, gdb may use debug files of the system."""
        frames = list(frames)
        while frames and (frames[-1][0] in (None, "_start", "main")
                          or (frames[-1][1] or "").startswith("libc.so")):
            frames.pop()
        return tuple(self.same(frame) for frame in frames)


def compare(report, points, stops, names):
    """Returns (chains compared, tail callers left out, stops left out, stops that gdb can't unwind,
    [Difference]) of one case.

    `stops` are gdb's at `points`, each {"at": address, "frames": [[symbol, library], ...]},
    innermost first. gdb stops at all functions of a name, but optrace may have probed only some of
    them: stops at an address without any chain of optrace are left out. MKL's hand-written code has
    no unwind information, so gdb finds frames without a name above it. The frames inside of these
    must be the innermost frames of one of optrace's chains.
    """
    ours, tail_callers = collections.Counter(), 0
    for _, chain, calls, left_out in native_chains(report):
        if chain[0] in points:
            ours[names.chain(chain)] += calls
            tail_callers += calls * len(left_out)
    stopped = [(names.chain(stop["frames"]), stop["at"]) for stop in stops]
    probed = {(chain[0], at) for chain, at in stopped if chain in ours}
    theirs = collections.Counter(chain for chain, at in stopped
                                 if (chain[0], at) in probed or names.is_only_one(chain[0]))
    unprobed = len(stops) - sum(theirs.values())
    same = sum((ours & theirs).values())
    # The frames cut off above these have no name; in other chains they are main and its callers.
    cut = {chain for (chain, _), stop in zip(stopped, stops)
           if len(chain) < len(stop["frames"]) and stop["frames"][len(chain)][0] is None}
    astray = 0
    for chain in (theirs - ours).elements():
        full = next((other for other in ours - theirs
                     if chain in cut and other[:len(chain)] == chain), None)
        if full is not None:
            ours[full] -= 1
            theirs[chain] -= 1
            astray += 1
    differences = []
    missing, extra = list((ours - theirs).elements()), list((theirs - ours).elements())
    for chain in missing:
        near = max((other for other in extra if other[0] == chain[0]),
                   key=lambda other: (common(chain, other), -len(other)), default=None)
        if near is None:
            differences.append(Difference("only optrace's", chain, "gdb never stopped there so"))
            continue
        extra.remove(near)
        differences.append(differ(chain, near))
    differences += [Difference("only gdb's", chain, "optrace has no such path") for chain in extra]
    return same, tail_callers, unprobed, astray, differences


def common(left, right):
    """Returns how many of the innermost frames are the same."""
    count = 0
    for one, other in zip(left, right):
        if one != other:
            break
        count += 1
    return count


def differ(ours, theirs):
    at = common(ours, theirs)
    mine = ours[at] if at < len(ours) else None
    its = theirs[at] if at < len(theirs) else None
    if its is not None and its in ours[at:]:
        kind = "a frame that gdb lacks"
    elif mine is not None and mine in theirs[at:]:
        kind = "a frame that optrace lacks"
    else:
        kind = "another name"
    return Difference(kind, ours, f"frame {at}: optrace {mine}, gdb {its}")
