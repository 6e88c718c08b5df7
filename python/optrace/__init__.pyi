import os
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Literal, TypedDict

__all__ = ["Check", "Error", "Frame", "Trace", "__version__", "listen", "load", "step", "trace"]

__version__: str

class Error(Exception):
    """Raised for every failure. `what` is the problem and `remedy` its solution; str() has both."""

    what: str
    remedy: str
    def __init__(self, what: str, remedy: str = "") -> None: ...

class _CallRange(TypedDict):
    """The part of a Python parent's code that makes the call. It starts at `column` of the call's
    line. Columns are in bytes of UTF-8, from 1; `end_column` is exclusive."""

    column: int
    end_line: int
    end_column: int

class _LineBounds(TypedDict, total=False):
    """The first and the last line among which an approximate line lies, if they are known."""

    interval: list[int]
    call_interval: list[int]

class _Source(_LineBounds):
    """The places of a frame's function definition and of the call in its parent."""

    file: str | None
    line: int | None
    exact: bool | None
    call_line: int | None
    call_exact: bool | None
    call_range: _CallRange | None
    url: str | None

_Layer = Literal[
    "python", "binding", "dispatcher", "autograd", "kernel", "library", "device", "runtime"
]

class Frame:
    """A step on a call path. A path that was taken several times is one frame with a count."""

    @property
    def layer(self) -> _Layer: ...
    @property
    def name(self) -> str: ...
    @property
    def symbol(self) -> str | None: ...
    @property
    def library(self) -> str | None: ...
    @property
    def op(self) -> str | None: ...
    @property
    def source(self) -> _Source | None: ...
    @property
    def thread(self) -> int: ...
    @property
    def calls(self) -> int: ...
    @property
    def detail(self) -> dict[str, Any] | None: ...
    @property
    def children(self) -> list[Frame]: ...
    def __repr__(self) -> str: ...

class Check:
    """The result of checking a trace against rules. True if all hold; str() is the text report."""

    @property
    def status(self) -> Literal["passed", "failed", "error"]: ...
    @property
    def passed(self) -> bool: ...
    @property
    def rules(self) -> list[dict[str, Any]]: ...
    def report(
        self, format: Literal["text", "json", "junit", "sarif", "github"] = "text"
    ) -> str: ...
    def __bool__(self) -> bool: ...

_Rule = str | os.PathLike[str] | dict[str, Any]
_Rules = _Rule | Sequence[_Rule]

class Trace:
    """The trace of a `with optrace.trace()` block, or of a file that was loaded."""

    def __enter__(self) -> Trace: ...
    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def report(self, format: Literal["text", "json"] = "text", *, all: bool = False) -> str: ...
    def to_json(self, *, all: bool = False) -> str: ...
    def check(
        self, rules: _Rules, *, allow_unknown: bool = False, all: bool = False
    ) -> Check: ...
    @property
    def frames(self) -> list[Frame]: ...
    def save(self, path: str | os.PathLike[str]) -> None: ...
    def _repr_html_(self) -> str: ...

def trace(
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
def step() -> None:
    """Marks the end of a step of the program for `optrace run --from-step`; else does nothing."""

def listen() -> str:
    """Lets `optrace attach` trace this process without ptrace until it ends. Returns the path of
    the socket."""

def load(path: str | os.PathLike[str]) -> Trace: ...
