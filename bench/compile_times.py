"""Measures what compiling optrace costs, by unit, header and template.

    compile_times.py [BUILD_FOLDER] [PART_OF_A_PATH...]

Compiles each unit of the product again, alone, with its own command, and prints the processor
seconds of the costliest. Then it compiles those whose path has one of the parts with clang++-19 and
-ftime-trace, and prints the share of each header, with what it includes, and of each template that
is instantiated. Without parts, these are all units. Nothing in BUILD_FOLDER changes.
"""
import collections
import json
import pathlib
import re
import resource
import shlex
import subprocess
import sys
import tempfile

SHOWN = 20
# Options of GCC that clang does not know; its own warnings are of no interest here.
GCC_ONLY = re.compile(r"-W|-mgeneral-regs-only")


def units(build):
    for entry in json.loads((build / "compile_commands.json").read_text()):
        if not re.search(r"/(tests|bench)/", entry["file"]):
            words = [word for word in shlex.split(entry["command"]) if not word.endswith("ccache")]
            yield entry["file"], entry["directory"], words


def with_output(words, output):
    at = words.index("-o")
    return [*words[:at + 1], str(output), *words[at + 2:]]


def processor_seconds(words, folder):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, cwd=folder, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def name_of(unit):
    return re.sub(r".*/CMakeFiles/\w+\.dir/(Unity/)?(unity_)?", "", unit)


def add_trace(events, headers, templates):
    """Adds the microseconds of clang's trace events; nested instantiations count for the outer."""
    opened = []
    for event in sorted((one for one in events if one["name"] == "Source"),
                        key=lambda one: one["ts"]):
        if event["ph"] == "b":
            opened.append(event)
        elif opened:
            begun = opened.pop()
            headers[begun["args"]["detail"]] += event["ts"] - begun["ts"]
    end = 0
    for event in sorted((one for one in events if one["name"].startswith("Instantiate")),
                        key=lambda one: (one["ts"], -one["dur"])):
        if event["ts"] >= end:
            end = event["ts"] + event["dur"]
            templates[re.sub(r"<.*", "<>", event["args"].get("detail", ""))] += event["dur"]


def print_shares(title, counter, whole):
    print(f"\n{title}, share of clang's time:")
    for name, microseconds in counter.most_common(SHOWN):
        print(f"  {microseconds / whole:6.1%}  {name}")


def main():
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "build")
    parts = sys.argv[2:]
    headers: collections.Counter = collections.Counter()
    templates: collections.Counter = collections.Counter()
    taken, whole = {}, 0
    with tempfile.TemporaryDirectory() as scratch:
        output = pathlib.Path(scratch) / "unit.o"
        for unit, folder, words in units(build):
            taken[unit] = processor_seconds(with_output(words, output), folder)
            if parts and not any(part in unit for part in parts):
                continue
            clang = ["clang++-19", "-w", "-ftime-trace",
                     *(word for word in words[1:] if not GCC_ONLY.match(word))]
            subprocess.run(with_output(clang, output), cwd=folder, check=True)
            events = json.loads(output.with_suffix(".json").read_text())["traceEvents"]
            add_trace(events, headers, templates)
            whole += next(one["dur"] for one in events if one["name"] == "Total ExecuteCompiler")
    print(f"{sum(taken.values()):.0f} processor seconds for {len(taken)} units; the costliest:")
    for unit in sorted(taken, key=lambda one: taken[one], reverse=True)[:SHOWN]:
        print(f"  {taken[unit]:6.1f}  {name_of(unit)}")
    print_shares("Headers", headers, whole)
    print_shares("Templates", templates, whole)


if __name__ == "__main__":
    main()
