"""`optrace lsp` answers pygls's client."""
import asyncio
import itertools
import json
import pathlib
import subprocess

import pytest
from lsprotocol import types
from pygls.lsp.client import LanguageClient

USAGE = 2
URI = "file:///home/me/model.py"
TEXT = '''"""import torch.nn.functional as G"""
import torch, os
import torch.nn.functional as F
from torch import nn, optim as o
from torch.nn.functional import (
    relu as activation,  # comment
    gelu)
try: from torch import linalg
except ImportError: pass

def forward(x, y):
    ü = "é😀"; x.add_(torch.matmul(x, y))
    F.conv2d(x, y).mul_(2)
    activation(x); gelu(x); linalg.solve(x, y)
    os.path.join("torch.matmul"); G.conv2d(x)  # torch.matmul
    nn.Linear(3, 4); o.SGD; torch.nn.functional.linear
    torch.ops.aten.add.Tensor(x, y)
    print(f"{x}" "😀"), "".join(x)
'''


class Editor:
    """A file that is open in an editor, which the language server knows."""

    def __init__(self, client, text):
        self.client, self.lines = client, text.splitlines()

    def position(self, name, inside):
        """The place of `inside` in the first occurrence of `name` outside of the first line."""
        number, line = next((number, line) for number, line in enumerate(self.lines)
                            if number and name in line)
        before = line[:line.index(name) + name.index(inside) + 1]
        return types.Position(number, len(before.encode("utf-16-le")) // 2)

    async def hover(self, name, inside=None):
        answer = await self.client.text_document_hover_async(types.HoverParams(
            types.TextDocumentIdentifier(URI), self.position(name, inside or name)))
        if answer is None:
            return None
        start, end = answer.range.start, answer.range.end
        units = self.lines[start.line].encode("utf-16-le")[2 * start.character:2 * end.character]
        assert units.decode("utf-16-le") == (inside or name).rsplit(".", 1)[-1]
        return answer.contents.value

    async def definitions(self, name, inside=None):
        found = await self.client.text_document_definition_async(types.DefinitionParams(
            types.TextDocumentIdentifier(URI), self.position(name, inside or name)))
        places = [(pathlib.Path(place.uri.removeprefix("file://")), place.range.start.line + 1)
                  for place in found]
        assert all(file.is_file() for file, _ in places)
        return places


def in_editor(optrace, python, session, text=TEXT):
    """Runs session(editor) with a server that has opened the text."""

    async def run():
        client = LanguageClient("test", "1")
        await client.start_io(*optrace.command, "lsp", "--python", python)
        answer = await client.initialize_async(types.InitializeParams(types.ClientCapabilities()))
        assert answer.capabilities.hover_provider and answer.server_info.name == "optrace"
        client.initialized(types.InitializedParams())
        client.text_document_did_open(types.DidOpenTextDocumentParams(
            types.TextDocumentItem(URI, "python", 1, text)))
        result = await session(Editor(client, text))
        await client.shutdown_async(None)
        client.exit(None)
        await client.stop()
        return result

    return asyncio.run(asyncio.wait_for(run(), 120))


def test_hover_shows_binding_kernels_and_derivative(optrace, python):
    async def session(editor):
        names = ("torch.matmul", "F.conv2d", "x.add_", "activation(", "gelu(", "linalg.solve",
                 "conv2d(x, y).mul_", "nn.Linear", "o.SGD", "torch.ops.aten.add.Tensor")
        return {name: await editor.hover(name, name.rstrip("(").rsplit(".")[-1]) for name in names}

    found = in_editor(optrace, python, session)
    matmul = found["torch.matmul"]
    assert matmul.startswith("**python builtin** `torch.matmul`\n")
    assert "binding `torch::autograd::THPVariable_matmul` `torch/csrc/autograd/generated/" in matmul
    assert "`matmul(Tensor self, Tensor other) -> Tensor`" in matmul
    assert "| CompositeImplicitAutograd | `at::native::matmul` | [`aten/src/ATen/native/" \
        "LinearAlgebra.cpp:2180`](https://github.com/pytorch/pytorch/blob/" in matmul
    add = found["x.add_"]
    assert "`torch.Tensor.add_`" in add and "derivative `AddBackward0`" in add
    assert "- `other`: `handle_r_to_c(other.scalar_type(), maybe_multiply(grad, alpha.conj()))`" \
        in add
    assert "| MkldnnCPU | `at::native::mkldnn_add_` |" in add
    assert "aten::conv2d" in found["F.conv2d"]
    assert "torch.nn.functional.relu" in found["activation("]
    assert "aten::gelu" in found["gelu("] and "aten::linalg_solve" in found["linalg.solve"]
    assert "`torch.Tensor.mul_`" in found["conv2d(x, y).mul_"]
    assert "torch/nn/modules/linear.py:" in found["nn.Linear"]
    assert "torch.optim.sgd.SGD" in found["o.SGD"]
    assert "aten::add.Tensor" in found["torch.ops.aten.add.Tensor"]


def test_what_is_not_a_name_of_torch_has_no_answer(optrace, python):
    async def session(editor):
        return [await editor.hover(name, inside) for name, inside in (
            ("os.path.join", "join"), ('"torch.matmul"', "matmul"), ("# torch.matmul", "matmul"),
            ("G.conv2d", "G"), ("print", "print"), ("def forward", "def"), ('"".join', "join"))]

    assert in_editor(optrace, python, session) == [None] * 7


def test_definitions_are_files_that_exist(optrace, python, torch_folder):
    packages = torch_folder.parent

    async def session(editor):
        return (await editor.definitions("nn.Linear", "Linear"),
                await editor.definitions("torch.matmul", "matmul"),
                await editor.definitions("nn.Linear", "nn"),
                await editor.definitions("print"))

    linear, matmul, nn, nothing = in_editor(optrace, python, session)
    (file, line), = linear
    assert file == packages / "torch/nn/modules/linear.py"
    assert file.read_text().splitlines()[line - 1].startswith("class Linear")
    yaml = packages / "torchgen/packaged/ATen/native/native_functions.yaml"
    for file, line in matmul:
        assert "matmul" in file.read_text().splitlines()[line - 1]
    assert yaml in {file for file, _ in matmul} or len(matmul) > 1
    assert nn == [(packages / "torch/nn/__init__.py", 1)]
    assert nothing == []


def test_a_change_counts_at_once(optrace, python):
    async def session(editor):
        before = await editor.hover("F.conv2d", "conv2d")
        editor.lines = ["", "import numpy as F", "F.conv2d"]
        editor.client.text_document_did_change(types.DidChangeTextDocumentParams(
            types.VersionedTextDocumentIdentifier(2, URI),
            [types.TextDocumentContentChangeWholeDocument("\n".join(editor.lines))]))
        after = await editor.hover("F.conv2d", "conv2d")
        editor.client.text_document_did_close(types.DidCloseTextDocumentParams(
            types.TextDocumentIdentifier(URI)))
        return before, after, await editor.hover("F.conv2d", "conv2d")

    before, after, closed = in_editor(optrace, python, session)
    assert before and after is None and closed is None


def message(content, **header):
    text = content if isinstance(content, str) else json.dumps(content)
    return f"Content-Length: {header.get('length', len(text.encode()))}\r\n\r\n{text}".encode()


def exchange(optrace, python, sent):
    """Returns the answers to what is sent, and the exit status with standard error."""
    ended = subprocess.run([*optrace.command, "lsp", "--python", python], input=sent, timeout=600,
                           capture_output=True)
    answers, rest = [], ended.stdout
    while rest:
        header, rest = rest.split(b"\r\n\r\n", 1)
        length = int(header.removeprefix(b"Content-Length: "))
        answers.append(json.loads(rest[:length]))
        rest = rest[length:]
    return answers, ended.returncode, ended.stderr.decode()


def test_wrong_messages_are_answered(optrace, python):
    request = itertools.count(1)

    def ask(method, **parameters):
        return message({"jsonrpc": "2.0", "id": next(request), "method": method,
                        "params": parameters})

    hover = {"textDocument": {"uri": URI}, "position": {"line": 10**12, "character": 0}}
    sent = [ask("shutdown"), message("{"), message([1]), message("[" * 1000),
            ask("initialize", capabilities={"general": {"positionEncodings": ["utf-8"]}}),
            message({"method": "textDocument/didOpen", "params": {}}),
            ask("textDocument/hover", **hover), ask("textDocument/hover", position=3),
            message({"method": "textDocument/didOpen", "params": {
                "textDocument": {"uri": URI, "text": "import torch\nü=torch.add"}}}),
            ask("textDocument/hover", textDocument={"uri": URI},
                position={"line": 1, "character": 10}),
            ask("textDocument/hover", **hover), ask("unknown"), ask("shutdown"),
            message({"method": "exit"}), ask("initialize")]
    answers, status, errors = exchange(optrace, python, b"".join(sent))
    assert (status, errors) == (0, "")
    codes = [answer["error"]["code"] if "error" in answer else answer["result"]
             for answer in answers]
    assert codes[:4] == [-32002, -32700, -32600, -32700]
    assert codes[4]["capabilities"]["positionEncoding"] == "utf-8"
    assert codes[5:7] == [None, -32602]
    assert codes[7]["range"]["start"] == {"line": 1, "character": 9}
    assert codes[8:] == [None, -32601, None]


@pytest.mark.parametrize("sent, reason", [
    (b"GET / HTTP/1.1\r\n", "not a message's header"),
    (b"Content-Length: x\r\n\r\n", "not a valid length"),
    (b"Content-Length: 99999999999\r\n\r\n", "not a valid length"),
    (b"Other: 3\r\n\r\n{}", "no Content-Length"), (b"x" * 5000, "too long")])
def test_what_is_not_the_protocol_is_refused(optrace, python, sent, reason):
    answers, status, errors = exchange(optrace, python, sent)
    assert (answers, status) == ([], USAGE)
    assert reason in errors and "docs/editors.md" in errors
