"""Tells which neighbours in Inductor's schedule of a graph were not fused, and Inductor's reason.

A node of the schedule becomes a kernel, or a call of an extern kernel: a library's function or an
op, with which Inductor fuses nothing. Two nodes are neighbours if one reads a buffer that the other
writes. Inductor has reasons only for some of the pairs that it considers.
"""

_MOST_REASONS = 20000  # Of one graph.
_MOST_PAIRS = 200  # Of one graph.
_LONGEST = 1000  # Characters of a text.


class Schedule:
    """The schedule of one graph."""

    def __init__(self):
        self._kernels = {}  # Names, by the ops that they compute.
        self._reasons = {}  # By pairs of the names of nodes.
        self._nodes = []
        self.not_fused = []  # Known after end().

    def record_kernel(self, name, nodes):
        """The nodes of a schedule have become a kernel."""
        for node in nodes:
            for op in _ops(node):
                self._kernels[op] = name

    def record_nodes(self, nodes):
        """These are the nodes after all fusions."""
        self._nodes += [_Node(node) for node in nodes]

    def record_reason(self, pair, reason, arguments):
        """`pair` is Inductor's object for two nodes that it does not fuse."""
        names = tuple(getattr(pair, "name%d" % i, None) or getattr(pair, "node%d" % i).get_name()
                      for i in (1, 2))
        if len(self._reasons) < _MOST_REASONS:
            self._reasons.pop(names, None)
            self._reasons[names] = reason, arguments

    def end(self):
        """All kernels of the graph are known."""
        try:
            self._find_neighbours()
        except Exception:  # Another version's nodes.
            pass
        self._nodes, self._reasons = [], {}

    def _find_neighbours(self):
        known = {}
        writers = {}  # By buffer.
        for consumer in self._nodes:
            producers = [writers[buffer] for buffer in consumer.reads if buffer in writers]
            # A node that only takes one of several results has no kernel.
            writer = producers[0] if consumer.takes_result and producers else consumer
            writers.update(dict.fromkeys(consumer.writes, writer))
            for producer in producers:
                pair = self._name(producer), self._name(writer)
                if None in pair or pair[0] == pair[1] or producer.extern and writer.extern:
                    continue
                if len(known) < _MOST_PAIRS or pair in known:
                    found = known.setdefault(pair, {"producer": pair[0], "consumer": pair[1]})
                    if producer.extern or writer.extern:
                        found["extern"] = True
                    elif "reason" not in found:
                        found.update(self._reason(producer, writer))
        self.not_fused = list(known.values())

    def _name(self, node):
        return node.extern or next((self._kernels[op] for op in node.ops if op in self._kernels),
                                   None)

    def _reason(self, *nodes):
        """The last reason for parts of the two nodes."""
        for names, (reason, arguments) in reversed(self._reasons.items()):
            first, second = (set(name.split("_")) for name in names)
            if any(first <= one.ops and second <= other.ops for one, other in (nodes, nodes[::-1])):
                return {"reason": str(reason % arguments)[:_LONGEST]}
        return {}


class _Node:
    """A node of a schedule: its ops, the buffers that it uses, and the name of an extern kernel."""

    def __init__(self, node):
        self.ops = set(_ops(node))
        self.reads = [dependency.name for dependency in node.read_writes.reads]
        self.writes = [dependency.name for dependency in node.read_writes.writes]
        self.extern = _extern_kernel(node.node) if node.is_extern() else None
        self.takes_result = type(node.node).__name__ == "MultiOutput"


def _ops(node):
    return [part.get_name() for part in node.get_nodes()] if hasattr(node, "get_nodes") else []


def _extern_kernel(node):
    name = getattr(node, "python_kernel_name", None) or getattr(node, "op_overload", None)
    return str(name or type(node).__name__)[:_LONGEST]
