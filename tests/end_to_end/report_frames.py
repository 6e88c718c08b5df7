"""The frames of a report's JSON."""
import json
import re


def frames(report):
    """Yields all frames of a report, parents first."""
    return frames_below(report["roots"])


def frames_below(roots):
    """Yields these frames and all below them, parents first."""
    pending = list(reversed(roots))
    while pending:
        frame = pending.pop()
        yield frame
        pending += reversed(frame["children"])


def frames_with_way(report):
    """Yields each frame with the frames above it, outermost first."""
    pending: list[tuple] = [(root, ()) for root in report["roots"]]
    while pending:
        frame, above = pending.pop()
        yield frame, above
        pending += [(child, (*above, frame)) for child in frame["children"]]


def generated_kernels(report):
    """Yields the frames of kernels that torch.compile generated, if what it fused into them is
    known."""
    return (frame for frame in frames(report)
            if frame["layer"] == "kernel" and "origins" in (frame["detail"] or {}))


def comparable(report):
    """Returns a report without times, addresses, and the ids of threads and processes."""
    def without(value):
        if isinstance(value, dict):
            return {key: len(item) if key == "processes" else without(item)
                    for key, item in value.items() if key not in ("thread", "time")}
        if isinstance(value, list):
            return [without(item) for item in value]
        return re.sub(r"0x[0-9a-f]{6,}", "0x", value) if isinstance(value, str) else value

    roots = without(report["roots"])
    # The order of threads and processes is random.
    roots.sort(key=lambda root: json.dumps(root, sort_keys=True))
    return {**without({key: value for key, value in report.items() if key != "roots"}),
            "roots": roots}
