"""`optrace mcp` answers the client of the package mcp."""
import asyncio
import json
import os
import subprocess
import sys

import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


@pytest.fixture(scope="module")
def ask(optrace, python):
    """ask(call, ...) -> results of call(session), with a server in a process of its own."""

    def run(*calls):
        async def session_of_all():
            server = StdioServerParameters(
                command=optrace.command[0], args=["mcp", "--python", python],
                env={**os.environ, "OPTRACE_OWN_PYTHON": sys.executable})
            async with stdio_client(server) as streams, ClientSession(*streams) as session:
                await session.initialize()
                return [await call(session) for call in calls]

        return asyncio.run(asyncio.wait_for(session_of_all(), 200))

    return run


def tool(tool_name, /, **arguments):
    """A call that returns the text of the tool's answer, after `error: ` if it failed."""

    async def call(session):
        result = await session.call_tool(tool_name, arguments)
        text = "".join(part.text for part in result.content)
        return f"error: {text}" if result.is_error else text

    return call


def test_the_tools_have_descriptions(ask):
    async def tools(session):
        return (await session.list_tools()).tools

    (found,) = ask(tools)
    assert {one.name for one in found} == {"locate", "explain", "trace_op", "report", "findings"}
    for one in found:
        assert one.description
        for name, parameter in one.input_schema["properties"].items():
            assert parameter["description"], (one.name, name)
        assert one.annotations.read_only_hint is (one.name != "trace_op")


def test_names_and_ops_are_answered(ask, validate):
    located, explained, as_json, traced, wrong, option = ask(
        tool("locate", name="torch.matmul"), tool("explain", op="gelu"),
        tool("explain", op="gelu", device="cpu", format="json"),
        tool("trace_op", op="relu", input="torch.ones(2, 3)"),
        tool("locate", name="torch.matmull"), tool("explain", op="--compiled"))
    answer = json.loads(located)
    validate(answer, "locate")
    assert answer["answers"][0]["parts"][1]["name"] == "aten::matmul"
    assert "Dispatch table" in explained and "aten::gelu" in explained
    assert json.loads(as_json)["op"] == "aten::gelu"
    assert "aten::relu" in traced and "at::native::relu" in traced and "2×3" in traced
    assert wrong.startswith("error: ") and "Did you mean torch.matmul" in wrong
    assert option.startswith("error: ") and "not a name or a file" in option


def test_traces_are_answered(ask, optrace, python, validate, tmp_path):
    program = tmp_path / "program.py"
    program.write_text("import torch\nfor _ in range(3):\n    torch.ones(3).cosh()\n")
    trace = tmp_path / "program.trace"
    run = optrace("run", "--python", python, "--trace", trace, "-o", tmp_path / "report", program)
    assert run.returncode == 0, run.stderr
    summary, part, found, rules, missing = ask(
        tool("report", trace=str(trace)),
        tool("report", trace=str(trace), ops=["ones"], format="json"),
        tool("findings", traces=[str(trace)]), tool("findings"),
        tool("report", trace=str(tmp_path / "none")))
    assert "program.py" in summary
    validate(json.loads(part), "report")
    assert "aten::cosh" not in part and "aten::ones" in part
    validate(json.loads(found), "findings")
    assert {"implicit-copy", "host-wait"} <= {rule["name"] for rule in json.loads(rules)["rules"]}
    assert missing.startswith("error: ") and "none" in missing


def test_without_the_package_a_command_is_named(optrace, tmp_path):
    (tmp_path / "mcp.py").write_text("raise ImportError('not here')\n")
    result = optrace("mcp", environment={"OPTRACE_OWN_PYTHON": sys.executable,
                                         "PYTHONPATH": tmp_path})
    assert result.returncode == 1
    assert "-m pip install 'mcp>=2'" in result.stderr
    wrong = subprocess.run([*optrace.command, "mcp", "--python", "/nowhere"], text=True,
                           capture_output=True)
    assert wrong.returncode == 2 and "no such file" in wrong.stderr
