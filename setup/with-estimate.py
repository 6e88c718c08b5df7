#!/usr/bin/env python3
"""with-estimate.py WHAT COMMAND...: runs a build by Ninja and shows how far it is.

Ninja's status lines become `[12 of 80 compiled, about 3 min left]`. The estimate takes the units
that are left to be as large as those that are done. WHAT is the word for a step that is done:
`compiled`. On a terminal the line is overwritten; elsewhere there is a line for each tenth of the
steps. Everything else that the build prints is passed on. Returns the build's exit status.
"""
import os
import re
import subprocess
import sys

STATUS = re.compile(r"@(\d+) (\d+) ([\d.]+)@")


def remaining(done, steps, seconds):
    """Returns the estimate of the time that is left, as text; empty while there is too little to
    judge by."""
    if done < 3 or seconds < 5:
        return ""
    left = seconds / done * (steps - done)
    return (f", about {round(left / 60)} min left" if left > 90 else
            f", about {max(10, round(left / 10) * 10)} s left" if done < steps else "")


def main():
    what, *command = sys.argv[1:]
    terminal = sys.stderr.isatty()
    shown = None
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, errors="replace",
                          env={**os.environ, "NINJA_STATUS": "@%f %t %e@ "}) as build:
        for line in build.stdout:
            status = STATUS.match(line)
            if status is None:
                if not line.startswith("ninja: no work"):
                    print(line, end="", flush=True)
                continue
            if line[status.end():].startswith(" Re-"):  # CMake runs again before the build.
                continue
            done, steps, seconds = int(status[1]), int(status[2]), float(status[3])
            text = f"[{done} of {steps} {what}{remaining(done, steps, seconds)}]"
            if terminal:
                print(f"\r\x1b[K{text}", end="\n" if done == steps else "", file=sys.stderr,
                      flush=True)
            elif (steps, done * 10 // steps) != shown:
                shown = steps, done * 10 // steps
                print(text, file=sys.stderr, flush=True)
    return build.returncode


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:  # Ninja gets the signal, too, and has ended.
        sys.exit(130)
