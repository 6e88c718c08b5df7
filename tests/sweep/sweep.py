"""Traces every op of PyTorch's OpInfo database, every nn.Module and every optimizer on the CPU,
forward and, where it is supported, backward, and says what came of each:

    sweep.py --build build --python .venv/bin/python [--tenth] [--json FILE] [NAME...]

Each call runs twice before any probe is placed, and then while it is traced, from the same seed
and the same inputs; "equal" compares all results, gradients and changed arguments to the last bit.
Calls whose untraced runs differ from each other (they read memory that nobody wrote, `empty`) are
told apart. Exit status 0: all were traced and no result differed, but for what EXCEPTIONS names;
1: something is wrong.
"""
import argparse
import collections
import json
import pathlib
import subprocess
import sys

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
CALLS_IN_ONE_PROCESS = 150
OUTCOMES = ("traced", "not callable", "died")

# Calls that can't be traced, and why; by (name, backward). Without an entry a failure is a failure.
EXCEPTIONS = {}


def list_calls(python):
    """What there is to call in this Python's torch: {"torch", "calls"}."""
    listed = subprocess.run(
        [python, "-B", REPOSITORY / "tests/sweep/list_ops.py", REPOSITORY / "tracer/target"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if listed.returncode != 0:
        raise RuntimeError(listed.stderr[-2000:])
    return json.loads(listed.stdout)


def tenth(calls):
    """Every tenth op of each kind by sorted name, with all of its calls."""
    chosen = set()
    for kind in sorted({call["kind"] for call in calls}):
        names = sorted({call["op"] for call in calls if call["kind"] == kind})
        chosen.update((kind, name) for name in names[::10])
    return [call for call in calls if (call["kind"], call["op"]) in chosen]


def trace(calls, build, python, progress=lambda done, total: None):
    """What became of each call: the call with what trace_ops says of it, and an "outcome"."""
    waiting = collections.deque(calls)
    results = []
    while waiting:
        batch = [waiting.popleft() for _ in range(min(CALLS_IN_ONE_PROCESS, len(waiting)))]
        answered = _trace_batch(batch, build, python)
        missing = [call for call in batch if _key(call) not in answered]
        if len(missing) == len(batch):
            raise RuntimeError("trace_ops traced nothing")
        waiting.extendleft(reversed(missing))
        results += [{**call, **answered[_key(call)]} for call in batch if _key(call) in answered]
        progress(len(results), len(calls))
    for result in results:
        result["outcome"] = ("died" if "died" in result else
                             "not callable" if "error" in result else "traced")
    return sorted(results, key=lambda result: (result["kind"], *_key(result)))


def _key(call):
    return call["op"], call["backward"]


def _trace_batch(batch, build, python):
    text = "".join(json.dumps({"op": call["op"], "backward": call["backward"]}) + "\n"
                   for call in batch)
    ran = subprocess.run([pathlib.Path(build) / "trace_ops", python], input=text,
                         stdout=subprocess.PIPE, text=True, check=False)
    answers = [json.loads(line) for line in ran.stdout.splitlines()]
    if ran.returncode != 0 and not any("died" in answer for answer in answers):
        raise RuntimeError("trace_ops failed, exit status %d" % ran.returncode)
    return {_key(answer): answer for answer in answers}


def summary(results):
    """Counts, for each kind of call and direction."""
    counts = {}
    for result in results:
        name = "%s %s" % (result["kind"], "backward" if result["backward"] else "forward")
        count = counts.setdefault(name, collections.Counter())
        count["calls"] += 1
        count[result["outcome"]] += 1
        if result["outcome"] != "traced":
            continue
        count["kernel with definition"] += result["kernel"] is not None
        count["not repeatable untraced"] += not result["repeatable"]
        count["bit-equal"] += result["repeatable"] and result["equal"]
        count["differs"] += result["repeatable"] and not result["equal"]
    return counts


def problems(results):
    """The results that must not be: not traced, or not bit-equal, and in no table of exceptions."""
    return [result for result in results
            if (result["outcome"] != "traced" or result["repeatable"] and not result["equal"])
            and _key(result) not in EXCEPTIONS]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--build", default=REPOSITORY / "build")
    parser.add_argument("--python", default=REPOSITORY / ".venv/bin/python")
    parser.add_argument("--tenth", action="store_true", help="every tenth op by name only")
    parser.add_argument("--json", type=pathlib.Path, help="write what came of each call to a file")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these")
    arguments = parser.parse_args()
    listed = list_calls(arguments.python)
    calls = listed["calls"]
    if arguments.tenth:
        calls = tenth(calls)
    if arguments.names:
        calls = [call for call in calls if call["op"] in arguments.names]
    results = trace(calls, arguments.build, arguments.python, _show_progress)
    counts = summary(results)
    _print(listed["torch"], results, counts)
    if arguments.json:
        arguments.json.write_text(json.dumps(
            {"torch": listed["torch"], "summary": counts, "calls": results}, indent=1) + "\n")
    return 1 if problems(results) else 0


def _show_progress(done, total):
    if sys.stderr.isatty():
        end = "\r" if done < total else "\n"
        print("%d of %d calls" % (done, total), end=end, file=sys.stderr, flush=True)


def _print(version, results, counts):
    print("torch", version)
    for name, count in counts.items():
        print("%-20s %s" % (name, ", ".join("%d %s" % (number, what)
                                            for what, number in count.items())))
    for title, wanted in (
            ("Not traced:", lambda result: result["outcome"] != "traced"),
            ("Traced, and the results differ:",
             lambda result: result["outcome"] == "traced" and result["repeatable"]
             and not result["equal"]),
            ("Traced; two untraced runs differ:",
             lambda result: result["outcome"] == "traced" and not result["repeatable"]),
            ("Traced; no kernel with a definition:",
             lambda result: result["outcome"] == "traced" and result["kernel"] is None)):
        found = [result for result in results if wanted(result)]
        if found:
            print("\n" + title)
        for result in found:
            why = EXCEPTIONS.get(_key(result)) or result.get("error") or result.get("died") or (
                "" if result["dispatched"] else "it calls no op")
            print("  %s%s  %s" % (result["op"], " --backward" * result["backward"], why))


if __name__ == "__main__":
    sys.exit(main())
