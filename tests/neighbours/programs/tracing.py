"""sys.settrace: prints the lines that it reports."""
import sys

from rounds import bits, rounds, step

for number in rounds():
    lines = []

    def note(frame, event, argument):
        if frame.f_code.co_name == "step":
            lines.append((event, frame.f_lineno))
        return note

    sys.settrace(note)
    results = step(number)
    sys.settrace(None)
    print(number, bits(*results), lines)
