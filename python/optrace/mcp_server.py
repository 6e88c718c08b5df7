"""Serves the answers of the command `optrace` to coding assistants (Model Context Protocol).

`optrace mcp` runs this file. It needs the package mcp (`pip install 'optrace[mcp]'`). Each tool
runs the command once. docs/editors.md is the reference.
"""
from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Annotated, Literal, Optional

try:
    import anyio
    from mcp.server.mcpserver import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
    from mcp_types import ToolAnnotations
    from pydantic import Field
except ImportError as error:
    sys.exit(f"optrace: the package mcp is missing or too old ({error})\n"
             f"Install it: {sys.executable} -m pip install 'mcp>=2'")

_INSTRUCTIONS = """\
optrace knows what runs below a PyTorch call, for the torch that is installed here. Use locate to
find the C++ and Python definitions of a name, explain for an op's kernels, derivative and call
paths without running it, trace_op to run an op and see the calls below it, and report and findings
for traces that `optrace run --trace FILE` wrote."""
_LONGEST = 100_000  # Characters of an answer; more does not fit into an assistant's context.
_READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_RUNS = ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=False)

# The parameters of the tools. The descriptions are for the assistant.
_Format = Annotated[Literal["text", "json"], Field(
    description="text to read, or json with all details")]
_Name = Annotated[str, Field(
    description="torch.matmul, nn.Linear, aten::add.Tensor, at::native::convolution, add_stub, a "
                "mangled symbol")]
_Limit = Annotated[int, Field(ge=1, le=100, description="maximum number of answers")]
_Op = Annotated[str, Field(description="an op in any spelling: conv2d, torch.add, Tensor.add_, "
                                       "aten::mm.out")]
_Devices = Annotated[str, Field(description="only cpu, cuda, meta, ...; empty: the usual ones")]
_Backend = Annotated[str, Field(
    description="only the functions that decide whether the op runs on it: cudnn, mkldnn, flash")]
_Call = Annotated[str, Field(description="an op or module: conv2d, F.gelu, nn.Linear(8, 4)")]
_Input = Annotated[str, Field(
    description="the arguments as Python code, torch.randn(2, 3), dim=1; empty: a sample call")]
_Shapes = Annotated[Optional[list[str]], Field(
    description="shapes of tensors of the sample call: 1x3x8x8, weight=2x3")]
_Dtypes = Annotated[Optional[list[str]], Field(
    description="dtypes of tensors of the sample call: float16, weight=float16")]
_Device = Annotated[Literal["cpu", "cuda"], Field(
    description="cuda is emulated where there is no GPU")]
_Backward = Annotated[bool, Field(description="also run the backward pass")]
_Why = Annotated[bool, Field(description="show why the dispatcher chose each kernel")]
_Trace = Annotated[str, Field(description="a file that `optrace run --trace FILE` wrote")]
_Traces = Annotated[Optional[list[str]], Field(
    description="files that `optrace run --trace FILE` wrote; none: list the rules")]
_Under = Annotated[Optional[list[str]], Field(
    description="only calls of an op, of a function, or from a line: train.py:17")]
_Ops = Annotated[Optional[list[str]], Field(
    description="only ops of this name; * matches any characters")]
_Depth = Annotated[Optional[int], Field(ge=1, description="maximum number of levels of calls")]
_Top = Annotated[Optional[int], Field(
    ge=1, description="only this number of frames, those with the most time of their own")]
_ReportFormat = Annotated[Literal["summary", "text", "json"], Field(
    description="summary: one screen; text: the tree")]
_Ignored = Annotated[Optional[list[str]], Field(description="names of rules to leave out")]


def _options(**values: object) -> list[str]:
    """Returns --name=value for each value that is given, several for a list."""
    words = []
    for name, value in values.items():
        option = "--" + name.replace("_", "-")
        for one in value if isinstance(value, list) else [value]:
            if one is True:
                words.append(option)
            elif one not in (None, False, ""):
                words.append(f"{option}={one}")
    return words


class _Command:
    """The command, and the Python that has torch."""

    def __init__(self, program: str, python: str | None):
        self.program = program
        self.python = _options(python=python)

    async def answer(self, words: Sequence[str], positional: Sequence[str]) -> str:
        """Runs the command and returns its standard output, JSON without indentation.

        `words` are the subcommand and its options. `positional` are its arguments, none of which is
        taken for an option. Raises ToolError with the command's message if it fails.
        """
        for word in positional:
            if not word or word.startswith("-") or "\0" in word:
                raise ToolError(f"not a name or a file: {word!r}")
        ended = await anyio.run_process([self.program, *words, "--", *positional],
                                        stdin=subprocess.DEVNULL, check=False)
        output = ended.stdout.decode(errors="replace")
        if ended.returncode != 0:
            raise ToolError(ended.stderr.decode(errors="replace").strip()
                            or f"optrace ended with status {ended.returncode}")
        if "--format=json" in words:
            output = json.dumps(json.loads(output), separators=(",", ":"), ensure_ascii=False)
            if len(output) > _LONGEST:
                raise ToolError(f"the answer has {len(output)} characters: ask for a smaller part, "
                                "or for text instead of JSON")
        if len(output) > _LONGEST:
            return (f"{output[:_LONGEST]}\n[{len(output) - _LONGEST} more characters: ask for a "
                    "smaller part]")
        return output


def make_server(program: str, python: str | None = None) -> MCPServer:
    """Returns a server that runs `program`, the command, with `python`, the Python with torch."""
    server = MCPServer("optrace", instructions=_INSTRUCTIONS)
    command = _Command(program, python)

    @server.tool(annotations=_READS, structured_output=False)
    async def locate(name: _Name, limit: _Limit = 10, format: _Format = "json") -> str:
        """Where a name of PyTorch is defined in Python and C++: files, lines, bindings, kernels."""
        return await command.answer(
            ["locate", *_options(limit=limit, format=format), *command.python], [name])

    @server.tool(annotations=_READS, structured_output=False)
    async def explain(op: _Op, device: _Devices = "", why_not: _Backend = "",
                      format: _Format = "text") -> str:
        """An op's schema, kernels by dispatch key, derivative, call paths; it is not run."""
        return await command.answer(
            ["explain", *_options(device=device, why_not=why_not, format=format), *command.python],
            [op])

    @server.tool(annotations=_RUNS, structured_output=False)
    async def trace_op(op: _Call, input: _Input = "", shape: _Shapes = None, dtype: _Dtypes = None,
                       device: _Device = "cpu", backward: _Backward = False, why: _Why = False,
                       format: _Format = "text") -> str:
        """Runs an op in a process of its own and returns the calls below it, from Python to the
        last library call, with files and lines. Runs the Python code in `op` and `input`."""
        options = _options(input=input, shape=shape, dtype=dtype, device=device, backward=backward,
                           why=why and format == "text", format=format)
        return await command.answer([*options, *command.python], [op])

    @server.tool(annotations=_READS, structured_output=False)
    async def report(trace: _Trace, under: _Under = None, ops: _Ops = None, depth: _Depth = None,
                     top: _Top = None, format: _ReportFormat = "summary") -> str:
        """A saved trace, or a part of it."""
        options = _options(under=under, ops=ops, depth=depth, top=top, format=format)
        return await command.answer(["report", *options], [trace])

    @server.tool(annotations=_READS, structured_output=False)
    async def findings(traces: _Traces = None, ignore: _Ignored = None,
                       format: _Format = "json") -> str:
        """What makes a program slow, at which of its lines, why, and what to do."""
        return await command.answer(["findings", *_options(ignore=ignore, format=format)],
                                    traces or [])

    return server


def main() -> None:
    parser = argparse.ArgumentParser(prog="optrace mcp")
    parser.add_argument("--command", required=True, metavar="FILE", help="the command optrace")
    parser.add_argument("--python", metavar="PATH", help="the Python that has torch")
    arguments = parser.parse_args()
    make_server(arguments.command, arguments.python).run()


if __name__ == "__main__":
    main()
