"""Python events of the agent, in every available interpreter."""
import collections
import functools
import glob
import json
import os
import struct

import pytest

INTERPRETERS = sorted(
    path for path in glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python"))
    if int(path.split("/")[-3].split(".")[1]) >= 9)
KINDS = {0xF0000000: "call", 0xF0000001: "return", 0xF0000002: "builtin call",
         0xF0000003: "builtin return"}
Event = collections.namedtuple("Event", "kind name file line")


PYTHON_POSITION = 0xF000000C
CALL_RECORD = 0xF0000009


@functools.cache
def line_at(table, first_line, minor_version, offset):
    """Returns the line of an instruction. This interpreter reads co_linetable of 3.11 and later;
    older tables are pairs of bytes and lines (Objects/lnotab_notes.txt)."""
    if minor_version >= 11:
        code = (lambda: None).__code__.replace(co_linetable=table, co_firstlineno=first_line)
        return next(line for start, end, line in code.co_lines() if start <= offset < end)
    line, end = first_line, 0
    for size, lines in struct.iter_unpack("Bb", table):
        end += size
        if minor_version < 10 and offset < end:
            return line  # The lines apply after the bytes.
        line += lines if lines != -128 else 0
        if minor_version == 10 and offset < end:
            return line
    assert minor_version < 10
    return line


CHUNK = 64 << 10


def sections(region):
    """Yields the sections of a region (target/interface/recording_format.h), each with its kind."""
    at, = struct.unpack_from("<Q", region, 24)
    used, = struct.unpack_from("<Q", region, 96)
    end = at + used
    while at < end:
        kind, _, size = struct.unpack_from("<IIQ", region, at)
        yield kind, region[at + 16:at + 16 + size]
        at += 16 + (size + 7) // 8 * 8


def events_by_thread(region):
    """Returns the events of each thread that has recorded into a region."""
    begin, count = struct.unpack_from("<QI", region, 40)
    chunks = [region[at:at + CHUNK] for at in range(begin, begin + count * CHUNK, CHUNK)]
    taken = [chunk for chunk in chunks if struct.unpack_from("<I", chunk)[0] != 0]
    threads = {}
    for chunk in sorted(taken, key=lambda chunk: struct.unpack_from("<Q", chunk, 8)):
        _, thread, _, lost, _, first = struct.unpack_from("<IIQQII", chunk)
        assert lost == 0
        threads.setdefault((thread, first), []).extend(
            event for event in struct.iter_unpack("<IIQQQ", chunk[32:]) if event[-1] != 0)
    return list(threads.values())


def python_events(path):
    """Returns the Python events of a recording, by thread. A record is an event with its text as
    the name."""
    region = path.read_bytes()
    functions, events = [], []
    tables = []  # Per function: line table, first line, minor version of Python.
    records = {struct.unpack_from("<I", section)[0]: section[8:].decode()
               for kind, section in sections(region) if kind == 6}
    for kind, section in sections(region):
        if kind == 3:
            first, name, file, table, minor, _ = struct.unpack_from("<IIIIII", section)
            functions.append((section[24:24 + name].decode(),
                              section[24 + name:24 + name + file].decode()))
            tables.append((section[24 + name + file:24 + name + file + table], first, minor))
    for recorded_events in events_by_thread(region):
        position = 0
        for event, line, _, function, _ in recorded_events:
            if event == PYTHON_POSITION:
                position = line_at(*tables[function], line)
            elif event == CALL_RECORD:
                events.append(Event("record", records[line], "", position))
            else:
                events.append(Event(*[KINDS[event], *functions[function], line or position]))
    return events


def line_of(program, text):
    return 1 + next(i for i, line in enumerate(program.read_text().splitlines()) if text in line)


@pytest.fixture
def traced(repository, build, run_program, tmp_path):
    program = repository / "tests/agent/python_events_program.py"

    def run(interpreter, *arguments):
        recording = tmp_path / "recording"
        done = run_program([interpreter, "-B", str(program),
                            str(build / "lib/optrace/liboptrace_agent.so"), str(recording),
                            *arguments])
        assert done.returncode == 0 and done.stdout == "done\n", done.stderr
        return program, python_events(recording)

    return run


def balanced(events):
    """Returns True if every call has a return; asserts that the returns are in the right order."""
    open_calls = []
    for event in events:
        if event.kind in ("call", "builtin call"):
            open_calls.append(event)
        elif open_calls:
            assert open_calls.pop().name == event.name
    return not open_calls


IN_EACH_INTERPRETER = pytest.mark.parametrize(
    "interpreter", INTERPRETERS or [pytest.param("none", marks=pytest.mark.skip(
        reason="cannot run here: no interpreters of pyenv"))],
    ids=lambda path: path.split("/")[-3] if "/" in path else path)


@IN_EACH_INTERPRETER
def test_calls_of_every_kind_have_names_and_lines(traced, interpreter):
    program, events = traced(interpreter)
    after_work = next(i for i, event in enumerate(events)
                      if event.kind == "return" and event.name == "__main__.work")
    in_thread_of_c = [(event.kind, event.name) for event in events[after_work + 1:]
                      if event.name in ("__main__.called_by_c", "math.cos")]
    assert in_thread_of_c == [
        ("call", "__main__.called_by_c"), ("builtin call", "math.cos"),
        ("builtin return", "math.cos"), ("return", "__main__.called_by_c")]
    events = events[:after_work + 1]
    assert balanced(events)
    calls = [(event.kind, event.name) for event in events if event.kind.endswith("call")]
    qualified = not any(version in interpreter for version in ("/3.9.", "/3.10."))
    wrapper = "decorated.<locals>.wrapper" if qualified else "wrapper"
    assert calls[:12] == [
        ("call", "__main__.work"),
        ("call", "__main__.Derived.method"),
        ("call", "__main__.Base.method"),
        ("builtin call", "math.sqrt"),
        ("call", "__main__.Base.of_class"),
        ("builtin call", "builtins.len"),
        ("call", "__main__.Base.value"),
        ("call", "__main__." + wrapper),
        ("call", "__main__.Base.wrapped"),
        ("builtin call", "builtins.list.append"),
        ("call", "__main__.generator"),
        ("call", "__main__.generator"),
    ]
    assert ("call", "__main__.fails") in calls
    assert ("call", "contextlib.suppress.__exit__") in calls
    method = events[1]
    assert (method.file, method.line) == (str(program), line_of(program, "# line: method"))
    append = next(event for event in events if event.name == "builtins.list.append")
    assert (append.file, append.line) == ("", line_of(program, "# line: append"))


def test_torch_builtins_carry_their_public_names(traced, python):
    _, events = traced(python, "torch")
    builtins = [event.name for event in events if event.kind == "builtin call"]
    for name in ("torch.conv2d", "torch.Tensor.add_", "torch.Tensor.detach", "torch.relu"):
        assert name in builtins, builtins
    assert "torch.nn.functional.relu" in [event.name for event in events if event.kind == "call"]


@IN_EACH_INTERPRETER
def test_the_programs_own_profilers_see_what_they_see_untraced(
        repository, build, run_program, tmp_path, interpreter):
    command = [interpreter, "-B", str(repository / "tests/agent/profilers_program.py")]
    alone = run_program(command)
    recording = tmp_path / "recording"
    traced = run_program([*command, str(build / "lib/optrace/liboptrace_agent.so"),
                          str(recording)])
    assert alone.returncode == 0, alone.stderr
    assert traced.returncode == 0, traced.stderr
    seen, expected = json.loads(traced.stdout), json.loads(alone.stdout)
    assert seen == expected
    assert ["call", "during", ""] in expected["plain"]
    names = [event.name for event in python_events(recording) if event.kind == "call"]
    # The agent's profile function stays active during each scene and after it.
    for scene in expected:
        own = names[names.index("__main__." + scene):]
        own = own[:own.index("__main__.take_seen")]
        if scene not in ("heard_of", "in_threads", "in_all_threads", "that_fails"):
            assert "__main__.during" in own, scene
        if scene not in ("heard_of", "in_threads", "in_all_threads", "one_after_the_other"):
            assert "__main__.after" in own, scene
    # The agent finds that its profile function was removed, sets it again and reports this.
    assert struct.unpack_from("<I", recording.read_bytes(), 176) == (1,)
    assert "__main__.during" in names[names.index("__main__.taken_away"):]


@pytest.fixture
def recorded(repository, build, run_program, tmp_path, interpreter):
    """recorded(program) -> the recording that a program of tests/agent makes."""
    def record(program):
        recording = tmp_path / "recording"
        done = run_program([interpreter, "-B", str(repository / "tests/agent" / program),
                            str(build / "lib/optrace/liboptrace_agent.so"), str(recording)])
        assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
        return recording

    return record


@IN_EACH_INTERPRETER
def test_naming_runs_nothing_of_the_programs(recorded):
    recording = recorded("hostile_names_program.py")
    names = [event.name for event in python_events(recording) if event.kind.endswith("call")]
    for name in ("builtins.list.append", "builtins.object.__sizeof__", "builtins.dict.setdefault",
                 "builtins.str.upper", "__main__.Listing.mro", "hostile.text.floor", "ceil",
                 "math.tan", "lonely", "spoken.lonely", "lone\\udc80.lonely"):
        assert name in names, (name, names[:60])
    # An alarm may go off before the call that it is for.
    assert len({name for name in names if name.startswith("somewhere.")}) > 20
    assert any(name.endswith("method") for name in names)


@IN_EACH_INTERPRETER
def test_variables_that_say_why_not(recorded):
    recording = recorded("why_not_program.py")
    events = python_events(recording)
    found = []
    for event, following in zip(events, events[1:]):
        if event.kind == "record":
            assert following.kind == "return"
            value = json.loads(event.name)
            assert value["kind"] == "variables"
            found.append((following.name, value["variables"]))
    scope = "torch.nn.modules.example."  # Of no other module.
    fast_path = "why_not_fast_path"
    assert found == [
        (scope + "plain", {fast_path: "a reason"}),
        (scope + "plain", {fast_path: "a reason"}),
        (scope + "empty", {fast_path: ""}),
        (scope + "two", {"why_not_first": "1", "why_not_second": "3"}),
        (scope + "characters",
         {fast_path: 'a "quote", \\, \n, \u00e9, \u20ac, \U0001f600, \\udc80'}),
        (scope + "long", {fast_path: "x" * 999}),
        (scope + "derived_text", {fast_path: "derived"}),
        (scope + "fails", {fast_path: "fails"}),
        (scope + "argument", {fast_path: "argument"}),
    ]


@IN_EACH_INTERPRETER
def test_functions_end_as_they_do_untraced(repository, build, run_program, tmp_path, interpreter):
    recording = tmp_path / "recording"
    count = 10_000
    program = repository / "tests/agent/ended_functions_program.py"
    done = run_program([interpreter, "-B", str(program),
                        str(build / "lib/optrace/liboptrace_agent.so"), str(recording), str(count)])
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    events = python_events(recording)
    ours = [i for i, event in enumerate(events)
            if (event.kind, event.file) == ("call", "<string>") and "<module>" not in event.name]
    assert [events[i].name.split(".")[-1] for i in ours] == [f"f{i}" for i in range(count)]
    for number, i in enumerate(ours):
        assert (events[i + 1].kind, events[i + 1].name) == ("builtin call", "builtins.abs")
        assert events[i + 1].line == 2 + number % 7, number
    called = {event.name for event in events if event.kind == "builtin call"}
    assert {"builtins.list.append", "first_at_address", "second_at_address"} <= called
