"""`--format sqlite`, read by Python's own SQLite."""
import json
import os
import pty
import re
import sqlite3
import subprocess

import pytest

from report_frames import frames

USAGE = 2


@pytest.fixture(scope="module")
def trace(op_trace):
    return op_trace("conv2d", "--backward")


@pytest.fixture(scope="module")
def database(optrace, trace, tmp_path_factory):
    file = tmp_path_factory.mktemp("sqlite") / "conv2d.db"
    result = optrace("report", trace, "--format", "sqlite", "-o", file)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    connection = sqlite3.connect(file)
    yield connection
    connection.close()


def test_it_has_the_frames_of_the_json(optrace, trace, database):
    assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert database.execute("PRAGMA foreign_key_check").fetchall() == []
    assert database.execute("PRAGMA application_id").fetchone() == (0x6F707472,)
    assert database.execute("PRAGMA user_version").fetchone() == (1,)
    report = json.loads(optrace("report", trace, "--format", "json", "--times").stdout)
    wanted = sorted((frame["layer"], frame["name"], frame["calls"], frame["op"] or "",
                     frame["detail"].get("time", {}).get("total", 0)) for frame in frames(report))
    found = database.execute("SELECT layer, name, calls, coalesce(op, ''), coalesce(total_ns, 0)"
                             " FROM frames").fetchall()
    assert sorted(found) == wanted
    for identity, parent, last, depth in database.execute(
            "SELECT id, parent, last, depth FROM frames"):
        below = database.execute("SELECT count(*) FROM frames WHERE id > ? AND id <= ?"
                                 " AND depth > ?", (identity, last, depth)).fetchone()[0]
        assert below == last - identity and (parent is None) == (depth == 0)
    table = database.execute("SELECT op, calls, total_ns, own_ns FROM ops").fetchall()
    lines = optrace("report", trace, "--format", "csv").stdout.splitlines()[1:]
    assert sorted(",".join(map(str, row)) for row in table) == sorted(lines)


def test_the_log_of_tensors_has_tables(optrace, python, tmp_path):
    file = tmp_path / "contiguous.db"
    result = optrace("Tensor.contiguous", "--python", python, "--tensors", "--input",
                     "torch.rand(3, 4).t()", "--format", "sqlite", "-o", file)
    assert result.returncode == 0, result.stderr
    connection = sqlite3.connect(file)
    assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    copies = connection.execute(
        "SELECT op, from_storage, to_storage, reason FROM copies"
        " JOIN frames ON frames.id = frame").fetchall()
    assert copies == [("aten::copy_", 1, 2, "layout: strides 1,4 to 3,1")]
    assert connection.execute("SELECT * FROM storages").fetchall() == [
        (1, "cpu", None), (2, "cpu", 48)]
    tensors = connection.execute(
        "SELECT role, position, tensor.name, dtype, device, shape, strides, storage,"
        " storage_offset, version, requires_grad, written, relation, relation_to"
        " FROM stored_tensors AS tensor JOIN frames ON frames.id = frame"
        " WHERE op = 'aten::contiguous' LIMIT 2").fetchall()
    assert tensors == [
        ("argument", 0, "self", "float32", "cpu", "[4,3]", "[1,4]", 1, 0, 1, 0, 0, None, None),
        ("result", 0, None, "float32", "cpu", "[4,3]", "[3,1]", 2, 0, 0, 0, 0, "fresh", None)]
    connection.close()


def test_tensors_and_library_calls_have_tables(database):
    weight = database.execute(
        "SELECT dtype, device, shape, elements, requires_grad FROM tensors JOIN op_calls"
        " ON op_calls.id = op_call WHERE op = 'aten::conv2d' AND name = 'weight'").fetchone()
    assert weight[:2] == ("float32", "cpu") and weight[4] == 1
    product = 1
    for size in json.loads(weight[2]):
        product *= size
    assert weight[3] == product
    libraries = {row[0] for row in database.execute("SELECT library FROM library_calls")}
    assert "oneDNN" in libraries
    path, = database.execute("SELECT path FROM paths JOIN frames USING (id)"
                             " WHERE op = 'aten::mkldnn_convolution' LIMIT 1").fetchone()
    assert "Conv2d.forward > " in path and path.count(" > ") > 5


def test_the_documented_queries_run(database, repository):
    text = (repository / "docs/sqlite-format.md").read_text()
    queries = re.findall(r"^    (SELECT.*?;)$", text, re.MULTILINE | re.DOTALL)
    assert len(queries) == 6
    for query in queries:
        rows = database.execute(query).fetchall()
        assert rows or "call_line = 7" in query or "stored_tensors" in query, query
    columns = {row[1] for row in database.execute("PRAGMA table_info(frames)")}
    documented = set(re.findall(r"`(\w+)`", text))
    assert columns <= documented


def test_names_stay_data(optrace, python, tmp_path):
    name = "x'); DROP TABLE frames; --"
    (tmp_path / "train.py").write_text(
        "import torch\ndef f(): return torch.ones(2).sin()\n"
        f"f.__code__ = f.__code__.replace(co_name={name!r}, co_qualname={name!r})\nf()\n")
    made = optrace("run", "--python", python, "--format", "sqlite", "-o", "t.db", "train.py",
                   cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    connection = sqlite3.connect(tmp_path / "t.db")
    assert connection.execute("SELECT count(*) FROM frames WHERE label = ?", (name,)).fetchone()[0]
    connection.close()


def test_it_is_not_written_to_a_terminal(optrace, trace):
    piped = subprocess.run([*optrace.command, "report", trace, "--format", "sqlite"],
                           capture_output=True, check=True)
    assert piped.stdout.startswith(b"SQLite format 3\0")
    reader, terminal = pty.openpty()
    refused = subprocess.run([*optrace.command, "report", trace, "--format", "sqlite"],
                             stdout=terminal, stderr=subprocess.PIPE, text=True)
    os.close(reader)
    os.close(terminal)
    assert refused.returncode == USAGE and "Name a file with -o FILE." in refused.stderr
    refused = optrace("run", "--format", "sqlite", "-c", "import torch")
    assert refused.returncode == USAGE and "standard error" in refused.stderr
