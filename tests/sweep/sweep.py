"""Traces every op of PyTorch's OpInfo database, every nn.Module and every optimizer on the CPU,
forward and, where it is supported, backward, and reports the outcome of each:

    sweep.py --build build --python .venv/bin/python [--tenth] [--json FILE] [NAME...]

Each call runs twice before any probe is placed, and then while it is traced, from the same seed
and the same inputs; "equal" compares all results, gradients and changed arguments bit by bit. Calls
whose untraced runs differ from each other are counted separately, and so are those that return
uninitialized memory. Exit status 0: all calls except those in EXCEPTIONS were traced and have equal
results; 1: otherwise.
"""
import argparse
import collections
import json
import pathlib
import subprocess
import sys

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
CALLS_IN_ONE_PROCESS = 150

# Calls that can't be traced -> reason. Any other call that can't be traced is a failure.
_ABSTRACT = "has no forward() of its own"
_JITERATOR = "compiles for a GPU"
_CUDA_KERNEL = "has no kernel for the CPU"
EXCEPTIONS = {
    "nn.Container": _ABSTRACT,
    "nn.Module": _ABSTRACT,
    "nn.ModuleDict": _ABSTRACT,
    "nn.ModuleList": _ABSTRACT,
    "nn.ParameterDict": _ABSTRACT,
    "nn.ParameterList": _ABSTRACT,
    "nn.RNNBase": _ABSTRACT,
    "nn.RNNCellBase": _ABSTRACT,
    "nn.DataParallel": "needs a module to hold",
    "nn.TransformerDecoder": "needs a layer to hold",
    "jiterator_2inputs_2outputs": _JITERATOR,
    "jiterator_4inputs_with_extra_args": _JITERATOR,
    "jiterator_binary": _JITERATOR,
    "jiterator_binary_return_by_ref": _JITERATOR,
    "jiterator_unary": _JITERATOR,
    "torch._scaled_mm": _CUDA_KERNEL,
    "torch.ops.aten._efficient_attention_forward": _CUDA_KERNEL,
    "torch.ops.aten._flash_attention_forward": _CUDA_KERNEL,
}

# Ops that return uninitialized memory, which can be equal in two runs or not.
UNWRITTEN = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty",
             "new_empty_strided"}


def list_calls(python):
    """Returns the calls that this Python's torch offers: {"torch", "calls"}."""
    listed = subprocess.run(
        [python, "-B", REPOSITORY / "tests/sweep/list_ops.py",
         REPOSITORY / "target/python"], capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        raise RuntimeError(listed.stderr[-2000:])
    return json.loads(listed.stdout)


def tenth(calls):
    """Returns every tenth op of each kind, by sorted name, with all of its calls."""
    chosen = set()
    for kind in sorted({call["kind"] for call in calls}):
        names = sorted({call["op"] for call in calls if call["kind"] == kind})
        chosen.update((kind, name) for name in names[::10])
    return [call for call in calls if (call["kind"], call["op"]) in chosen]


def trace(calls, build, python, progress=lambda done, total: None):
    """Returns each call with the answer of trace_ops and an "outcome"."""
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
    """Returns counts for each kind of call and direction."""
    counts = {}
    for result in results:
        name = "%s %s" % (result["kind"], "backward" if result["backward"] else "forward")
        count = counts.setdefault(name, collections.Counter())
        count["calls"] += 1
        count[result["outcome"]] += 1
        if result["outcome"] != "traced":
            continue
        count["kernel with definition"] += result["kernel"] is not None
        count["unwritten memory"] += result["op"] in UNWRITTEN
        count["not repeatable untraced"] += (not result["repeatable"]
                                             and result["op"] not in UNWRITTEN)
        count["bit-equal"] += (result["repeatable"] and result["equal"]
                               and result["op"] not in UNWRITTEN)
        count["differs"] += _differs(result)
    return counts


def problems(results):
    """Returns the failures: results not traced or not bit-equal, and in no table of exceptions."""
    return [result for result in results
            if result["op"] not in EXCEPTIONS
            and (result["outcome"] != "traced" or _differs(result))]


def _differs(result):
    return result["repeatable"] and not result["equal"] and result["op"] not in UNWRITTEN


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
             lambda result: result["outcome"] == "traced" and _differs(result)),
            ("Traced; two untraced runs differ:",
             lambda result: result["outcome"] == "traced" and not result["repeatable"]),
            ("Traced; no kernel with a definition:",
             lambda result: result["outcome"] == "traced" and result["kernel"] is None)):
        found = [result for result in results if wanted(result)]
        if found:
            print("\n" + title)
        for result in found:
            why = EXCEPTIONS.get(result["op"]) or result.get("error") or result.get("died") or (
                "" if result["dispatched"] else "it calls no op")
            print("  %s%s  %s" % (result["op"], " --backward" * result["backward"], why))


if __name__ == "__main__":
    sys.exit(main())
