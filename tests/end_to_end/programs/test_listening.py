"""Processes that listen for `optrace attach`: no other process delays one that starts, and `attach`
can be interrupted at any moment."""
import os
import pathlib
import shutil
import signal
import socket
import subprocess

import pytest

from attach_target import SOON, wait_until
from usual_cache import copy_plans

INTERRUPTED = 130
BACKLOG = 8
POLL = 7  # The number of the system call.

# Prints its PID, under which it listens, and waits.
LISTENING = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"

# Looks like a process that listens, but sends to each that connects only one of its arguments, from
# the second on, and then nothing.
SILENT = """
import os, socket, sys
import torch
listener = socket.socket(socket.AF_UNIX)
listener.bind(os.path.join(sys.argv[1], str(os.getpid())))
listener.listen()
print("ready", flush=True)
connections = []
for said in sys.argv[2:]:
    connection = listener.accept()[0]
    while not connection.recv(1):  # attach looks first whether somebody listens.
        connection = listener.accept()[0]
    connections.append(connection)
    connection.sendall(said.encode())
    print("connected", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def site(python, build, repository, run_program, tmp_path):
    """The path of a Python in which optrace is installed as by pip."""
    venv = tmp_path / "venv"
    made = run_program([python, "-m", "venv", "--without-pip", str(venv)])
    assert made.returncode == 0, made.stderr
    packages, = venv.glob("lib/python3.*/site-packages")
    (packages / "build.pth").write_text(str(build / "python"))
    shutil.copy(repository / "python/optrace_listen.pth", packages)
    return venv / "bin/python"


@pytest.fixture
def start(site, tmp_path):
    """start(code, **environment) -> Popen of a Python that is killed at the end."""
    started = []

    def start(code, **environment):
        process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", site, "-c", code], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
            env={"PATH": os.environ["PATH"], "OPTRACE_LISTEN": "1",
                 "OPTRACE_CACHE_DIR": str(tmp_path / "cache"), **environment})
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def ends(process):
    """Asserts that it soon exits with status 0; returns its standard error."""
    _, errors = process.communicate(timeout=SOON)
    assert process.returncode == 0, errors
    return errors


def test_a_stopped_one_holds_up_nobody(start, tmp_path):
    first = start(LISTENING)
    first.stdout.readline()
    first.send_signal(signal.SIGSTOP)
    folder = tmp_path / "cache/listening"
    with_us = [str(first.pid)]
    assert os.listdir(folder) == with_us
    for _ in range(BACKLOG + 3):
        assert ends(start("pass")) == ""
    # Neither foreign files in the folder nor a full queue of connections delay a process.
    os.mkfifo(folder / "fifo")
    (folder / "folder").mkdir()
    connections = [socket.socket(socket.AF_UNIX) for _ in range(BACKLOG + 1)]
    for connection in connections:
        connection.setblocking(False)
        connection.connect(str(folder / str(first.pid)))
    assert ends(start("pass")) == ""
    for connection in connections:
        connection.close()
    assert sorted(os.listdir(folder)) == sorted([*with_us, "fifo", "folder"])


@pytest.mark.parametrize(("environment", "why"), [
    ({"OPTRACE_CACHE_DIR": ""}, "HOME is not set"),
    ({"OPTRACE_CACHE_DIR": "", "HOME": "/nonexistent"}, "HOME is /nonexistent"),
    ({"OPTRACE_CACHE_DIR": "/proc/cache"}, "/proc/cache")])
def test_where_it_cant_listen_it_says_so_and_goes_on(start, environment, why):
    process = start("print('went on')", **environment)
    output, errors = process.communicate(timeout=SOON)
    assert (process.returncode, output) == (0, "went on\n")
    assert errors.count("\n") == 1 and "although OPTRACE_LISTEN is 1:" in errors and why in errors


def test_a_folder_of_another_kind_is_refused(start, tmp_path):
    cache = tmp_path / "cache"
    (cache / "listening").mkdir(parents=True)
    (cache / "listening").chmod(0o755)
    assert "other users have access to" in ends(start("pass"))
    (cache / "listening").rmdir()
    (cache / "listening").symlink_to(tmp_path)
    assert "although OPTRACE_LISTEN is 1:" in ends(start("pass"))
    assert not (tmp_path / str(os.getpid())).exists()


def test_attaching_removes_what_is_left_behind(optrace, start, tmp_path):
    living, killed = start(LISTENING), start(LISTENING)
    living.stdout.readline()
    killed.stdout.readline()
    killed.kill()
    killed.wait()
    folder = tmp_path / "cache/listening"
    (folder / "no socket").touch()
    assert len(os.listdir(folder)) == 3
    refused = optrace("attach", os.getpid(), environment={"OPTRACE_CACHE_DIR": tmp_path / "cache"})
    assert refused.returncode != 0
    assert sorted(os.listdir(folder)) == sorted([str(living.pid), "no socket"])


def is_polling(pid):
    return pathlib.Path(f"/proc/{pid}/syscall").read_text().split()[0] == str(POLL)


def test_ctrl_c_ends_attaching_to_one_that_is_silent(optrace, python, tmp_path):
    """The timeout of attaching is longer than the test waits, so only the signal can end it."""
    copy_plans(tmp_path)
    folder = tmp_path / "listening"
    folder.mkdir(mode=0o700)
    environment = {**os.environ, "OPTRACE_CACHE_DIR": str(tmp_path)}
    said = ["", "{", '{"message": "program"}\n']
    with subprocess.Popen([python, "-c", SILENT, folder, *said], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as silent:
        try:
            assert silent.stdout.readline() == "ready\n"
            for _ in said:
                with subprocess.Popen([*optrace.command, "attach", str(silent.pid), "--timeout",
                                       str(10 * SOON)], env=environment, stderr=subprocess.PIPE,
                                      text=True) as attaching:
                    assert silent.stdout.readline() == "connected\n"
                    # attach is waiting for an answer.
                    wait_until(lambda pid=attaching.pid: is_polling(pid),
                               "optrace has made its plans")
                    attaching.send_signal(signal.SIGINT)
                    _, errors = attaching.communicate(timeout=SOON)
                    assert attaching.returncode == INTERRUPTED, errors
                    assert "interrupted" in errors and "ran no Python code" not in errors
                    assert silent.poll() is None
        finally:
            silent.kill()


def test_the_start_is_held_up_by_hardly_anything(site, tmp_path):
    """Without OPTRACE_LISTEN no module is loaded; with it, optrace's two and three of Python's."""
    code = "import sys; print(*sorted(sys.modules))"

    def modules(**environment):
        ended = subprocess.run([site, "-c", code], capture_output=True, text=True, check=True,
                               env={"PATH": os.environ["PATH"], **environment})
        return set(ended.stdout.split())

    listening = {"OPTRACE_LISTEN": "1", "OPTRACE_CACHE_DIR": str(tmp_path / "cache")}
    with_it = modules()
    for pth in pathlib.Path(site).parents[1].glob("lib/*/site-packages/optrace_listen.pth"):
        pth.unlink()
    assert modules() == with_it
    assert modules(**listening) == with_it
    shutil.copy(pathlib.Path(__file__).parents[3] / "python/optrace_listen.pth",
                next(pathlib.Path(site).parents[1].glob("lib/*/site-packages")))
    assert modules(**listening) - with_it == {"optrace", "optrace._listen", "_socket", "atexit",
                                              "fcntl"}
