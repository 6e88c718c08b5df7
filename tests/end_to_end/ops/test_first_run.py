"""A program's first run is as correct as its tenth: with an empty cache and with the cache that
earlier runs filled, each program of tests/programs/ gives the same report except for times and
addresses.

A few programs are run, all but one of them by `make verify`, unless OPTRACE_TEST_PROGRAMS names
others (separated by blanks), or is `all`.
OPTRACE_TEST_RUNS is the number of runs of each, the first with an empty cache; the default is 2.
"""
import collections
import json
import os
import pathlib

import pytest

from report_frames import comparable, frames

PROGRAMS = pathlib.Path(__file__).resolve().parents[2] / "programs"
# Functions reached through tables, boxed calls, other threads and exceptions.
USUAL = ["function_transforms",
         *(pytest.param(name, marks=pytest.mark.verify) for name in (
             "custom_ops", "exceptions", "quantised_dynamic", "scripted", "views_in_place"))]
# Programs whose other processes are traced too.
WITH_CHILDREN = {"data_loader_workers", "ddp_gloo", "spawned"}
RUNS = int(os.environ.get("OPTRACE_TEST_RUNS", "2"))


def chosen():
    wanted = os.environ.get("OPTRACE_TEST_PROGRAMS", "").split()
    if not wanted:
        return USUAL
    everything = sorted(file.stem for file in PROGRAMS.glob("*.py"))
    if wanted == ["all"]:
        return everything
    assert set(wanted) <= set(everything), f"{PROGRAMS} has no {set(wanted) - set(everything)}"
    return wanted


@pytest.mark.parametrize("name", chosen())
def test_the_first_run_is_as_true_as_later_ones(optrace, python, build, run_program, tmp_path,
                                                name):
    environment = {"XDG_CACHE_HOME": tmp_path / "cache", "OPTRACE_CACHE_DIR": None,
                   # load_inline builds its extension only once.
                   "TORCH_EXTENSIONS_DIR": build / "torch_extensions"}
    program = PROGRAMS / f"{name}.py"
    if name == "extension":
        run_program([python, str(program)], timeout=600,
                    env={**os.environ, "TORCH_EXTENSIONS_DIR": str(build / "torch_extensions")})
    reports, outputs = [], []
    for number in range(RUNS):
        file = tmp_path / f"{number}.json"
        options = ["--children"] if name in WITH_CHILDREN else []
        trace = tmp_path / f"{number}.trace"
        ended = optrace("run", "--python", python, "--format", "json", "-o", file, "--trace", trace,
                        *options, program, environment=environment, timeout=300)
        assert ended.returncode == 0, ended.stderr
        assert "not traced" not in ended.stderr, ended.stderr
        outputs.append(ended.stdout)
        report = json.loads(file.read_text())
        # The order of sets differs from run to run, and with it the calls in an import of sympy.
        del report["python_calls"]
        reports.append(comparable(report))
    assert len(set(outputs)) == 1, outputs
    assert len(list(frames(reports[0]))) > 10
    for number, report in enumerate(reports[1:], 2):
        if report != reports[0]:
            pytest.fail(f"{name}: run {number} differs from the first, with an empty cache:\n" +
                        difference(reports[0], report), pytrace=False)
    check_names_what_ran(optrace, tmp_path / "0.json")
    if name not in WITH_CHILDREN:
        # Newly loaded libraries make calls while only the dynamic linker has them in its list.
        text = optrace("report", tmp_path / "0.trace", "--format", "text")
        assert text.returncode == 0, text.stderr
        assert "had to be inferred" not in text.stdout


def check_names_what_ran(optrace, file):
    """Asserts that `never calls NAME` fails for each name in the report."""
    names = sorted({name for frame in frames(json.loads(file.read_text()))
                    for name in (frame["name"], frame["op"],
                                 (frame["detail"] or {}).get("python_name"))
                    if name})
    rules = file.with_suffix(".rules.json")
    rules.write_text(json.dumps({"rules": [{"expect": f"never calls {name}"} for name in names]}))
    answer = file.with_suffix(".check.json")
    ended = optrace("check", file, "--expect", rules, "--format", "json", "-o", answer)
    assert ended.returncode == 1, ended.stderr
    verdicts = json.loads(answer.read_text())["rules"]
    assert len(verdicts) == len(names) > 10
    missed = [(rule["expected"], rule["found"]) for rule in verdicts if rule["status"] != "failed"]
    assert not missed


def paths(report):
    """Returns call path (names and lines, outermost first) -> number of calls."""
    taken = collections.Counter()
    pending: list[tuple] = [((), root) for root in report["roots"]]
    while pending:
        above, frame = pending.pop()
        source = frame["source"] or {}
        path = (*above, f"{frame['name']}:{source.get('line')}:{source.get('call_line')}")
        taken[path] += frame["calls"]
        pending += [(path, child) for child in frame["children"]]
    return taken


def difference(first, later):
    """Returns text on the outermost paths that only one run has, or that one took more often."""
    most = 8
    before, after = paths(first), paths(later)
    found = []
    for path in sorted(set(before) | set(after)):
        if before[path] == after[path]:
            continue
        if found and path[:len(found[-1])] == found[-1]:
            continue  # Below a path that differs.
        found.append(path)
    lines = [f"{len(before - after)} of {len(before)} ways are taken more often, or only, in the "
             f"first, {len(after - before)} of {len(after)} in the later; the outermost "
             f"{min(most, len(found))} of {len(found)} that differ:"]
    lines += [f"  {before[path]} -> {after[path]}  " + " > ".join(path[-3:])
              for path in found[:most]]
    if not found:
        others = [f"{key}: {first.get(key)} or {later.get(key)}"[:600]
                  for key in sorted(set(first) | set(later))
                  if key != "roots" and first.get(key) != later.get(key)]
        lines.append("  the same ways, with other details, or in another order: " +
                     next(detail_difference(first["roots"], later["roots"]), "; ".join(others)))
    return "\n".join(lines)


def detail_difference(before, after):
    for one, other in zip(before, after):
        if one["name"] != other["name"]:
            yield f"{one['name']} or {other['name']} first"
            return
        for key in one:
            if key != "children" and one[key] != other.get(key):
                yield (f"{key} of {one['name']}: {str(one[key])[:300]} or "
                       f"{str(other.get(key))[:300]}")
                return
        yield from detail_difference(one["children"], other["children"])
