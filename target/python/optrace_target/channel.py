"""The socket to the command: one JSON object per line, in both directions."""
import json
import os

from .protocol import Key


class Channel:
    """Ends the process when the command has exited, because the answer is then not needed."""

    def __init__(self, descriptor):
        self._descriptor = descriptor
        self._received = b""

    def send(self, message, values=None):
        data = (json.dumps({**(values or {}), Key.MESSAGE: message}) + "\n").encode("ascii")
        try:
            while data:
                data = data[os.write(self._descriptor, data):]
        except OSError:
            os._exit(0)

    def receive(self):
        while b"\n" not in self._received:
            try:
                data = os.read(self._descriptor, 1 << 16)
            except OSError:
                data = b""
            if not data:
                os._exit(0)
            self._received += data
        line, self._received = self._received.split(b"\n", 1)
        return json.loads(line)
