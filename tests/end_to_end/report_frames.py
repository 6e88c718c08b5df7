"""The frames of a report's JSON."""


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
