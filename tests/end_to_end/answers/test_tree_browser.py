"""`-i` shows a report's tree in the terminal, as the user of a terminal emulator sees it."""
import re
import signal
import unicodedata

import pytest

from hostile_files import PYTHON, path, python_function, trace
from terminal import Terminal

PASSED, USAGE, INTERRUPTED = 0, 2, 130
HINTS = "? help  / search"


@pytest.fixture(scope="module")
def conv2d(op_trace):
    """The trace of an op."""
    return op_trace("conv2d")


@pytest.fixture
def browse(optrace, conv2d, tmp_path):
    """browse(*arguments, of=trace, size=(rows, columns), **environment) -> Terminal.

    The cache is empty: no source tree of torch is known.
    """

    def start(*arguments, of=conv2d, size=(24, 80), **environment):
        return Terminal([*optrace.command, "report", of, "-i", *arguments],
                        {"XDG_CACHE_HOME": tmp_path / "cache", **environment}, size)

    return start


def selected(terminal):
    """The row of the cursor, which is shown in reverse."""
    for number, line in enumerate(terminal.screen.display):
        if 0 < number and terminal.screen.buffer[number][0].reverse:
            return line.strip()
    return None


def test_moving_folding_searching_and_leaving(browse):
    with browse() as terminal:
        text = terminal.wait_for(HINTS)
        assert terminal.lines[0].startswith("nn.Conv2d(3, 8, 3)(x)  torch 2.6.0")
        assert "python     ▾ Module._wrapped_call_impl" in text
        assert b"\x1b[?1049h" in terminal.output
        assert selected(terminal).startswith("python     ▾ Module._wrapped_call_impl")
        count = int(terminal.lines[0].rpartition("/")[2])
        terminal.type("j\x1b[B")
        terminal.wait_for(lambda it: "Conv2d.forward" in (selected(it) or ""))
        terminal.wait_for("source         torch/nn/modules/conv.py:553")
        terminal.wait_for("called at      torch/nn/modules/module.py:1750")
        terminal.type("h")
        terminal.wait_for(lambda it: it.lines[0].endswith(" 3/3"))
        assert "▸ Conv2d.forward" in selected(terminal)
        terminal.type("h")  # To the caller.
        terminal.wait_for(lambda it: it.lines[0].endswith(" 2/3"))
        terminal.type("jl")
        terminal.wait_for(lambda it: it.lines[0].endswith(f" 3/{count}"))
        terminal.type("/NOSUCH\r")
        terminal.wait_for("No frame that is shown matches 'NOSUCH'.")
        terminal.type("/mkldnn\r")
        terminal.wait_for(lambda it: "mkldnn" in (selected(it) or "").lower())
        first = terminal.lines[0]
        terminal.type("n")
        terminal.wait_for(lambda it: it.lines[0] != first)
        terminal.type("N")
        terminal.wait_for(lambda it: it.lines[0] == first)
        terminal.type("/\x12^aten::(x|conv2d)\r")
        terminal.wait_for(lambda it: "aten::conv2d  call" in (selected(it) or ""))
        terminal.wait_for("why            → ")
        terminal.type("/\x12(\r")
        terminal.wait_for("'(' is not a regular expression")
        terminal.type("\r")
        terminal.wait_for("Details of the frame")
        assert "dispatch_key   CPU" in terminal.text or "AutogradCPU" in terminal.text
        terminal.type("q?")
        text = terminal.wait_for("Ctrl-R there: as a regular expression")
        assert "Home, g" in text
        terminal.type("qGz")
        terminal.wait_for("This key does nothing")
        assert terminal.lines[0].endswith(f" {count}/{count}")
        terminal.type("g\x1b[6~")
        terminal.wait_for(lambda it: it.lines[0].endswith(f" 14/{count}"))
        terminal.type("q")
        assert terminal.wait_for_end() == PASSED
        assert terminal.output.endswith(b"\x1b[?1049l\r\x1b[?1l\x1b>")


def test_filters_and_order(browse):
    with browse() as terminal:
        terminal.wait_for(HINTS)
        terminal.type("1")
        text = terminal.wait_for("without python")
        assert "python     " not in text and "python frames are hidden" in text
        terminal.type("0o")
        text = terminal.wait_for("own code")
        assert "kernel  " not in text
        terminal.type("ot")
        terminal.wait_for("by time")
        terminal.type("12345678")
        terminal.wait_for("No frame is shown: 0 shows all layers.")
        terminal.type("0")
        terminal.wait_for("Module._call_impl")


def test_any_size(browse):
    with browse(size=(24, 80)) as terminal:
        terminal.wait_for(HINTS)
        terminal.resize(40, 140)
        # A wide terminal has room for places, a high one for more rows.
        terminal.wait_for("torch/nn/modules/module.py:1743")
        terminal.wait_for(lambda it: HINTS in it.lines[39])
        terminal.resize(10, 40)
        terminal.wait_for(lambda it: it.lines[9].startswith("? help"))
        assert "source  " not in terminal.text and max(map(len, terminal.lines)) <= 40
        terminal.resize(4, 14)
        terminal.wait_for("too small\nneeds 24 x 5")
        terminal.resize(24, 80)
        terminal.wait_for(lambda it: HINTS in it.lines[23] and "Conv2d.forward" in it.text)
        terminal.type("q")
        assert terminal.wait_for_end() == PASSED


def test_without_colour_and_in_ascii(browse):
    for arguments, environment in ((("--colour", "never"), {}), ((), {"NO_COLOR": "1"}),
                                   ((), {"TERM": "vt100"})):
        with browse(*arguments, **environment) as terminal:
            terminal.wait_for(HINTS)
            assert not re.search(rb"\x1b\[[0-9;]*3[0-7][;m]", terminal.output)
            assert terminal.screen.buffer[1][0].reverse
    with browse(LC_ALL="C") as terminal:
        text = terminal.wait_for(HINTS)
        assert text.isascii() and "python     - Module._call_impl" in text and "-----" in text
        terminal.type("/batchify\r")
        terminal.wait_for("|-")


def test_the_editor_opens_the_source_and_the_tree_comes_back(browse, tmp_path):
    editor = tmp_path / "my editor" / "vim"
    editor.parent.mkdir()
    editor.write_text(f"#!/bin/sh\nprintf '%s\\n' \"$@\" > '{tmp_path}/opened'\n"
                      f"trap : INT\necho EDITING\n[ -e '{tmp_path}/fail' ] && exit 7\n"
                      "until read line; do :; done\n")
    editor.chmod(0o755)
    with browse(EDITOR=f"'{editor}'", VISUAL=None) as terminal:
        terminal.wait_for(HINTS)
        terminal.type("jje")
        terminal.wait_for("EDITING")
        terminal.type("\x03")  # For the editor.
        terminal.wait_for("^C")
        terminal.type("\n")
        terminal.wait_for(lambda it: "Conv2d.forward" in (selected(it) or ""))
        line, file = (tmp_path / "opened").read_text().splitlines()
        assert line == "+553" and file.endswith("/torch/nn/modules/conv.py")
        (tmp_path / "fail").touch()
        terminal.type("e")
        terminal.wait_for(lambda it: "ended with exit status 7" in "".join(it.screen.display))
        terminal.type("/native::conv2d\re")
        terminal.wait_for("Convolution.cpp is not on this machine.")
        terminal.type("E")
        terminal.wait_for("No line of the program is known to lead to this frame.")
        terminal.type("q")
        assert terminal.wait_for_end() == PASSED
    with browse(EDITOR=None, VISUAL=None) as terminal:
        terminal.wait_for(HINTS)
        terminal.type("e")
        terminal.wait_for("no editor is set")


def test_a_signal_restores_the_terminal(browse):
    for stop, status in ((lambda it: it.type("\x03"), INTERRUPTED),
                         (lambda it: it.send(signal.SIGTERM), 128 + signal.SIGTERM)):
        with browse() as terminal:
            terminal.wait_for(HINTS)
            stop(terminal)
            assert terminal.wait_for_end() == status
            assert b"\x1b[?1049l" in terminal.output


def test_what_has_no_terminal_is_refused(browse, optrace, conv2d):
    refused = optrace("report", conv2d, "-i")
    assert refused.returncode == USAGE and "-i needs a terminal" in refused.stderr
    with Terminal(["/bin/sh", "-c", f"{optrace.command[0]} conv2d -i | cat"]) as terminal:
        terminal.wait_for("standard output is not one")
    for term, reason in (("nonsense", "TERM is 'nonsense'"), ("", "TERM is not set"),
                         ("dumb", "type 'dumb'")):
        with browse(TERM=term) as terminal:
            terminal.wait_for(reason)
            assert terminal.wait_for_end() == USAGE
    for option in ("--format", "json"), ("-o", "x"):
        both = optrace("report", conv2d, "-i", *option)
        assert both.returncode == USAGE
        assert f"-i shows the tree on the terminal, and {option[0]} asks" in both.stderr


def test_hostile_names_do_not_break_the_screen(browse, tmp_path):
    names = ["\x1b[2J\x1b]0;title\x07", "中文" * 60, "e" + "\u0301" * 50, "\u202e\u200b\u2060x",
             "\U0001f600" * 90, "a\tb\r\nc", "x" * 5000]
    content = trace({"torch": {"version": "2.6.0"}, "call": "\x1b[31m中" * 40, "device": "cpu"},
                    python_functions=[python_function(name, f"/{name}.py") for name in names],
                    paths=[path(i, PYTHON) for i in range(len(names))])
    (tmp_path / "hostile.trace").write_bytes(content)
    with browse(of=tmp_path / "hostile.trace") as terminal:
        terminal.wait_for("The report has no frames; with --all, it may.")
        terminal.type("jl*e\r")
        terminal.wait_for("Details")
    with browse("--all", of=tmp_path / "hostile.trace", size=(30, 80)) as terminal:
        terminal.wait_for(HINTS)
        assert terminal.screen.title == ""
        rows = terminal.lines[1:1 + len(names)]
        assert [row[:10].strip() for row in rows] == ["python"] * len(names), rows
        assert "\\x1b[2J" in rows[0] and rows[1].endswith("…") and "\\u202e" in rows[3]
        assert terminal.lines[29].startswith("? help")
        for key in "jjjjjj\rq":
            terminal.type(key)
        terminal.wait_for(lambda it: it.lines[0].endswith("7/7"))
        for character in terminal.output.decode():
            assert character in "\x1b\r\n\x08\x0f\x0e\t" or unicodedata.category(
                character) not in {"Cc", "Cf", "Mn"}, repr(character)


def test_an_op_is_browsed_too(optrace):
    with Terminal([*optrace.command, "relu", "-i"]) as terminal:
        terminal.wait_for("aten::relu")
        terminal.type("q")
        assert terminal.wait_for_end() == PASSED
