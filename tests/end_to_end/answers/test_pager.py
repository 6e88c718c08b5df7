"""Long answers go through the user's pager, on a terminal only."""
import fcntl
import os
import pty
import select
import shutil
import struct
import termios
import time

import pytest

LONG = ("explain", "conv2d")


@pytest.fixture
def on_a_terminal(optrace, python):
    """on_a_terminal(*arguments, keys=[bytes], **environment) -> (exit status, output).

    The terminal has 24 rows. Each of `keys` is typed once the output has paused.
    """

    def run(*arguments, keys=(), **environment):
        variables = {name: value for name, value in os.environ.items()
                     if name not in ("PAGER", "OPTRACE_PAGER", "LESS", "LV", "COLUMNS", "NO_COLOR")}
        variables.update({"TERM": "xterm", **environment})
        pid, terminal = pty.fork()
        if pid == 0:
            fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
            os.execve(optrace.command[0], [*optrace.command, *map(str, arguments)], variables)
        output, waiting = b"", list(keys)
        end = time.monotonic() + 60
        while time.monotonic() < end:
            ready, _, _ = select.select([terminal], [], [], 1)
            if ready:
                try:
                    output += os.read(terminal, 65536)
                except OSError:
                    break
            elif waiting:
                os.write(terminal, waiting.pop(0))
        else:
            raise AssertionError(f"it does not end: {output[-500:]!r}")
        os.close(terminal)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        return status, output.decode().replace("\r\n", "\n")

    return run


def test_a_long_answer_goes_to_the_pager(on_a_terminal, optrace, tmp_path):
    whole = optrace(*LONG).stdout
    paged = tmp_path / "paged"
    for name in ("OPTRACE_PAGER", "PAGER"):
        status, output = on_a_terminal(*LONG, **{name: f"cat > '{paged}'; echo left"})
        assert (status, output) == (0, "left\n")
        text = paged.read_text()
        assert "\x1b[" in text and "aten::conv2d" in text and "\x1b]8;" not in text
        assert len(text.splitlines()) >= len(whole.splitlines()) > 24
    status, output = on_a_terminal(*LONG, OPTRACE_PAGER="echo mine; cat >/dev/null", PAGER="no")
    assert (status, output) == (0, "mine\n")


def test_what_is_short_or_needs_no_pager_does_not(on_a_terminal, tmp_path):
    marked = "cat >/dev/null; echo paged"
    for arguments, environment in ((("--version",), {"PAGER": marked}),
                                   ((*LONG, "--no-pager"), {"PAGER": marked}),
                                   ((*LONG, "-o", tmp_path / "file"), {"PAGER": marked}),
                                   (LONG, {"PAGER": "cat"}), (LONG, {"PAGER": ""}),
                                   (LONG, {"PAGER": marked, "TERM": "dumb"}),
                                   (LONG, {"PAGER": "/nowhere/less"}),
                                   (LONG, {"PAGER": "nosuchpager | cat; exit 127"}),
                                   (LONG, {"PAGER": marked, "OPTRACE_PAGER": "cat"})):
        status, output = on_a_terminal(*arguments, **environment)
        assert status == 0 and "paged" not in output, (arguments, environment)
        assert "-o" in arguments or "conv2d" in output or "optrace" in output


def test_a_pager_that_is_left_early_is_no_error(on_a_terminal):
    assert on_a_terminal(*LONG, PAGER="true") == (0, "")
    status, output = on_a_terminal(*LONG, PAGER="head -1")
    assert status == 0 and len(output.splitlines()) == 1


def test_less_is_the_default_and_survives_ctrl_c(on_a_terminal):
    if not shutil.which("less"):
        pytest.skip("cannot run here: less is not installed")
    status, output = on_a_terminal(*LONG, keys=[b"\x03", b" ", b"q"])
    assert status == 0 and "aten::conv2d" in output
    first, second = output.split("\x1b[K", 1)
    assert len(first.splitlines()) <= 24 and second.strip()
