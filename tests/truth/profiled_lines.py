"""Runs a program under torch.profiler and counts the ops of each of its lines.

    profiled_lines.py PROGRAM ANSWER

The answer is JSON: [[function, line, op, calls, calls by the line itself], ...]. A range of the
profiler is open while a line of the program runs; an op belongs to the innermost of them.
"""
import collections
import json
import runpy
import sys

from torch.profiler import ProfilerActivity, profile, record_function


class Lines:
    """Opens a range for each line of a file that runs."""

    def __init__(self, file):
        self._file = file

    def __call__(self, frame, event, arg):
        if frame.f_code.co_filename != self._file:
            return None
        open_ranges = []

        def local(frame, event, arg):
            if open_ranges:
                open_ranges.pop().__exit__(None, None, None)
            if event == "line":
                open_ranges.append(record_function(f"{frame.f_code.co_qualname}:{frame.f_lineno}"))
                open_ranges[-1].__enter__()
            return local

        return local


def main(program, answer):
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        sys.settrace(Lines(program))
        try:
            runpy.run_path(program, run_name="__main__")
        finally:
            sys.settrace(None)
    counts, direct = collections.Counter(), collections.Counter()
    for event in profiled.events():
        above = event.cpu_parent
        by_line = above is not None and not above.name.startswith("aten::")
        while above is not None and not (above.is_user_annotation and ":" in above.name):
            above = above.cpu_parent
        if event.name.startswith("aten::") and above is not None:
            function, _, line = above.name.rpartition(":")
            counts[function, int(line), event.name] += 1
            direct[function, int(line), event.name] += by_line
    with open(answer, "w", encoding="utf-8") as file:
        json.dump([[*key, calls, direct[key]] for key, calls in sorted(counts.items())], file)


if __name__ == "__main__":
    main(*sys.argv[1:])
