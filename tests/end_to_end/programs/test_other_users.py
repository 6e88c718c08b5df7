"""optrace as root, beside another user: it runs none of that user's code."""
import os
import pathlib
import shutil
import tempfile

import pytest
from test_attach_programs import OF_TRAINING, attach

from attach_target import PERIOD, Target, end, ops_in

NOBODY = 65534

# Root would run this code if it loaded a library that was compiled from this header.
HOSTILE = """#include <fcntl.h>
[[gnu::constructor]] inline void run_as_whoever_loads_this() {{ ::creat("{trace}", 0666); }}
#include "{real}"
"""


@pytest.fixture
def open_folder():
    """A folder that every user can enter, unlike pytest's."""
    if os.geteuid() != 0:
        pytest.skip("cannot run here: only root can be another user")
    with tempfile.TemporaryDirectory(prefix="other-users-") as name:
        os.chmod(name, 0o755)
        yield pathlib.Path(name)


def copy_torch(python, site, trace):
    """Makes a torch that another user owns, mostly links, with a header that runs code."""
    libraries, = (pathlib.Path(python).parents[1] / "lib").glob("python3.*")
    torch = libraries / "site-packages/torch"
    own = site / "torch"
    for folder in (own / "lib", own / "include/ATen"):
        folder.mkdir(parents=True)
    for source, target in ((torch, own), (torch / "lib", own / "lib"),
                           (torch / "include", own / "include"),
                           (torch / "include/ATen", own / "include/ATen")):
        for entry in source.iterdir():
            if not (target / entry.name).exists():
                (target / entry.name).symlink_to(entry)
    header = "include/ATen/record_function.h"
    (own / header).unlink()
    (own / header).write_text(HOSTILE.format(trace=trace, real=torch / header))
    # optrace finds torch's folder by the file from which this library is mapped.
    library = "lib/libtorch_python.so"
    (own / library).unlink()
    shutil.copy(torch / library, own / library)
    for path in (site, *site.rglob("*")):
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)


def attach_and_be_warned(optrace, pid, folder, cache, warning):
    """Attaches; asserts that the report has the warning; returns the files in the cache."""
    trace = folder / "trace"
    report = attach(optrace, pid, folder, "--trace", trace,
                    environment={"OPTRACE_CACHE_DIR": cache})
    assert OF_TRAINING <= ops_in(report)
    shown = optrace("report", trace, "--format", "text")
    assert shown.returncode == 0 and warning in " ".join(shown.stdout.split()), shown.stdout[-2000:]
    return [path for path in cache.rglob("*") if path.is_file()]


def test_nothing_of_another_users_process_is_compiled_or_kept(optrace, python, open_folder,
                                                              tmp_path):
    site, trace, cache = open_folder / "site", open_folder / "trace", tmp_path / "cache"
    copy_torch(python, site, trace)
    folder = open_folder / "target"
    folder.mkdir()
    os.chown(folder, NOBODY, NOBODY)
    wrapper = ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"]
    own = {"PYTHONPATH": str(site), "HOME": "/nonexistent"}
    with Target(python, folder, wrapper=wrapper, environment=own) as target:
        target.wait_for_lines(2 * PERIOD)
        undisturbed = target.results()[:PERIOD]
        assert f"{site}/torch/lib/libtorch_python.so" in pathlib.Path(
            f"/proc/{target.pid}/maps").read_text()
        kept = attach_and_be_warned(optrace, target.pid, tmp_path, cache,
                                    "the process belongs to another user")
        end(target, undisturbed)
    assert kept and all(path.parent.name == "plans" for path in kept)
    assert not trace.exists()


def test_a_torch_that_another_user_can_change_is_not_compiled_from(optrace, python, open_folder,
                                                                   tmp_path):
    """The process belongs to the same user, but its torch doesn't."""
    site, trace, cache = open_folder / "site", open_folder / "trace", tmp_path / "cache"
    copy_torch(python, site, trace)
    with Target(python, tmp_path / "target", environment={"PYTHONPATH": str(site)}) as target:
        target.wait_for_lines(2 * PERIOD)
        undisturbed = target.results()[:PERIOD]
        kept = attach_and_be_warned(optrace, target.pid, tmp_path, cache,
                                    f"{site}/torch/include belongs to another user")
        end(target, undisturbed)
    assert not [path for path in kept if path.suffix == ".so"]
    assert not trace.exists()


@pytest.fixture
def project(python, open_folder, run_program):
    """A folder with a .venv of links to an environment, whose .pth file makes a file, `trace`."""
    project, real = open_folder / "project", open_folder / "real"
    project.mkdir()
    made = run_program([python, "-m", "venv", "--without-pip", "--symlinks", real])
    assert made.returncode == 0, made.stderr
    (project / ".venv").mkdir()
    for entry in real.iterdir():
        (project / ".venv" / entry.name).symlink_to(entry)
    packages, = real.glob("lib/python3*/site-packages")
    (packages / "site.pth").write_text(f"import os; os.mknod({str(open_folder / 'trace')!r})\n")
    (packages / "sitecustomize.py").touch()
    return project


@pytest.fixture
def locate(optrace, project):
    """locate() -> what `optrace locate` says in the project, and whether its .pth file ran."""
    trace = project.parent / "trace"

    def run():
        said = optrace("locate", "at::add", cwd=project, environment={
            "OPTRACE_PYTHON": None, "VIRTUAL_ENV": None, "CONDA_PREFIX": None}).stderr
        ran = trace.exists()
        trace.unlink(missing_ok=True)
        return said, ran

    return run


@pytest.mark.parametrize("theirs", [".venv", ".venv/bin", ".venv/pyvenv.cfg", "site.pth",
                                    "sitecustomize.py"])
def test_no_python_that_another_user_can_change_is_used(project, locate, theirs):
    assert "is not used" not in locate()[0]
    packages, = project.glob(".venv/lib/python3*/site-packages")
    packages = packages.resolve()
    path, = (path for path in (project / theirs, packages / theirs) if path.is_symlink()
             or path.exists())
    os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    said, ran = locate()
    assert f"the Python in {project}/.venv is not used: {path} belongs to another user" in said
    assert not ran


def test_no_python_that_imports_from_another_users_folder_is_used(project, locate):
    """Neither by the home in pyvenv.cfg, nor by what .pth files name or Python runs in them."""
    base, packages = project.parent / "base", next(project.glob(".venv/lib/*/site-packages"))
    settings = (project / ".venv/pyvenv.cfg").resolve()
    home = pathlib.Path(settings.read_text().partition("home = ")[2].partition("\n")[0])
    for folder in ("bin", "lib", "added", "quoted"):
        (base / folder).mkdir(parents=True)
    library = base / "lib" / packages.parent.name
    library.mkdir()
    for module in (home / "../lib" / library.name).resolve().iterdir():
        (library / module.name).symlink_to(module)
    (base / "added/sitecustomize.py").touch()
    (packages / "added.pth").write_text(
        f"# {project}/comment\n{base}/absent\n{os.path.relpath(base / 'added', packages)} \n")
    (packages / "quoted.pth").write_text(f"import sys; sys.path.append({str(base / 'quoted')!r})\n")
    settings.write_text(settings.read_text().replace(f"home = {home}", f"Home= {base}/bin", 1))
    assert "is not used" not in locate()[0]
    for theirs in (base / "bin", library, library / "os.py", base / "added",
                   base / "added/sitecustomize.py", base / "quoted"):
        os.chown(theirs, NOBODY, NOBODY, follow_symlinks=False)
        said, ran = locate()
        assert f"{project}/.venv is not used: {theirs} belongs to another user" in said
        assert not ran
        os.chown(theirs, 0, 0, follow_symlinks=False)
    # What is too much to judge is not trusted either; nothing of it is kept in memory.
    with (packages / "added.pth").open("wb") as file:
        file.truncate(1 << 40)
    assert f"{packages.resolve()}/added.pth is too large" in locate()[0]
    (packages / "added.pth").write_text("absent\n" * 2000)
    assert "absent is one path too many" in locate()[0]
