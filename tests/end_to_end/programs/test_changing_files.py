"""`optrace attach` on processes with deceptive files: links out of their root folder, and libraries
that are truncated while optrace reads them."""
import os
import pathlib
import shutil
import subprocess

import pytest
from test_attach_programs import OF_TRAINING, attach

from attach_target import PERIOD, SOON, Target, end, ops_in, wait_until

FAILED = 3

# Looks like a process that has imported torch, but can't answer requests.
LIKE_TORCH = """
import mmap, sys, time
with open(sys.argv[1], "rb") as file:
    mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
print("ready", flush=True)
time.sleep(600)
"""


def torch_of(python):
    libraries, = (pathlib.Path(python).parents[1] / "lib").glob("python3.*")
    return libraries / "site-packages/torch"


def link_torch(python, site):
    """Makes a torch below `site` from links, some of which can be replaced. Returns its folder."""
    torch, own = torch_of(python), site / "torch"
    (own / "lib").mkdir(parents=True)
    for source, target in ((torch, own), (torch / "lib", own / "lib")):
        for entry in source.iterdir():
            if not (target / entry.name).exists():
                (target / entry.name).symlink_to(entry.resolve())
    # optrace finds torch's folder by the file from which this library is mapped.
    library = own / "lib/libtorch_python.so"
    library.unlink()
    shutil.copy(torch / "lib/libtorch_python.so", library)
    return own


def test_a_link_does_not_lead_out_of_a_processs_root(optrace, python, tmp_path):
    """A path that is another file for the process than for optrace is not read outside its root."""
    if os.geteuid() != 0:
        pytest.skip("cannot run here: only root makes namespaces")
    own = link_torch(python, tmp_path / "site")
    place = tmp_path / "place"
    place.mkdir()
    linked = own / "lib/libtorch_cpu.so"
    linked.unlink()
    linked.symlink_to(place / linked.name)
    (place / linked.name).write_text("the host's own file\n")
    wrapper = ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" "$1" && shift && exec "$@"',
               str(torch_of(python) / "lib"), str(place)]
    with Target(python, tmp_path / "target", wrapper=wrapper,
                environment={"PYTHONPATH": str(own.parent)}) as target:
        target.wait_for_lines(2 * PERIOD)
        undisturbed = target.results()[:PERIOD]
        assert OF_TRAINING <= ops_in(attach(optrace, target.pid, tmp_path))
        end(target, undisturbed)


@pytest.mark.parametrize("owner", ["ours", "another user's"])
def test_a_library_that_becomes_shorter_ends_nothing(optrace, python, tmp_path, owner):
    if owner != "ours" and os.geteuid() != 0:
        pytest.skip("cannot run here: only root can give files away")
    own = link_torch(python, tmp_path / "site")
    (own / "include").unlink()  # So that nothing is compiled.
    library = own / "lib/libtorch_cpu.so"
    library.unlink()
    shutil.copy(torch_of(python) / "lib/libtorch_cpu.so", library)
    if owner != "ours":
        os.chown(library, 65534, 65534)
    environment = {**os.environ, "OPTRACE_CACHE_DIR": str(tmp_path / "cache")}  # Without plans.
    with subprocess.Popen([python, "-c", LIKE_TORCH, own / "lib/libtorch_python.so"],
                          stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            with subprocess.Popen([*optrace.command, "attach", str(process.pid), "--timeout", "1"],
                                  env=environment, stderr=subprocess.PIPE, text=True) as attaching:
                wait_until(lambda: has_open(attaching.pid, library), "optrace reads the library")
                os.truncate(library, 1 << 20)
                _, errors = attaching.communicate(timeout=4 * SOON)
                # Its Python sleeps, so attaching gets no further.
                assert attaching.returncode == FAILED, errors
                assert "ran no Python code" in errors
                assert not [path for path in (tmp_path / "cache").rglob("*.plan")
                            if library.name in path.read_bytes().decode(errors="replace")]
        finally:
            process.kill()


def has_open(pid, path):
    """Returns True if the process has mapped or opened the file."""
    try:
        if str(path) in pathlib.Path(f"/proc/{pid}/maps").read_text():
            return True
        links = pathlib.Path(f"/proc/{pid}/fd").iterdir()
        return str(path) in {os.readlink(link) for link in links}
    except FileNotFoundError:
        return False
