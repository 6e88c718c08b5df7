"""`optrace findings`: each rule finds its program, at its line, and nothing else."""
import collections
import json
import os
import re
import shutil

import pytest

USAGE = 2
RULES = {"implicit-copy", "host-wait", "layout-copy", "repeated-cast", "slow-kernel", "tiny-ops",
         "launch-bound", "repeated-op", "graph-break", "recompile", "unused-graph",
         "unread-gradient", "idle-worker", "for-loop-optimizer"}

PROGRAMS = [("slow_on_cpu", []), ("slow_on_cuda", ["--dry-run", "--devices", "2"]),
            ("slow_when_compiled", [])]


@pytest.fixture(scope="module")
def traced(optrace, python, repository, tmp_path_factory):
    """traced(name, *options) -> the trace of a program in tests/programs, which is beside it."""
    folder = tmp_path_factory.mktemp("findings")

    def trace(name, *options):
        file = folder / f"{name}.trace"
        program = folder / f"{name}.py"
        if not file.exists():
            shutil.copy(repository / f"tests/programs/{name}.py", program)
            result = optrace("run", "--python", python, *options, "--trace", file, "-o",
                             folder / f"{name}.txt", program, timeout=300)
            assert result.returncode == 0, result.stderr
        return file

    return trace


def expected_in(program):
    """Returns the lines with their rules, as the comments of the program tell."""
    lines = program.read_text().splitlines()
    return {(number, comment[1]) for number, line in enumerate(lines, 1)
            if (comment := re.search(r"  # ([a-z-]+)$", line))}


@pytest.mark.parametrize("name, options", PROGRAMS)
def test_each_rule_finds_its_lines_and_no_others(optrace, traced, validate, name, options):
    trace = traced(name, *options)
    result = optrace("findings", trace, "--format", "json")
    assert (result.returncode, result.stderr) == (0, "")
    answer = json.loads(result.stdout)
    validate(answer, "findings")
    program = trace.with_suffix(".py")
    assert {finding["file"] for finding in answer["findings"]} == {str(program)}
    found = {(finding["line"], finding["rule"]) for finding in answer["findings"]}
    assert found == expected_in(program)
    costs = [finding["cost_ns"] for finding in answer["findings"]]
    assert costs == sorted(costs, reverse=True)
    assert all(costs) if not options else not any(costs)  # Those of a dry run are unknown.
    assert all(finding["evidence"] for finding in answer["findings"])
    shares = [finding["share"] for finding in answer["findings"] if "share" in finding]
    assert bool(shares) == (not options)
    assert sum(shares) <= 2  # Several rules may find one op.
    passes = {finding["rule"]: finding["pass"] for finding in answer["findings"]}
    assert passes.get("for-loop-optimizer", "optimizer") == "optimizer"
    on_one = [finding for finding in answer["findings"]
              if finding["function"] == "waits_for_the_second"]
    assert [(one["calls"], "tensor on cuda:1, 2 times" in one["message"]) for one in on_one] == (
        [(2, True)] if name == "slow_on_cuda" else [])
    reasons = " ".join(finding.get("reason", "") for finding in answer["findings"])
    expected = {"slow_on_cpu": "oneDNN has no convolution of float64",
                "slow_on_cuda": "cuDNN is switched off"}
    assert expected.get(name, "") in reasons


@pytest.mark.verify
@pytest.mark.parametrize("name, options", PROGRAMS[:2])
def test_calls_are_those_that_the_profiler_counts(optrace, python, repository, traced, name,
                                                  options):
    trace = traced(name, *options)
    program, counted = trace.with_suffix(".py"), trace.with_suffix(".lines.json")
    profiled = [repository / "tests/truth/profiled_lines.py", program, counted]
    run = optrace("run", *options, "--python", python, "-o", trace.with_suffix(".none"), *profiled,
                  timeout=300)
    assert run.returncode == 0, run.stderr
    calls, direct, in_function = collections.Counter(), collections.Counter(), collections.Counter()
    for function, line, op, number, by_line in json.loads(counted.read_text()):
        calls[line, op] += number
        direct[line, op] += by_line
        in_function[function] += by_line
    stated = collections.Counter()
    for finding in json.loads(optrace("findings", trace, "--format", "json").stdout)["findings"]:
        op = finding["evidence"][-1]["name"].split(".")[0]
        if finding["rule"] == "tiny-ops":
            assert 1000 <= finding["calls"] <= in_function[finding["message"].split("`")[1]]
        elif op.startswith("aten::") and finding["pass"] == "forward":
            # One call is for another device: too few for a finding.
            left_out = "`waits_for_the_second`" in finding["message"]
            stated[finding["rule"], finding["line"], op] += finding["calls"] + left_out
    assert len(stated) > 20
    for (rule, line, op), number in stated.items():
        place = line, op
        if rule in ("host-wait", "layout-copy", "slow-kernel"):
            assert number == calls[place], (rule, place)
        elif rule == "repeated-op":
            assert 10 <= number <= direct[place], (rule, place)
        else:  # A line may have other copies and casts, too.
            assert number <= calls[place], (rule, place)


def test_rules_have_as_many_lines_that_only_look_alike(repository):
    programs = "".join((repository / f"tests/programs/{name}.py").read_text() for name in (
        "slow_on_cpu", "slow_on_cuda", "slow_when_compiled", "slow_in_workers",
        "trained_in_part"))
    found = collections.Counter(re.findall(r"  # ([a-z-]+)$", programs, re.MULTILINE))
    alike = collections.Counter(re.findall(r"  # not ([a-z-]+)$", programs, re.MULTILINE))
    # Those of launch-bound, which needs a GPU's times, are in findings_test.cpp.
    for rule in RULES - {"launch-bound"}:
        assert found[rule] >= 10 and alike[rule] >= 10, (rule, found[rule], alike[rule])


def test_gradients_that_nothing_reads_are_found(optrace, python, repository, build, run_program,
                                                tmp_path):
    program = repository / "tests/programs/trained_in_part.py"
    ended = run_program([python, program, tmp_path], timeout=300,
                        env={**os.environ, "PYTHONPATH": str(build / "python")})
    assert ended.returncode == 0, ended.stderr
    found = {}
    for trace in tmp_path.glob("*.trace"):
        answer = json.loads(optrace("findings", trace, "--format", "json").stdout)
        found |= {(finding["line"], finding["rule"]): finding["message"]
                  for finding in answer["findings"] if finding["rule"] == "unread-gradient"}
    assert found.keys() == expected_in(program)
    messages = " ".join(found.values())
    assert "(7 float32, 7×5 float32)" in messages and "(4×5 float32)" in messages


def test_workers_that_fetch_nothing_are_found(optrace, traced):
    trace = traced("slow_in_workers", "--children")
    traces = [trace, *trace.parent.glob("slow_in_workers.*.trace")]
    assert len(traces) > 30
    summary = optrace("report", *traces).stdout
    assert f"optrace findings {trace} {trace.with_suffix('')}.*.trace  " in summary
    answer = json.loads(optrace("findings", *traces, "--format", "json").stdout)
    found = [(finding["line"], finding["rule"]) for finding in answer["findings"]]
    assert sorted(found) == sorted(expected_in(trace.with_suffix(".py")))
    assert {finding["calls"] for finding in answer["findings"]} == {1, 2}
    # What runs while a worker is forked is called in the parent alone.
    checked = optrace("check", trace, "--expect", "calls __main__.<module> == 1", "--expect",
                      "calls __main__.fewer_batches_than_workers == 1")
    assert checked.returncode == 0, checked.stdout


def test_check_takes_the_rules(optrace, traced):
    trace = traced("slow_on_cpu")
    lines = {rule: line for line, rule in expected_in(trace.with_suffix(".py"))}
    for rule in ("unused-graph", "recompile", "repeated-op"):
        result = optrace("check", trace, "--expect", f"no finding {rule}")
        assert result.returncode == 1, result.stderr
        assert f"{rule}: `" in result.stdout
    passed = optrace("check", trace, "--expect", "no finding implicit-copy")
    assert (passed.returncode, passed.stderr) == (0, "")
    any_rule = optrace("check", trace, "--expect", "no finding", "--format", "sarif")
    assert any_rule.returncode == 1
    places = [place["physicalLocation"]["region"]["startLine"]
              for result in json.loads(any_rule.stdout)["runs"][0]["results"]
              for place in result["locations"]]
    assert set(places) >= set(lines.values())
    wrong = optrace("check", trace, "--expect", "no finding implicit-cpy")
    assert wrong.returncode == USAGE and "Did you mean implicit-copy" in wrong.stderr


def test_the_text_has_the_same_findings(optrace, traced):
    trace = traced("slow_on_cpu")
    text = optrace("findings", trace).stdout
    listed = re.findall(r"^([a-z-]+)  \S+\.py:(\d+)  [\d.]+ \S*s(?:, .* of the time in ops)?$",
                        text, re.MULTILINE)
    found = collections.Counter(listed)
    assert {(int(line), rule) for rule, line in found} == expected_in(trace.with_suffix(".py"))
    assert ("`little` calls ops on tensors of at most 256 elements in 3 lines, 2000 times in 1 call"
            in text)
    assert f"{sum(found.values())} findings\n" in text
    summary = optrace("report", trace).stdout
    more = re.search(r" and (\d+) more findings, see optrace findings\n", summary)
    shown = listed[:len(listed) - int(more[1])]
    assert 5 <= len(shown) <= 10
    for rule, line in shown:
        assert f"slow_on_cpu.py:{line} {rule}: " in summary
    assert re.search(r"^allocated on cpu: [\d.]+ [KM]iB in [\d,]+ new tensors", summary,
                     re.MULTILINE)
    assert len(summary.splitlines()) <= 60


def test_rules_are_listed_and_switched_off(optrace, traced):
    listed = json.loads(optrace("findings", "--format", "json").stdout)
    assert {rule["name"] for rule in listed["rules"]} == RULES
    text = optrace("findings").stdout
    assert all(f"{rule}: " in text for rule in RULES)
    trace = traced("slow_on_cpu")
    some = optrace("findings", trace, "--ignore", "slow-kernel", "--ignore", "layout-copy").stdout
    assert "tiny-ops  " in some and "slow-kernel" not in some and "layout-copy" not in some
    first = re.match(r"([a-z-]+)  ", optrace("findings", trace).stdout)[1]
    assert f" {first}: " in optrace("report", trace).stdout
    assert f" {first}: " not in optrace("report", trace, "--ignore", first).stdout
    for arguments in (["findings", trace], ["report", trace]):
        refused = optrace(*arguments, "--ignore", "slow-kernl")
        assert refused.returncode == USAGE and "Did you mean slow-kernel?" in refused.stderr
    assert optrace("findings", "/nowhere").returncode == USAGE


def test_every_rule_is_documented(repository):
    text = (repository / "docs/findings.md").read_text()
    assert set(re.findall(r"^## ([a-z-]+)$", text, re.MULTILINE)) == RULES
