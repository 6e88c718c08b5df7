"""Compilers for tests of a first run: quick ones that hand out an op agent that is there already,
slow ones, and ones that fail. And the processes of such a run."""
import os
import pathlib
import time

_SCRIPT = """#!/bin/sh
case "$*" in *-print-prog-name=*) exit 1;; esac
if [ -n '{fails}' ]; then echo 'x.cpp:1: error: {fails}' >&2; exit 1; fi
note= output=
while [ $# -gt 0 ]; do
  case "$1" in
    -MF) note="$2";;
    -o) output="$2";;
  esac
  shift
done
if [ -n "$note" ]; then
  echo "$output" >> '{log}'
  {wait}
  echo "x.o: $0" > "$note"
  : > "$output"
else
  echo linked >> '{log}'
  cp '{agent}' "$output"
fi
"""

FOREVER = "infinity"


class Compiler:
    """A compiler at `path`, of which the first step takes `seconds`, and with FOREVER each step."""

    def __init__(self, folder, agent, seconds=None, fails=""):
        folder.mkdir()
        self.path = folder / "g++"
        self._log = folder / "log"
        once = f"mkdir '{folder}/slept' 2>/dev/null && sleep {seconds}"
        wait = {None: ":", FOREVER: f"sleep {FOREVER}"}.get(seconds, once)
        self.path.write_text(_SCRIPT.format(fails=fails, log=self._log, wait=wait, agent=agent))
        self.path.chmod(0o700)

    def has_begun(self):
        return self._log.exists()

    def builds(self):
        """The number of builds that were completed."""
        return self._log.read_text().splitlines().count("linked") if self._log.exists() else 0


def living(mark):
    """Returns the command lines of the processes that have this text in their environment."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if mark.encode() in (entry / "environ").read_bytes():
                found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:  # It has ended, or belongs to another user.
            pass
    return found


def wait_until(is_true, process=None):
    """Waits for a condition, and for no longer than `process` runs."""
    while not is_true():
        assert process is None or process.poll() is None, process.communicate()
        time.sleep(0.05)
