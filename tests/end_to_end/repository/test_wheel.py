"""The wheels of `make wheel`, installed as users do, and the sdist."""
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest

FAILED = 3
USAGE = 2

# Environments are made with pip and uv, and wheels are packed.
pytestmark = pytest.mark.verify


@pytest.fixture(scope="module")
def tools(repository, run_program):
    """The environment that wheels are made with, which has uv beside it."""
    made = run_program(["setup/make-venv.sh", ".venv-wheel", "setup/requirements-wheel.txt"],
                       cwd=repository, timeout=600)
    assert made.returncode == 0, made.stderr
    return repository / ".venv-wheel"


@pytest.fixture(scope="module")
def make_wheels(repository, build, tools, run_program, tmp_path_factory):
    """make_wheels(*pythons) -> the folder with the wheels and the sdist, as `make wheel` makes
    them."""
    def make(*pythons):
        folder = tmp_path_factory.mktemp("dist")
        packed = run_program([tools / "bin/python", "setup/make-wheel.py", build, folder, *pythons],
                             cwd=repository, timeout=600)
        assert packed.returncode == 0, packed.stdout + packed.stderr
        return folder

    return make


@pytest.fixture(scope="module")
def made(make_wheels):
    return make_wheels()


@pytest.fixture(scope="module")
def wheels(made):
    """{tag: path}"""
    return {path.name.split("-")[2]: path for path in made.glob("*.whl")}


@pytest.fixture(scope="module")
def uv(repository, tools, run_program):
    """uv(*arguments) runs uv, which takes packages from the cache of `make setup`."""
    def run(*arguments):
        cache = repository / ".setup/uv-cache"
        result = run_program([repository / ".setup/uv/bin/uv", *map(str, arguments)], timeout=600,
                             env={**os.environ, "UV_CACHE_DIR": str(cache)})
        assert result.returncode == 0, result.stderr
        return result

    return run


def new_environment(uv, folder, wheel, python=sys.executable):
    """A virtual environment with a wheel of optrace; returns its bin folder."""
    subprocess.run([python, "-m", "venv", "--without-pip", folder], check=True)
    uv("pip", "install", "--python", folder / "bin/python", wheel)
    return folder / "bin"


def read_packages_of(other, folder):
    """Makes an environment also read the packages of another one, which are not copied."""
    [packages] = folder.parent.glob("lib/python3*/site-packages")
    (packages / "of_the_test.pth").write_text(f"{other}\n")


@pytest.fixture(scope="module")
def beside_torch(uv, wheels, torch_folder, tmp_path_factory):
    """The bin folder of an environment with optrace and the reference torch."""
    version = "cp%d%d" % sys.version_info[:2]
    folder = new_environment(uv, tmp_path_factory.mktemp("torch") / "venv", wheels[version])
    read_packages_of(torch_folder.parent, folder)
    return folder


@pytest.fixture(scope="module")
def tool(uv, wheels, tmp_path_factory):
    """The bin folder of an environment with optrace and no torch, as pipx and uvx make it."""
    return new_environment(uv, tmp_path_factory.mktemp("tool") / "venv", wheels["py3"])


@pytest.fixture
def run_bare(run_program, tmp_path):
    """run_bare(program, ...): runs in an empty folder, with a PATH that has no compiler."""
    folder = tmp_path / "work"
    folder.mkdir()

    def run(*words, cwd=folder, **variables):
        environment = {"HOME": str(tmp_path), "PATH": str(tmp_path / "no programs"),
                       "OPTRACE_CACHE_DIR": str(tmp_path / "cache"), **variables}
        return run_program([str(word) for word in words], cwd=cwd,
                           env={name: str(value) for name, value in environment.items()})

    return run


def test_the_wheels_run_on_other_distributions_and_have_all_licences(wheels, made):
    version = "cp%d%d" % sys.version_info[:2]
    assert set(wheels) == {version, "py3"}
    for path in wheels.values():
        assert path.name.endswith("-manylinux_2_34_x86_64.whl")
        assert path.stat().st_size <= 12_000_000  # docs/install.md
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            libraries = {name for name in names if name.startswith("optrace.libs/")}
            licences = {pathlib.Path(name).stem for name in names if "/third_party/" in name}
        assert all(re.match(r"optrace\.libs/(libZ\w+|lib(elf|dw|lzma|bz2))-|optrace\.libs/$", name)
                   for name in libraries), libraries
        assert {"libstdc++-12-dev", "libzydis4.0", "libsqlite3-dev", "libyaml-cpp-dev",
                "libclang-common-19-dev", "pybind11", "GPL-3"} <= licences
    assert len(list(made.glob("optrace-*.tar.gz"))) == 1


def test_pypi_takes_all_files(run_program, tools, made, wheels):
    for words in (["twine", "check", "--strict", *made.glob("optrace-*")],
                  *(["auditwheel", "show", path] for path in wheels.values())):
        said = run_program([tools / "bin" / words[0], *words[1:]],
                           env={**os.environ, "PATH": f"{tools}/bin:{os.environ['PATH']}"})
        assert said.returncode == 0, said.stdout + said.stderr
        expected = "PASSED" if words[0] == "twine" else '"manylinux_2_34_x86_64"'
        assert expected in said.stdout and "WARNING" not in said.stdout.upper()
    for path in wheels.values():
        with zipfile.ZipFile(path) as archive:
            [metadata] = (name for name in archive.namelist() if name.endswith("/METADATA"))
            readme = archive.read(metadata).decode()
        assert "](https://" in readme or "](" not in readme
        assert not re.search(r"\]\((?!https?://)", readme)


# The pattern is that of cmake/exports.map.
OWN_SYMBOL = re.compile(r"_ZNK?7optrace|_ZT[ISV]N7optrace|PyInit__optrace$")


def test_what_a_program_loads_shows_it_only_our_own_symbols(run_program, wheels, tmp_path):
    """Another libstdc++ in the process, such as torch's, must not meet the one that is linked
    statically."""
    version = "cp%d%d" % sys.version_info[:2]
    with zipfile.ZipFile(wheels[version]) as archive:
        archive.extractall(tmp_path)
    [module] = tmp_path.glob("optrace/_optrace*.so")
    for library in (module, tmp_path / "optrace/lib/optrace/liboptrace.so"):
        listed = run_program(["nm", "--dynamic", "--defined-only", library])
        names = [line.split()[-1] for line in listed.stdout.splitlines()]
        assert names and all(map(OWN_SYMBOL.match, names)), names
        needed = run_program(["readelf", "--dynamic", library]).stdout
        assert "libstdc++" not in needed


def test_the_wheels_have_the_headers_that_replace_missing_ones(repository, wheels):
    folder = repository / "gpu/emulated"
    wanted = {str(path.relative_to(folder))
              for path in (folder / "stub_headers").rglob("*") if path.is_file()}
    assert "stub_headers/nv/target" in wanted
    for path in wheels.values():
        with zipfile.ZipFile(path) as archive:
            names = {name.partition("/gpu/emulated/")[2] for name in archive.namelist()}
        assert wanted <= names


def test_optrace_beside_torch_needs_no_compiler(run_bare, beside_torch):
    for command in ([beside_torch / "optrace"], [beside_torch / "python", "-m", "optrace"]):
        result = run_bare(*command, "conv2d")
        assert result.returncode == 0, result.stderr
        assert re.search(r"aten/src/\S*Convolution\.cpp:\d+", result.stdout)
        # The header names no Python: it is that of the environment that optrace is installed in.
        assert not re.search("^python +/", result.stdout, re.MULTILINE)
        assert "warning" not in result.stdout


@pytest.fixture(scope="module")
def in_container(beside_torch, torch_folder, tmp_path_factory):
    """in_container(program, ...): runs a program of the environment in a slim container."""
    if os.geteuid() != 0:
        pytest.skip("cannot run here: only root makes namespaces")
    root = tmp_path_factory.mktemp("root")
    # The environment, and the Pythons and packages that it refers to.
    folders = {beside_torch.parent, pathlib.Path(sys.base_prefix), torch_folder.parent}

    def run(program, *words, files=()):
        return subprocess.run(
            ["unshare", "--mount", "--pid", "--fork", "--kill-child", sys.executable,
             pathlib.Path(__file__).resolve().parents[1] / "fresh_container.py", root, *folders,
             *files, "--", beside_torch / program, *map(str, words)],
            capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)

    return run


PROGRAM = """
import torch
layer = torch.nn.Linear(4, 2).to({device!r})
layer(torch.rand(3, 4, device={device!r})).sum().backward()
print("done")
"""


FINDINGS = '''
import os, subprocess, sys

optrace = os.path.join(os.path.dirname(sys.executable), "optrace")
program = os.path.join(os.path.dirname(__file__), "cpu.py")
for words in (["run", "--trace", "/tmp/cpu.trace", program], ["findings", "/tmp/cpu.trace"]):
    subprocess.run([optrace, *words], check=True)
'''

# Attaches to a process that it starts.
ATTACH = '''
import os, subprocess, sys

loop = os.path.join(os.path.dirname(__file__), "softmax_loop.py")
with subprocess.Popen([sys.executable, loop], stdout=subprocess.PIPE) as target:
    target.stdout.readline()
    optrace = os.path.join(os.path.dirname(sys.executable), "optrace")
    ended = subprocess.run([optrace, "attach", str(target.pid), "--duration", "1",
                            "--format", "text"])
    target.kill()
sys.exit(ended.returncode)
'''


@pytest.fixture(scope="module")
def programs(repository, tmp_path_factory):
    folder = tmp_path_factory.mktemp("programs")
    shutil.copy(repository / "tests/matrix/softmax_loop.py", folder)
    for device in ("cpu", "cuda"):
        (folder / f"{device}.py").write_text(PROGRAM.format(device=device))
    (folder / "test_marked.py").write_text(
        "import pytest, torch\n\n"
        "@pytest.mark.optrace(expect='no kernel of dtype float64')\n"
        "def test_it():\n    torch.ones(3).add(1)\n")
    (folder / "findings.py").write_text(FINDINGS)
    (folder / "attach.py").write_text(ATTACH)
    folder.chmod(0o755)
    return folder


@pytest.mark.parametrize(("words", "status", "wanted"), [
    ("optrace conv2d", 0, "mkldnn_convolution"),
    ("optrace conv2d --dry-run", 0, "cudnn"),
    ("optrace run {programs}/cpu.py", 0, "aten::addmm"),
    ("optrace run --dry-run {programs}/cuda.py", 0, "cublas"),
    ("optrace check linear --expect 'calls aten::addmm' 'no kernel of dtype float64'", 0, "passed"),
    ("optrace linear --format html -o /tmp/page.html", 0, ""),
    ("python {programs}/findings.py", 0, "finding"),
    ("python {programs}/attach.py", 0, "aten::softmax"),
    ("python -m pytest -q -p no:cacheprovider {programs}/test_marked.py", 0, "1 passed"),
])
def test_a_fresh_container(in_container, programs, words, status, wanted):
    """Everything is there at the first try: no compiler, no cache, no home, not root, seccomp."""
    ended = in_container(*shlex.split(words.format(programs=programs)), files=[programs])
    said = ended.stdout + ended.stderr
    assert ended.returncode == status, said
    assert wanted in said
    assert "C++ compiler" not in said and "not traced" not in said


MODULE = """
import optrace, torch
with optrace.trace() as t:
    torch.ones(3).add(1)
print(t.report())
try:
    t.check("never calls")
except optrace.Error as error:
    print("refused:", error)
"""


def test_the_module_traces_and_raises(run_bare, beside_torch):
    result = run_bare(beside_torch / "python", "-c", MODULE)
    assert result.returncode == 0, result.stderr
    assert "structured_ufunc_add_CPU" in result.stdout
    assert "\nrefused: " in result.stdout


@pytest.mark.parametrize("version", ["3.9", "3.10", "3.12", "3.13"])
def test_the_wheels_of_other_pythons(uv, make_wheels, run_bare, repository, tmp_path, version):
    python = repository / f".venv-{version}/bin/python"
    if not python.exists():
        pytest.skip(f"cannot run here: {python} is not there; `make pythons` makes it")
    [wheel] = make_wheels(python).glob(f"*-cp{version.replace('.', '')}-*.whl")
    folder = new_environment(uv, tmp_path / "venv", wheel, python)
    read_packages_of(next(python.parents[1].glob("lib/python3*/site-packages")), folder)
    for words in (["-m", "optrace", "torch.neg"], ["-c", MODULE]):
        result = run_bare(folder / "python", *words)
        assert result.returncode == 0, result.stderr
        assert f"Python {version}." in result.stdout and "at::native::" in result.stdout


def test_the_newest_torch(run_bare, beside_torch, newest_python, tmp_path):
    """The index of that version comes with optrace and is the only one that is decompressed."""
    result = run_bare(beside_torch / "optrace", "conv2d", "--python", newest_python)
    assert result.returncode == 0, result.stderr
    assert "at::native::conv2d" in result.stdout
    assert "from the wheel; ~ marks approximate ones" in result.stdout
    assert len(list((tmp_path / "cache/indexes").glob("*.index"))) == 1


def test_a_tool_without_torch_finds_the_python_that_has_it(run_bare, tool, python, tmp_path):
    environment = pathlib.Path(python).parents[1]
    project = tmp_path / "project"
    (project / "src").mkdir(parents=True)
    (project / ".venv").symlink_to(environment)
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "python3").write_text(f'#!/bin/sh\nexec {python} "$@"\n')
    (programs / "python3").chmod(0o755)
    places = [({"CONDA_PREFIX": environment, "VIRTUAL_ENV": tool.parent}, "$CONDA_PREFIX"),
              ({"cwd": project / "src"}, f".venv in {project}"),
              ({"PATH": programs}, "python3 in PATH")]
    for variables, place in places:
        result = run_bare(tool / "optrace", "torch.neg", **variables)
        assert result.returncode == 0, result.stderr
        assert re.search(rf"^python +\S+, from {re.escape(place)}$", result.stdout, re.MULTILINE)


def test_without_any_torch_the_error_names_what_was_looked_at(run_bare, tool):
    result = run_bare(tool / "optrace", "torch.neg", VIRTUAL_ENV=tool.parent)
    assert result.returncode == USAGE
    assert f"no torch in {tool / 'python'}" in result.stderr
    assert "nor in" in result.stderr and "--python" in result.stderr


def test_the_module_is_told_to_be_missing_for_other_pythons(run_bare, tool):
    result = run_bare(tool / "python", "-c", "import optrace; optrace.trace()")
    assert result.returncode == 1
    assert "optrace's compiled part can't be loaded by this Python" in result.stderr


def test_sources_are_read_with_libclang_of_pypi(repository, run_bare, tool, python, tmp_path):
    project = tmp_path / "soft_clamp"
    shutil.copytree(repository / "fixtures/projects/soft_clamp", project)
    add = [tool / "optrace", "source", "add", project, "--project", "--python", python]
    result = run_bare(*add, OPTRACE_INDEX_DIR=tmp_path / "indexes")
    assert result.returncode == 0, result.stderr
    assert "2 ops" in result.stdout and "(1 of 1 units, 1 parsed now)" in result.stdout
    [other] = tool.parent.glob("lib/python3*/site-packages/optrace.libs/libZydis*")
    for libclang, word in ((tmp_path / "absent.so", "OPTRACE_LIBCLANG"), (other, "libclang 18")):
        result = run_bare(*add, OPTRACE_LIBCLANG=libclang, OPTRACE_INDEX_DIR=tmp_path / "others")
        assert result.returncode == FAILED
        assert str(libclang) in result.stderr and word in result.stderr


@pytest.fixture(scope="module")
def unpacked(made, tmp_path_factory):
    """The sdist's sources."""
    folder = tmp_path_factory.mktemp("sdist")
    [sdist] = made.glob("optrace-*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    return folder / sdist.name.removesuffix(".tar.gz")


def configure(run_program, tools, source, build, *arguments, **variables):
    return run_program(
        ["cmake", "-S", source, "-B", build, "-G", "Ninja", "-DOPTRACE_PYTHON_MODULE=ON",
         f"-DPython_EXECUTABLE={tools}/bin/python", "-DBUILD_TESTING=OFF", *arguments],
        env={**os.environ, **variables})


def test_the_sdist_has_all_sources(run_program, tools, unpacked, tmp_path):
    """CMake refuses to configure a project that lacks a source."""
    configured = configure(run_program, tools, unpacked, tmp_path)
    assert configured.returncode == 0, configured.stderr
    assert "Build files have been written" in configured.stdout


def test_all_missing_packages_are_named_at_once(run_program, tools, unpacked, tmp_path):
    missing = configure(run_program, tools, unpacked, tmp_path,
                        "-DCMAKE_DISABLE_FIND_PACKAGE_fmt=ON",
                        "-DCMAKE_DISABLE_FIND_PACKAGE_SQLite3=ON")
    assert missing.returncode != 0
    assert "apt-get install libfmt-dev libsqlite3-dev" in missing.stderr
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("cmake", "ninja"):
        (programs / name).symlink_to(shutil.which(name))
    compiler = configure(run_program, tools, unpacked, tmp_path / "other", PATH=str(programs))
    assert compiler.returncode != 0
    for package in ("build-essential", "libzydis-dev", "python3-dev"):
        assert package in compiler.stderr
