"""`optrace doctor` finds what is there and what is missing; `optrace cache` lists and removes."""
import errno
import json
import os
import pty
import shutil
import subprocess
import time

import pytest

from system_call_filter import PTRACE, REFUSE, deny

MISSING, USAGE = 1, 2


def checks(result):
    return {check["id"]: check for check in json.loads(result.stdout)["checks"]}


def test_everything_is_found_and_tested(optrace, python, validate, torch_folder):
    """The steps are shown on the terminal of standard error, and erased at the end."""
    ours, theirs = pty.openpty()
    result = subprocess.run([*optrace.command, "doctor", "--python", python, "--format", "json"],
                            stderr=theirs, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL,
                            check=True, timeout=600)
    os.close(theirs)
    shown = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert "importing torch, planning probes ..." in shown and "attaching to it ..." in shown
    assert shown.endswith("\r\x1b[K")
    validate(json.loads(result.stdout), "doctor")
    found = checks(result)
    assert {"op records", "probes", "tracing", "attach"} == {
        name for name, check in found.items() if check["self_test"]}
    essential = ("optrace", "python", "torch", "symbols", "index", "op records", "probes",
                 "tracing", "dry run", "cache")
    assert {name: found[name]["status"] for name in essential} == dict.fromkeys(essential, "ok")
    assert found["torch"]["facts"]["folder"] == str(torch_folder)
    assert found["python"]["facts"] == {"path": python, "reason": "--python"}
    assert found["index"]["facts"]["exact"] is True
    assert found["probes"]["facts"]["placed"] > 50_000


def test_what_is_missing_has_a_remedy(optrace, tmp_path):
    (tmp_path / "python").write_text("#!/bin/sh\n")
    (tmp_path / "python").chmod(0o755)
    result = optrace("doctor", "--json", environment={
        "OPTRACE_PYTHON": tmp_path / "python", "PATH": tmp_path, "CXX": None,
        "OPTRACE_CACHE_DIR": "/proc/cache"})
    assert (result.returncode, result.stderr) == (MISSING, "")
    found = checks(result)
    assert found["torch"]["status"] == "missing"
    assert found["torch"]["remedy"] == f"{tmp_path / 'python'} -m pip install torch"
    assert found["compiler"]["status"] == "limited" and "apt install" in found["compiler"]["remedy"]
    assert found["cache"]["status"] == "limited" and "OPTRACE_CACHE_DIR" in found["cache"]["remedy"]
    assert "tracing" not in found

    text = optrace("doctor", environment={"OPTRACE_PYTHON": "/nowhere"})
    assert text.returncode == MISSING
    assert "missing  python" in text.stdout and "Something essential is missing" in text.stdout
    wrong = optrace("doctor", "--python", "/nowhere")
    assert wrong.returncode == USAGE and "no such file: /nowhere (from --python)" in wrong.stderr
    assert optrace("doctor", "--json", "--format", "text").returncode == USAGE


def test_a_stripped_torch_is_found(optrace, torch_folder, tmp_path):
    """Its Python does not run, so that the self-tests fail as well."""
    python = tmp_path / "bin/python"
    python.parent.mkdir()
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    (tmp_path / "pyvenv.cfg").write_text("home = /usr/bin\n")
    folder = tmp_path / "lib/python3.11/site-packages/torch"
    (folder / "lib").mkdir(parents=True)
    (folder / "version.py").write_text("__version__ = '2.6.0'\n")
    for name in ("libtorch_cpu.so", "libtorch_python.so", "libc10.so"):
        subprocess.run(["strip", "-o", folder / "lib" / name, torch_folder / "lib/libc10.so"],
                       check=True)
    result = optrace("doctor", "--json", environment={"OPTRACE_PYTHON": python})
    assert result.returncode == MISSING
    found = checks(result)
    assert found["symbols"]["status"] == "limited"
    assert found["symbols"]["remedy"] \
        == f"{python} -m pip install --force-reinstall --no-deps torch==2.6.0"
    assert found["op records"]["status"] == found["dry run"]["status"] == "limited"
    assert found["probes"]["status"] == "skipped"
    assert found["tracing"]["status"] == "missing" and "not a Python" in found["tracing"]["found"]


def test_a_filter_against_ptrace_is_named(optrace, python):
    result = optrace("doctor", "--python", python, "--json",
                     preexec_fn=lambda: deny([PTRACE], REFUSE | errno.EPERM))
    found = checks(result)
    assert result.returncode == 0
    assert found["seccomp"]["status"] == found["attach"]["status"] == "limited"
    assert "seccomp=unconfined" in found["seccomp"]["remedy"]
    assert found["tracing"]["status"] == "ok"


@pytest.fixture
def cache(tmp_path):
    """A cache with an entry of each of some kinds, and files that are not optrace's."""
    folder = tmp_path / "cache"
    build = folder / "op-agents" / ("0" * 32)
    build.mkdir(parents=True)
    folder.chmod(0o700)
    (build / "liboptrace_ops.so").write_bytes(b"x" * 1000)
    (folder / "op-agents/.new-a1B2c3").mkdir()
    (folder / "plans").mkdir()
    (folder / "plans" / ("ab" * 16 + ".branch_targets")).write_bytes(b"x" * 200)
    (folder / "plans/shopping.plan").write_text("milk")
    (folder / "traces/20200101-000000-4000000").mkdir(parents=True)
    (folder / "traces/20200101-000000-4000000/train.trace").write_bytes(b"x" * 30)
    (folder / "notes").write_text("mine")
    return folder


def contents(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def test_the_cache_is_listed_and_removed(optrace, validate, cache):
    environment = {"OPTRACE_CACHE_DIR": cache}
    listed = json.loads(optrace("cache", "list", "--format", "json",
                                environment=environment).stdout)
    validate(listed, "cache")
    assert listed["bytes"] == 1230
    parts = {part["folder"]: part for part in listed["parts"]}
    assert [entry["name"] for entry in parts["op-agents"]["entries"]] == [".new-a1B2c3", "0" * 32]
    assert (parts["plans"]["bytes"], parts["plans"]["foreign"]) == (200, 1)
    text = optrace("cache", "list", environment=environment).stdout
    assert "traces            30 B" in text and text.endswith(f"1.2 KiB in {cache}\n")

    cleaned = json.loads(optrace("cache", "clean", "--json", environment=environment).stdout)
    validate(cleaned, "cache")
    assert cleaned["freed_bytes"] == 1230
    assert contents(cache) == {"op-agents", "plans", "plans/shopping.plan", "traces", "notes"}
    assert optrace("cache", "clean", environment=environment).stdout == "freed 0 B\n"


def test_only_what_is_old_is_removed(optrace, cache):
    environment = {"OPTRACE_CACHE_DIR": cache}
    old = time.time() - 40 * 86400
    build = cache / "op-agents" / ("0" * 32)
    for path in (build / "liboptrace_ops.so", build):
        os.utime(path, (old, old))
    assert optrace("cache", "clean", "--older-than", "41d", environment=environment).stdout \
        == "freed 0 B\n"
    optrace("cache", "clean", "--older-than", "39d", environment=environment)
    assert not build.exists() and (cache / "op-agents/.new-a1B2c3").exists()
    wrong = optrace("cache", "clean", "--older-than", "39", environment=environment)
    assert wrong.returncode == USAGE and "30d" in wrong.stderr


def test_links_are_not_followed(optrace, cache, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / ("1" * 32)).mkdir(parents=True)
    (elsewhere / ("1" * 32) / "file").write_text("kept")
    (cache / "op-agents" / ("1" * 32)).symlink_to(elsewhere / ("1" * 32))
    (cache / "op-agents" / ("0" * 32) / "link").symlink_to(elsewhere)
    (cache / "emulated-devices").symlink_to(elsewhere)
    shutil.rmtree(cache / "plans")
    (cache / "plans").symlink_to("/nowhere")
    result = optrace("cache", "clean", "--json", environment={"OPTRACE_CACHE_DIR": cache})
    assert result.returncode == 0
    assert contents(elsewhere) == {"1" * 32, "1" * 32 + "/file"}
    assert (cache / "emulated-devices").is_symlink() and (cache / "plans").is_symlink()
    assert not (cache / "op-agents" / ("0" * 32)).exists()
    listed = optrace("cache", "list", environment={"OPTRACE_CACHE_DIR": cache}).stdout
    assert "emulated-devices  1         not optrace's, or a link" in listed


def test_what_is_in_use_stays(optrace, cache):
    (cache / "traces" / f"20200101-000000-{os.getpid()}").mkdir()
    work = cache / "source" / ("2" * 16)
    work.mkdir(parents=True)
    (work / "lock").touch()
    with subprocess.Popen(["flock", work / "lock", "-c", "echo locked; read line"],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        holder.stdout.readline()
        result = optrace("cache", "clean", environment={"OPTRACE_CACHE_DIR": cache})
        holder.communicate(b"\n")
    assert (cache / "traces" / f"20200101-000000-{os.getpid()}").is_dir()
    assert (work / "lock").exists()
    assert f"not removed: {work} (another optrace is indexing)" in result.stdout
    assert f"process {os.getpid()}, which writes it, is still running" in result.stdout


def test_without_a_cache_nothing_is_removed(optrace):
    result = optrace("cache", "clean", environment={"OPTRACE_CACHE_DIR": "/proc/cache"})
    assert result.returncode == USAGE and "there is no cache" in result.stderr
