"""Names that could control a terminal, hide text, give commands to a CI runner or break a file
format: each output is read by a parser that is not optrace's own, and shows them as escapes.
"""
import html.parser
import json
import os
import re
import subprocess
import unicodedata
import urllib.parse
import xml.etree.ElementTree

import html5lib
import pydantic_sarif.model
import pytest

from hostile_files import OP, PYTHON, changed_index, function, path, python_function, trace
from page_data import page_data, page_in_frame
from report_frames import frames

PASSED, FAILED, USAGE = 0, 1, 2

# Contents of each name -> their form in the output.
SHOWN = {
    "\x1b]0;title\x07": "\\x1b]0;title\\x07", "\x1b[2J": "\\x1b[2J", "\x00": "\\x00", "\r": "\\x0d",
    "\n::error::x": "\\x0a::error::x", "\x7f": "\\x7f", "\x9b": "\\x9b", "\xad": "\\xad",
    "\u061c": "\\u061c", "\u200b": "\\u200b", "\u200e": "\\u200e", "\u2028": "\\u2028",
    "\u202e": "\\u202e", "\u2060": "\\u2060", "\u2067": "\\u2067", "\ufeff": "\\ufeff",
    "\ufffe": "\\ufffe", "\uffff": "\\uffff", "\U000e0041": "\\U000e0041", "\udc80": "\\udc80",
    "\U0001ffff": "\\U0001ffff", "<script>": "<script>", "]]>": "]]>", "&\"'": "&\"'",
    "\u00e9\u4e2d\U0001f600": "\u00e9\u4e2d\U0001f600", "##[error]": "\\x23#[error]",
}
NAME = "".join(SHOWN)
LINE = "".join(SHOWN.values())
BYTES = NAME.encode("utf-8", "surrogatepass") + b"\xff"
SAFE = {"\n", "\t"}


def assert_harmless(text, commands=False):
    """Asserts that a text has only visible characters, line ends, and optrace's own colours."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    for character in set(text) - SAFE:
        assert unicodedata.category(character) not in {"Cc", "Cf", "Zl", "Zp", "Cs", "Cn"}, repr(
            character)
    if not commands:
        for line in text.splitlines():
            assert not line.strip().startswith("::") and "##[" not in line, line


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """hostile.trace, hostile.json (without characters that JSON can't contain), and rules.yaml."""
    folder = tmp_path_factory.mktemp("names")
    record = json.dumps({"op": "aten::" + NAME, "schema": "x(Tensor self) -> Tensor",
                         "arguments": [{"name": NAME, "value": NAME}]}).encode()
    record = record.replace(b"\\udc80", b"")
    meta = {"torch": {"version": NAME.replace("\udc80", "")}, "device": "cpu",
            "warnings": [NAME.replace("\udc80", ""), "::error::x"],
            "call": NAME.replace("\udc80", "")}
    content = trace(meta, modules=[BYTES], op_records=[b"{}", record],
                    functions=[function(BYTES), function(b"at::" + BYTES)],
                    python_functions=[python_function(b"f" + BYTES, BYTES, 3),
                                      python_function(b"::error::f", b"::error file=x::", 4),
                                      python_function(b"g", b"/a b/%23#?\xc3\xa9:x.py", 5),
                                      python_function(b"h", b"a:b/c d.py", 6)],
                    paths=[path(0, PYTHON), path(1, PYTHON, 0, line=3), path(2, PYTHON, 1, line=4),
                           path(3, PYTHON, 2, line=5), path(0, parent=3, line=6),
                           path(1, parent=4), path(1, OP, parent=5, ops=[1])])
    (folder / "hostile.trace").write_bytes(content)
    rules = [{"expect": "ops <= 0", "name": NAME.replace("\udc80", ""),
              "because": NAME.replace("\udc80", "")},
             {"expect": "never calls f*", "name": "::error::rule"},
             {"expect": "never calls h"}, {"expect": "never calls g"}]
    (folder / "rules.json").write_text(
        json.dumps({"rules": rules}, ensure_ascii=False), encoding="utf-8")
    return folder


@pytest.fixture
def run(optrace, folder):
    def started(command, *arguments, statuses=(PASSED,)):
        result = optrace(command, folder / "hostile.trace", *arguments, cwd=folder)
        assert result.returncode in statuses, result.stderr
        assert_harmless(result.stderr)
        return result.stdout
    return started


@pytest.fixture
def check(run, folder):
    def started(kind):
        return run("check", "--expect", folder / "rules.json", "--allow-unknown", "--format", kind,
                   statuses=(FAILED,))
    return started


def test_the_tree(run):
    text = run("report", "--all")
    assert_harmless(text)
    assert "\\u202e" in text and "\\udc80" in text and "\\U000e0041" in text
    coloured = run("report", "--all", "--colour", "always")
    assert_harmless(coloured)
    assert "\x1b[36m" in coloured


def in_json(text):
    """Returns the text with lone surrogates, which JSON can't contain, replaced by escapes."""
    return re.sub("[\ud800-\udfff]", lambda lone: f"\\u{ord(lone[0]):04x}", text)


def test_json(run, check, validate, folder):
    text = run("report", "--all", "--format", "json")
    assert_harmless(text)
    report = json.loads(text)
    validate(report, "report")
    files = {frame["source"]["file"] for frame in frames(report)
             if frame["source"] and frame["source"]["file"]}
    # The same value, except for bytes that are not UTF-8, and surrogates.
    assert in_json(NAME) + "\\xff" in files, files
    (folder / "hostile.json").write_text(text)
    text = check("json")
    assert_harmless(text)
    validate(json.loads(text), "check")
    text = run("compare", folder / "hostile.json", "--format", "json",
               statuses=(FAILED,))
    assert_harmless(text)
    validate(json.loads(text), "comparison")
    assert_harmless(run("compare", folder / "hostile.json", statuses=(FAILED,)))


def test_check_text(check):
    text = check("text")
    assert_harmless(text)
    assert LINE.split("\\udc80")[0] in text


def test_junit(check):
    text = check("junit")
    assert_harmless(text)
    suite = xml.etree.ElementTree.fromstring(text.encode())[0]
    assert [case.tag for case in suite] == ["testcase"] * 4
    assert suite[0].get("name").startswith(LINE.split("\\udc80")[0][:200])


def test_sarif(check):
    text = check("sarif")
    assert_harmless(text)
    pydantic_sarif.model.StaticAnalysisResultsFormatSarifVersion210JsonSchema.model_validate_json(
        text)
    (run,) = json.loads(text)["runs"]
    assert run["columnKind"] == "utf16CodeUnits"
    uris = set()
    for result in run["results"]:
        message = result["message"]["text"]
        assert_harmless(message, commands=True)
        for location in result["locations"]:
            uri = location["physicalLocation"]["artifactLocation"]["uri"]
            assert re.fullmatch(r"[A-Za-z0-9\-._~/!$&'()*+,;=@:%]*", uri), uri
            assert not re.search(r"%(?![0-9A-F]{2})", uri)
            uris.add(uri)
    assert "file:///a%20b/%2523%23%3F%C3%A9:x.py" in uris and "./a:b/c%20d.py" in uris, uris
    assert any("\n" in result["message"]["text"] for result in run["results"])
    # Each URI decodes to the original file name.
    names = {urllib.parse.unquote_to_bytes(urllib.parse.urlsplit(uri).path) for uri in uris}
    assert b"/a b/%23#?\xc3\xa9:x.py" in names


def test_columns_of_sarif(optrace, tmp_path):
    """Columns count UTF-16 code units in the source; without the source there are none."""
    def columns():
        (tmp_path / "report.json").write_text(json.dumps({
            "schema": "optrace.report/1", "roots": [{
                "layer": "python", "name": "f", "calls": 1, "children": [{
                    "layer": "dispatcher", "name": "add", "op": "aten::add", "calls": 1,
                    "detail": {"step": "call", "schema": "add(Tensor self) -> Tensor"},
                    "source": {"file": "x.cpp", "line": 1, "call_line": 1,
                               "call_range": {"column": 12, "end_line": 1, "end_column": 17}},
                    "children": []}],
                "source": {"file": "program.py", "line": 1}}]}))
        result = optrace("check", tmp_path / "report.json", "--expect", "ops <= 0", "--format",
                         "sarif", cwd=tmp_path)
        (found,) = json.loads(result.stdout)["runs"][0]["results"]
        return found["locations"][0]["physicalLocation"]["region"]
    assert columns() == {"startLine": 1, "endLine": 1}
    # 12 bytes of UTF-8 precede the call: `x = "` 5, `\u00e9` 2, an emoji 4, then `"`.
    (tmp_path / "program.py").write_text('x = "\u00e9\U0001f600" + y\n', encoding="utf-8")
    assert columns() == {"startLine": 1, "endLine": 1, "startColumn": 9, "endColumn": 14}


def test_github(check):
    """Each line but the last is a command of optrace's own, as the runner parses it."""
    text = check("github")
    assert_harmless(text, commands=True)
    *commands, last = text.splitlines()
    assert last == "0 of 4 rules passed" and len(commands) >= 4
    for command in commands:
        matched = re.fullmatch(r"::error ((?:\w+=[^:,]*)(?:,\w+=[^:,]*)*)::(.*)", command)
        assert matched, command
        properties = dict(part.split("=", 1) for part in matched[1].split(","))
        assert set(properties) <= {"title", "file", "line", "endLine", "col", "endColumn"}
        assert "##[" not in command


# Files in the index -> the names that replace them.
INDEXED = {
    b"aten/src/ATen/native/Convolution.cpp":
        b"aten/\x1b[2J\xe2\x80\xae\xc2\x9b\xff\n::error::\xed\xb2\x80",
    b"torch/nn/modules/conv.py": b"torch/\xf3\xa0\x81\x81\xef\xbf\xbf\r\n::x",
}


def test_answers_from_an_index(optrace, validate, build, tmp_path):
    """The JSON of locate, explain and layers, for hostile names and from a hostile index."""
    shipped = build / "share/optrace/indexes/torch-2.6.0.index"
    (tmp_path / "torch-2.6.0.index").write_bytes(changed_index(shipped.read_bytes(), INDEXED))
    names = b"\n".join([b"conv2d", b"at::native::conv2d", b"nn.Conv2d", b"aten::\x1b[2J",
                        BYTES.replace(b"\n", b""), b"x" * 100_000, b"\xff\xed\xb2\x80", b"_Z\x9b"])
    everything = ""
    for command in ("locate", "explain"):
        said = subprocess.run([*optrace.command, command, "-"], input=names, capture_output=True,
                              env={**os.environ, "OPTRACE_INDEX_DIR": str(tmp_path)}, timeout=600)
        text = said.stdout.decode()
        assert_harmless(text)
        assert_harmless(said.stderr.decode())
        assert len(text.splitlines()) == 8, text
        for line in text.splitlines():
            validate(json.loads(line), command)
        everything += text
    for words in (["layers"], ["locate", "at::native::conv2d"], ["explain", "conv2d"]):
        for kind in ("json", "text"):
            asked = optrace(*words, "--format", kind,
                            environment={"OPTRACE_INDEX_DIR": tmp_path})
            assert asked.returncode == PASSED, asked.stderr
            assert_harmless(asked.stdout)
            everything += asked.stdout
    assert "\\u202e" in everything and "\\x1b[2J" in everything


class Tags(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags = set()

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        assert not any(name.startswith("on") for name, _ in attributes)


def test_html_and_errors_of_python(run_program, python, build, folder):
    code = """
        import optrace, sys
        trace = optrace.load(sys.argv[1])
        sys.stdout.buffer.write(trace._repr_html_().encode())
        try:
            optrace.load("/missing\\x1b[2J\\u202e\\n::error::x")
        except optrace.Error as error:
            sys.stderr.buffer.write(str(error).encode())
        """
    shown = run_program([python, "-c", "\n".join(line[8:] for line in code.splitlines()),
                         str(folder / "hostile.trace")],
                        env={**os.environ, "PYTHONPATH": str(build / "python")})
    assert shown.returncode == 0 and "missing" in shown.stderr, shown.stderr
    assert_harmless(shown.stderr)
    assert_harmless(shown.stdout)
    html5lib.HTMLParser(strict=True).parseFragment(shown.stdout)
    page = page_in_frame(shown.stdout)
    html5lib.HTMLParser(strict=True).parse(page)
    tags = Tags()
    tags.feed(page)
    tags.close()
    assert tags.tags == {"html", "head", "meta", "title", "style", "body", "script"}
    text = json.dumps(page_data(page), ensure_ascii=False)
    assert_harmless(text)
    assert "<script>" in text and "\\\\u202e" in text


# A function and a file with these names, as returned by os.listdir(), and with a name that no file
# can have.
PROGRAM = """
import types, torch
def f(x):
    return torch.relu(x)
def renamed(name, file):
    code = f.__code__.replace(co_name=name, co_filename=file)
    if hasattr(code, "co_qualname"):
        code = code.replace(co_qualname=name)
    return types.FunctionType(code, {"torch": torch, "__name__": "__main__"})
scope = {"torch": torch, "__name__": "__main__"}
exec(compile("def in_file(x):\\n    return torch.relu(x)\\n", FILE, "exec"), scope)
scope["in_file"](torch.ones(1))
renamed(NAME, NAME)(torch.ones(1))
"""


def test_names_of_a_program(optrace, run_program, python, build, repository, validate, tmp_path):
    """The names of a program's functions and files are complete in every output."""
    file = os.fsdecode(b"/\xff\x80/") + NAME.replace("\x00", "") + ".py"
    (tmp_path / "program.py").write_text(f"NAME = {ascii(NAME)}\nFILE = {ascii(file)}\n" + PROGRAM)
    result = optrace("run", "--python", python, "--trace", "made.trace", "--format", "text", "-o",
                     "tree.txt", "program.py", cwd=tmp_path)
    assert result.returncode == PASSED, result.stderr
    assert_harmless(result.stderr)
    tree = (tmp_path / "tree.txt").read_text(encoding="utf-8")
    assert_harmless(tree)
    shown_file = "/\\udcff\\udc80/" + LINE.replace("\\x00", "") + ".py"
    assert LINE in tree and shown_file in tree, tree
    report = optrace("report", "made.trace", "--format", "json", cwd=tmp_path).stdout
    assert_harmless(report)
    value = json.loads(report)
    validate(value, "report")
    found = list(frames(value))
    names = {frame["name"] for frame in found}
    assert "__main__." + in_json(NAME) in names, names
    files = {frame["source"]["file"] for frame in found if frame["source"]}
    assert {in_json(NAME), in_json(file)} <= files, files
    (tmp_path / "made.json").write_text(report)
    code = ("import optrace, sys; sys.stdout.buffer.write("
            "optrace.load(sys.argv[1])._repr_html_().encode())")
    for saved in ("made.trace", "made.json"):
        shown = run_program([python, "-c", code, str(tmp_path / saved)],
                            env={**os.environ, "PYTHONPATH": str(build / "python")})
        assert shown.returncode == 0, shown.stderr
        assert_harmless(shown.stdout)
        assert any(LINE in text for text in page_data(page_in_frame(shown.stdout))["strings"])
    for kind in ("text", "json", "junit", "sarif", "github"):
        said = optrace("check", "made.json", "--expect", "never calls aten::relu", "--format", kind,
                       cwd=tmp_path)
        assert said.returncode == FAILED, said.stderr
        assert_harmless(said.stdout, commands=kind == "github")
        assert "udcff" in said.stdout or "%ED%B3%BF" in said.stdout, (kind, said.stdout)


@pytest.mark.parametrize("arguments", [
    ["report"], ["check", "--expect", "ops <= 1"], ["compare", "/missing"], ["locate"], ["explain"],
    ["--python", "python3", "conv2d", "--trace"], ["run"], ["check", "conv2d", "--expect"],
    ["source", "add"], ["layers"], ["attach"], ["conv2d", "--format"]])
@pytest.mark.parametrize("name", [
    b"/\x1b[2J\x1b]8;;https://x\x1b\\\xc2\x9b\xe2\x80\xae\xff\xed\xb2\x80",
    b"::error::b\n ::error::b\n ##[error]b\noptrace: all is well"], ids=["escapes", "lines"])
def test_errors_about_hostile_paths(optrace, tmp_path, arguments, name):
    command = [*map(str.encode, (*optrace.command, *arguments)), name]
    result = subprocess.run(command, capture_output=True, cwd=tmp_path, timeout=600,
                            stdin=subprocess.DEVNULL)
    said = result.stderr.decode()  # Fails if it isn't UTF-8.
    assert result.returncode != PASSED and said.startswith("optrace: "), said
    assert_harmless(said)
    assert_harmless(result.stdout.decode())
    assert "\noptrace: all is well" not in said
