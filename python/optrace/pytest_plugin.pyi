from . import Check, Trace, _Rules

class Tracer:
    """The value of the fixture `optrace`."""

    def trace(
        self,
        *,
        ops: str | None = None,
        from_module: str | None = None,
        skip: int = 0,
        count: int = 0,
        timeline: bool = False,
        op_records: bool = True,
        python_frames: bool = True,
        outer_frames: bool = True,
        buffer_bytes: int = 33554432,
        memory_bytes: int = 1073741824,
    ) -> Trace: ...
    def check(self, trace: Trace, expect: _Rules, *, allow_unknown: bool = False) -> Check: ...
