"""A program on a terminal of its own, with a terminal emulator that shows what its user sees."""
import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time

import pyte

# A type whose sequences pyte knows. It lacks xterm's for repeated characters.
TERM = "screen-256color"


class Screen(pyte.Screen):
    """With SU and SD, which pyte lacks: the lines between the margins move up or down."""

    def scroll_up(self, count=1):
        self._scroll(count, 1, self.index)

    def scroll_down(self, count=1):
        self._scroll(count, 0, self.reverse_index)

    def _scroll(self, count, margin, index):
        line, self.cursor.y = self.cursor.y, (self.margins or (0, self.lines - 1))[margin]
        for _ in range(count or 1):
            index()
        self.cursor.y = line


class Stream(pyte.ByteStream):
    csi = {**pyte.ByteStream.csi, "S": "scroll_up", "T": "scroll_down"}
    events = pyte.ByteStream.events | {"scroll_up", "scroll_down"}


class Terminal:
    """Terminal([program, arguments...], environment={...}, size=(rows, columns)).

    An environment value of None removes the variable. To be used in a `with` statement, which ends
    the program.
    """

    def __init__(self, arguments, environment=(), size=(24, 80)):
        rows, columns = size
        self.screen = Screen(columns, rows)
        self.stream = Stream(self.screen)
        self.output = b""
        self.status = None
        variables = {**os.environ, "TERM": TERM, "LC_ALL": "C.UTF-8",
                     **dict(environment)}
        for name in ("NO_COLOR", "COLUMNS", "LINES"):
            if name not in dict(environment):
                variables.pop(name, None)
        variables = {name: str(value) for name, value in variables.items() if value is not None}
        self.process, self.terminal = pty.fork()
        if self.process == 0:
            fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            os.execvpe(arguments[0], list(map(str, arguments)), variables)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.status is None:
            os.kill(self.process, signal.SIGKILL)
            os.waitpid(self.process, 0)
        os.close(self.terminal)

    def type(self, keys):
        os.write(self.terminal, keys.encode())

    def resize(self, rows, columns):
        self.screen.resize(rows, columns)
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def send(self, number):
        os.kill(self.process, number)

    @property
    def lines(self):
        return [line.rstrip() for line in self.screen.display]

    @property
    def text(self):
        return "\n".join(self.lines)

    def wait_for(self, condition, seconds=30):
        """Waits until condition(terminal) is true, or a text is shown, and until the output pauses.

        Returns the text of the screen.
        """
        def holds():
            return condition in self.text if isinstance(condition, str) else condition(self)

        end = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < end, f"not seen: {condition}\n{self.text}"
            if not self._read(0.1) and not holds():
                raise AssertionError(f"ended without: {condition}\n{self.text}")
        while self._pause_ends():
            pass
        return self.text

    def wait_for_end(self, seconds=30):
        """Returns the exit status; negative for a signal."""
        end = time.monotonic() + seconds
        while self._read(0.1):
            assert time.monotonic() < end, f"it does not end\n{self.text}"
        self.status = os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])
        return self.status

    def _pause_ends(self):
        ready, _, _ = select.select([self.terminal], [], [], 0.05)
        return bool(ready) and self._read(0)

    def _read(self, seconds):
        """Returns false once the program has closed its terminal."""
        ready, _, _ = select.select([self.terminal], [], [], seconds)
        if ready:
            try:
                data = os.read(self.terminal, 65536)
            except OSError:
                return False
            self.output += data
            self.stream.feed(data)
        return True
