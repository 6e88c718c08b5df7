"""Traces stress_program.py from its start, and attaches to it in a loop, for some minutes.

    run_stress.py --python VENV/bin/python [--optrace build/optrace] [--minutes 10]

Half of the time is spent on runs under `optrace run`, each of which must count every call of some
ops unless the trace reports how many events were lost; the other half on attaching to one process
again and again. Exit status 0: no result was wrong, all lost events were counted, every trace was
made, and at the end the process's code was the same as in its files.
"""
import argparse
import json
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

sys.path.append(str(pathlib.Path(__file__).parents[1] / "end_to_end"))
from attach_target import changed_code

PROGRAM = pathlib.Path(__file__).with_name("stress_program.py")
ROUNDS = 40
SOURCE = "int answer(void) { return 42; }\n"
LIMIT = 600


def op_calls(frames, op):
    """Returns how often an op was called in a report, including frames of merged paths ("...")."""
    name, calls, waiting = f"at::_ops::{op}::call", 0, list(frames)
    while waiting:
        frame = waiting.pop()
        calls += frame["calls"] if frame["name"] == name else 0
        waiting += frame["children"]
    return calls


def trace_whole_run(options, library, folder):
    """Returns the errors of one run under `optrace run`."""
    report, trace = folder / "report.json", folder / "trace"
    ran = subprocess.run(
        [options.optrace, "run", "--python", options.python, "--trace", trace, "--format", "json",
         "-o", report, PROGRAM, library, str(ROUNDS)],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=LIMIT)
    if ran.returncode != 0:
        return [f"a run ended with {ran.returncode}: {ran.stdout[-500:]} {ran.stderr[-1500:]}"]
    said = json.loads(ran.stdout.splitlines()[-1])
    shown = json.loads(report.read_text())
    lost = sum(each["count"] for each in shown["shortfalls"] if each["kind"] == "events_lost")
    problems = list(said["wrong"])
    for name, calls in said["counts"].items():
        seen = op_calls(shown["roots"], name)
        if seen > calls or seen + lost < calls:
            problems.append(f"{calls} calls of {name}, {seen} in the report, {lost} events lost")
    print(f"a whole run: {sum(said['counts'].values())} calls counted, {lost} events lost, "
          f"{len(problems)} problems", flush=True)
    return problems


def attach_again_and_again(options, library, folder, end_time):
    """Returns the errors of attaching to one process until `end_time`."""
    end, problems, traces = folder / "end", [], 0
    with open(folder / "output", "w+") as output, open(folder / "errors", "w+") as errors:
        process = subprocess.Popen([options.python, PROGRAM, library, "0", end],
                                   stdin=subprocess.DEVNULL, stdout=output, stderr=errors)
        while not (folder / "output").stat().st_size and process.poll() is None:
            time.sleep(0.1)
        chance = random.Random(1)
        while time.monotonic() < end_time and process.poll() is None:
            attached = subprocess.run(
                [options.optrace, "attach", str(process.pid), "--duration",
                 f"{chance.uniform(0.1, 3):.2f}", "--timeout", "60", "--memory", "64M",
                 "--format", "json", "-o", folder / "attached.json"],
                stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                timeout=LIMIT)
            if attached.returncode == 0 and json.loads(
                    (folder / "attached.json").read_text())["roots"]:
                traces += 1
            else:
                problems.append(f"attach ended with {attached.returncode}: "
                                f"{attached.stderr[-800:] or 'an empty report'}")
        if process.poll() is None:
            process.send_signal(signal.SIGSTOP)  # It loads and unloads libraries.
            problems += [f"the code is not as it was: {place}"
                         for place in changed_code(process.pid)]
            process.send_signal(signal.SIGCONT)
        end.touch()
        try:
            process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            problems.append("the process did not end")
            process.kill()
        output.seek(0)
        errors.seek(0)
        lines = output.read().splitlines()
        if process.returncode != 0:
            problems.append(f"the process ended with {process.returncode}: {errors.read()[-1500:]}")
        elif len(lines) > 1:
            problems += json.loads(lines[-1])["wrong"]
    print(f"attached {traces} times, {len(problems)} problems", flush=True)
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--optrace", default="build/optrace")
    parser.add_argument("--python", required=True)
    parser.add_argument("--minutes", type=float, default=10)
    options = parser.parse_args()
    half = options.minutes * 30
    problems = []
    with tempfile.TemporaryDirectory(prefix="stress-") as name:
        folder = pathlib.Path(name)
        (folder / "answer.c").write_text(SOURCE)
        library = folder / "libanswer.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, folder / "answer.c"], check=True)
        first_end = time.monotonic() + half
        while time.monotonic() < first_end:
            problems += trace_whole_run(options, library, folder)
        problems += attach_again_and_again(options, library, folder, time.monotonic() + half)
    for problem in problems:
        print(problem, flush=True)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
