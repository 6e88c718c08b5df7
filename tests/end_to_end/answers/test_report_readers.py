"""Readers of a report's JSON: optrace.load() and C++ programs. The JSON is reproducible."""
import json
import os
import random
import re
import subprocess
import textwrap

import pytest

from page_data import page_data, page_in_frame

USAGE = 2


@pytest.fixture(scope="module")
def files(optrace, python, tmp_path_factory):
    """A folder with a.trace, and a.json made from it."""
    folder = tmp_path_factory.mktemp("files")
    result = optrace("run", "--python", python, "--trace", folder / "a.trace", "-o",
                     folder / "tree", "-c",
                     "import torch; torch.nn.Conv2d(1, 4, 3)(torch.ones(1, 1, 8, 8))")
    assert result.returncode == 0, result.stderr
    result = optrace("report", folder / "a.trace", "--format", "json", "-o", folder / "a.json")
    assert result.returncode == 0, result.stderr
    return folder


@pytest.fixture
def program(build, python, run_program, tmp_path):
    """program(code, *arguments): runs the code with optrace; returns its output, parsed as JSON."""
    def run(code, *arguments):
        ended = run_program(
            [python, "-B", "-c", textwrap.dedent(code), *map(str, arguments)],
            env={**os.environ, "PYTHONPATH": str(build / "python")}, cwd=tmp_path)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return json.loads(ended.stdout)
    return run


def test_load_reads_traces_and_reports(program, files, tmp_path):
    said = program("""
        import json, optrace, pathlib, sys
        trace = optrace.load(sys.argv[1])
        report = optrace.load(pathlib.Path(sys.argv[2]))
        assert isinstance(report, optrace.Trace)
        assert "torch" not in sys.modules

        def plain(frame):
            return {"layer": frame.layer, "name": frame.name, "symbol": frame.symbol,
                    "library": frame.library, "source": frame.source, "op": frame.op,
                    "thread": frame.thread, "calls": frame.calls, "detail": frame.detail,
                    "children": [plain(child) for child in frame.children]}

        errors = []
        for attempt in (report.start, lambda: report.to_json(all=True),
                        lambda: report.save("x.trace"), lambda: report.check("lunches <= 1")):
            try:
                attempt()
            except optrace.Error as error:
                errors.append(str(error))
        rules = ["calls aten::conv2d == 1", "never calls aten::mul", "calls aten::mul"]
        checks = [it.check(rules) for it in (trace, report)]
        print(json.dumps({
            "json": [trace.to_json(), report.to_json()], "html": report._repr_html_(),
            "frames": [plain(frame) for frame in report.frames], "tree": report.report(),
            "errors": errors, "texts": [str(check) for check in checks],
            "status": [check.status for check in checks], "repr": repr(checks[0]),
            "junit": checks[0].report("junit"), "check": checks[0].report(format="json"),
            "rules": checks[0].rules, "bool": [bool(checks[0]), bool(trace.check(rules[:2]))],
            "unknown": report.check("never calls aten::bogus").status}))
        """, files / "a.trace", files / "a.json")
    written = (files / "a.json").read_text()
    assert said["json"] == [written, written]
    assert said["frames"] == json.loads(written)["roots"]
    assert "aten::conv2d" in said["tree"]
    assert "aten::conv2d" in page_data(page_in_frame(said["html"]))["strings"]
    loaded, everything, saved, rule = said["errors"]
    assert "loaded from a file" in loaded and "--all" in everything
    assert "can't be saved as a trace" in saved and "lunches" in rule
    assert said["status"] == ["failed"] * 2 and said["texts"][0] == said["texts"][1]
    assert "failed  calls aten::mul: never called" in said["texts"][0]
    assert said["repr"] == "<optrace.Check failed: 2 of 3 rules passed>"
    assert said["junit"].startswith("<?xml") and said["bool"] == [False, True]
    assert json.loads(said["check"])["rules"] == said["rules"] and len(said["rules"]) == 3
    assert said["unknown"] == "error"


def test_reports_of_other_versions(program, optrace, files, repository, validate, tmp_path):
    """Reports of older and of newer minor versions are read, those of another major one refused.

    fixtures/reports/first.json was written by the first version.
    """
    first = repository / "fixtures/reports/first.json"
    validate(json.loads(first.read_text()), "report")
    newer = json.loads((files / "a.json").read_text())
    newer["added"] = {"later": [1]}
    newer["torch"]["added"] = 1
    pending = list(newer["roots"])
    while pending:
        frame = pending.pop()
        frame["added"] = [{}]
        frame["detail"] = {**(frame["detail"] or {}), "added": {"x": 1}}
        pending += frame["children"]
    (tmp_path / "newer.json").write_text(json.dumps(newer))
    (tmp_path / "major.json").write_text(
        (files / "a.json").read_text().replace("optrace.report/1", "optrace.report/2", 1))
    code = """
        import json, optrace, sys
        try:
            t = optrace.load(sys.argv[1])
            pending, names = list(t.frames), []
            while pending:
                names.append(pending[-1].name)
                pending += pending.pop().children
            print(json.dumps([names, str(t.check("calls aten::conv2d == 1")), t.report()]))
        except optrace.Error as error:
            print(json.dumps(str(error)))
        """
    for path in (first, tmp_path / "newer.json"):
        names, check, tree = program(code, path)
        assert "at::_ops::conv2d::call" in names and check.endswith("1 of 1 rule passed\n")
        assert "aten::conv2d" in tree
        assert optrace("check", path, "--expect", "calls aten::conv2d").returncode == 0
    assert "optrace.report/2, not optrace.report/1" in program(code, tmp_path / "major.json")
    result = optrace("compare", first, first)
    assert result.returncode == 0, result.stdout + result.stderr


def hostile(report, trace, folder):
    """Yields files that are neither a trace nor a report, each with a part of the message."""
    def file(name, content):
        path = folder / name
        path.write_bytes(content)
        return path
    whole = report.read_bytes()
    deep = b"[" * 300_000
    head = b'{"schema": "optrace.report/1", "roots": ['
    yield folder, "not a regular file"
    os.mkfifo(folder / "pipe.json")
    yield folder / "pipe.json", "not a regular file"
    yield folder / "missing.json", "No such file"
    yield file("empty.json", b""), "it is empty"
    for length in (1, 100, len(whole) // 2, len(whole) - 3):
        yield file(f"cut{length}.json", whole[:length]), "not a JSON object"
    yield file("deep.json", b'{"a":' + deep), "not a JSON object"
    yield file("deep_detail.json", head + b'{"layer": "kernel", "name": "f", "children": [], '
               b'"detail": {"x": ' + deep + b"]" * len(deep) + b"}}]}"), "nested too deep"
    yield file("latin.json", whole.replace(b"aten::conv2d", b"aten::\xe9\xff", 1)), \
        "not a JSON object"
    yield file("list.json", b"[]"), "not an optrace trace"
    yield file("type.json", re.sub(rb'"calls": \d+', b'"calls": "many"', whole, count=1)), "`calls`"
    for number in (b"-1", b"1.5", b"18446744073709551616", b"1e999"):
        yield file("number" + number.decode() + ".json",
                   re.sub(rb'"thread": \d+', b'"thread": ' + number, whole, count=1)), \
        "is not a report"
    yield file("check.json", b'{"schema": "optrace.check/1", "rules": []}'), "optrace.check/1"
    yield file("escape.json", b'{"schema": "\\u001b[31m\\u202e"}'), "is not a report"
    yield file("cut.trace", trace.read_bytes()[:500]), "trace"


def test_hostile_files(program, files, tmp_path):
    cases = list(hostile(files / "a.json", files / "a.trace", tmp_path))
    code = """
        import json, optrace, sys
        said = []
        for path in sys.argv[1:]:
            try:
                optrace.load(path).report()
                said.append("read")
            except optrace.Error as error:
                said.append(str(error))
        print(json.dumps(said))
        """
    said = program(code, *(path for path, words in cases))
    for (path, words), text in zip(cases, said):
        assert words in text and path.name in text, (path.name, text)
        assert "\x1b" not in text and "\u202e" not in text
    # Files with randomly changed bytes are refused, or read and shown.
    seed = random.Random(5)
    whole = (files / "a.json").read_bytes()
    paths = []
    for number in range(200):
        spoiled = bytearray(whole)
        for _ in range(seed.choice((1, 1, 8))):
            spoiled[seed.randrange(len(spoiled))] = seed.randrange(256)
        paths.append(tmp_path / f"spoiled{number}.json")
        paths[-1].write_bytes(spoiled)
    assert len(program(code, *paths)) == len(paths)


def test_a_cpp_program_reads_reports(run_program, build, repository, files, tmp_path):
    """The example of docs/report-format.md builds and runs with only the installed files."""
    prefix, source, binary = tmp_path / "prefix", tmp_path / "source", tmp_path / "binary"

    def run(*arguments, expect=0):
        ended = run_program([*map(str, arguments)], timeout=300)
        assert ended.returncode == expect, ended.stdout + ended.stderr
        return ended

    run("cmake", "--install", build, "--component", "reader", "--prefix", prefix)
    installed = sorted(str(path.relative_to(prefix)) for path in prefix.rglob("*")
                       if path.is_file())
    headers = {f"include/optrace/{header}" for header in (
        "report_reader.h", "report/model/frame.h", "pytorch/functions/layer.h",
        "pytorch/source/line_interval.h")}
    assert headers <= set(installed) and len(installed) == 15, installed
    document = (repository / "docs/report-format.md").read_text()
    source.mkdir()
    (source / "program.cpp").write_text(document.split("```cpp\n")[1].split("```")[0])
    (source / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.20)\nproject(program CXX)\n"
        "set(CMAKE_CXX_STANDARD 17)\nadd_compile_options(-Wall -Wextra -Wpedantic -Werror)\n"
        "add_executable(program program.cpp)\n"
        + document.split("```cmake\n")[1].split("```")[0])
    run("cmake", "-S", source, "-B", binary, f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", binary)
    said = run(binary / "program", files / "a.json").stdout.splitlines()
    expected = []
    pending = json.loads((files / "a.json").read_text())["roots"]
    while pending:
        frame = pending.pop()
        if frame["layer"] == "library":
            library = (frame["detail"] or {}).get("library", "")
            expected.append(f"{library}: {frame['name']} x{frame['calls']}")
        pending += frame["children"]
    assert said == expected and said
    assert "is not a JSON object" in run(binary / "program", files / "a.trace", expect=1
                                      ).stderr.replace("it is", "is")
    for path in (tmp_path, tmp_path / "missing"):
        assert "can't be read" in run(binary / "program", path, expect=1).stderr
    libraries = run("ldd", binary / "program").stdout
    assert "fmt" not in libraries and "yaml" not in libraries


def test_the_same_trace_gives_the_same_bytes(optrace, run_program, files, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    locales = subprocess.run(["locale", "-a"], capture_output=True, text=True).stdout.split()
    expected = (files / "a.json").read_text()
    settings = [{"PYTHONHASHSEED": "1", "TZ": "Pacific/Auckland", "COLUMNS": "20"},
                {"PYTHONHASHSEED": "77", "TZ": "UTC", "COLUMNS": "500", "TERM": "dumb"},
                {"LANG": None, "LC_ALL": None, "HOME": str(elsewhere), "TERM": "xterm-256color",
                 "CLICOLOR_FORCE": "1", "FORCE_COLOR": "1"},
                *({"LC_ALL": name, "LANG": name} for name in ["C", "POSIX", *locales[-3:]])]
    for number, setting in enumerate(settings):
        trace = files / "a.trace" if number % 2 else os.path.relpath(files / "a.trace", elsewhere)
        result = optrace("report", trace, "--format", "json", environment=setting, cwd=elsewhere)
        assert result.returncode == 0 and result.stdout == expected, setting
    result = optrace("report", files / "a.trace", "--format", "json", "-o", tmp_path / "file")
    assert (tmp_path / "file").read_text() == expected
    # The same on a terminal: util-linux's `script` provides one, which writes \r\n.
    written = run_program(["script", "-qec",
                           " ".join([*optrace.command, "report", str(files / "a.trace"),
                                     "--format", "json"]), str(tmp_path / "typescript")])
    assert written.stdout.replace("\r\n", "\n") == expected


def test_two_recordings_differ_in_numbers_of_the_system_only(optrace, python, tmp_path):
    def recorded(environment):
        result = optrace("conv2d", "--python", python, "--format", "json",
                         environment=environment, cwd=tmp_path, timeout=300)
        assert result.returncode == 0, result.stderr
        return result.stdout
    recorded({})  # Fills the caches.
    one, two = (recorded({"PYTHONHASHSEED": seed, "TZ": zone, "COLUMNS": columns})
                for seed, zone, columns in (("3", "UTC", "40"), ("4", "Asia/Tokyo", "200")))

    def without_threads(text):
        return re.sub(r'"thread": \d+', '"thread": 0', text)
    assert without_threads(one) == without_threads(two)
    # Contains no address: no number but a thread's is that large, and none is hexadecimal.
    assert not re.search(r"\b0x[0-9a-f]{6,}", one)
    assert not re.search(r"(?<![\w.])\d{10,}\b", without_threads(one))
    for key in ("time", "duration_ns", "date", "started"):
        assert f'"{key}":' not in one
