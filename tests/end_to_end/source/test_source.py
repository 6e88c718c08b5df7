"""`optrace source` on real PyTorch source: kept work, fetching, indexing on demand; and on a real
C++ extension. The module has its own folders for the cache and the indexes. The PyTorch source
declares few ops, because the time to prepare it grows with their number.
"""
import json
import os
import pathlib
import re
import shutil
import signal

import pytest

from attach_target import wait_until
from tree_of_few_ops import copy_with_few_ops

USAGE, FAILED, INTERRUPTED = 2, 3, 130
CONVOLUTION = "aten/src/ATen/native/Convolution.cpp"
ONLY = ["--only", "c10/core/Dispatch*.cpp", "--only", "c10/core/Storage*.cpp"]


@pytest.fixture(scope="module")
def tree(source, tmp_path_factory):
    """PyTorch's source with few ops. A test may change its c10 folder."""
    folder = tmp_path_factory.mktemp("tree") / "pytorch"
    copy_with_few_ops(source, folder)
    return folder


@pytest.fixture(scope="module")
def variables(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    return {"OPTRACE_CACHE_DIR": folder / "cache", "OPTRACE_INDEX_DIR": folder / "indexes",
            "XDG_DATA_HOME": folder / "data"}


@pytest.fixture(scope="module")
def source_command(optrace, python, variables):
    """source_command("add", DIR, ...): `optrace source ...` with this module's folders."""

    def run(subcommand, *arguments, environment=None, **options):
        return optrace("source", subcommand, *arguments, "--python", python, timeout=600,
                       environment={**variables, **(environment or {})}, **options)

    return run


@pytest.fixture(scope="module")
def add(source_command, tree, tmp_path_factory):
    """add() -> (units parsed now, bytes of the index) for a few units of the tree."""
    path = tmp_path_factory.mktemp("index") / "x.index"

    def run(*arguments):
        result = source_command("add", tree, *ONLY, *arguments, "-o", path)
        assert result.returncode == 0, result.stderr
        assert "not indexed" not in result.stdout
        return parsed_now(result.stdout), path.read_bytes()

    return run


def parsed_now(text):
    return int(re.search(r"(\d+) parsed now", text).group(1))


@pytest.fixture(scope="module")
def fresh(add, tree):
    """(the number of units, their index made without any kept work)."""
    units = len([path for pattern in ("Dispatch*.cpp", "Storage*.cpp")
                 for path in (tree / "c10/core").glob(pattern)])
    parsed, index = add()
    assert parsed == units > 3
    return units, index


# Only changed units are indexed again.


@pytest.mark.verify
def test_a_changed_source_is_parsed_again_alone(add, fresh, tree):
    path = tree / "c10/core/DispatchKey.cpp"
    text = path.read_text()
    path.write_text(text + "namespace c10 { void added_by_a_test() {} }\n")
    try:
        parsed, index = add()
        assert parsed == 1
        assert b"added_by_a_test" in index
    finally:
        path.write_text(text)
    parsed, index = add("--jobs", 1)
    assert (parsed, index) == (1, fresh[1])


@pytest.fixture
def project(source_command, tmp_path):
    """The folder of a small extension, and add() -> (units parsed now, bytes of its index)."""
    folder = tmp_path / "small"
    folder.mkdir()
    (folder / "shared.h").write_text("inline int shared() { return 1; }\n")
    for name, text in (("reads", '#include "shared.h"\nint reads() { return shared(); }\n'),
                       ("reads_too", '#include "shared.h"\nint reads_too() { return 2; }\n'),
                       ("alone", "int alone() { return 3; }\n")):
        (folder / f"{name}.cpp").write_text(text)

    def run():
        path = tmp_path / "small.index"
        result = source_command("add", folder, "--project", "-o", path)
        assert result.returncode == 0, result.stderr
        return parsed_now(result.stdout), path.read_bytes()

    return folder, run


def test_the_units_that_changed_files_cost(project, variables):
    """Without a precompiled header, which the tests of make verify have."""
    folder, add = project
    before = set(pathlib.Path(variables["OPTRACE_CACHE_DIR"]).glob("source/*"))
    parsed, index = add()
    assert parsed == 3 and b"reads_too" in index
    (folder / "reads.cpp").touch()
    (folder / "shared.h").touch()
    assert add() == (0, index)
    text = (folder / "shared.h").read_text()
    (folder / "shared.h").write_text(text + "inline int added_by_a_test() { return 4; }\n")
    parsed, changed = add()
    assert parsed == 2 and b"added_by_a_test" in changed
    (folder / "shared.h").write_text(text)
    assert add() == (2, index)
    (work,) = set(pathlib.Path(variables["OPTRACE_CACHE_DIR"]).glob("source/*")) - before
    entries = list(work.glob("units/*.unit"))
    assert len(entries) == 3
    for entry in entries:
        entry.write_bytes(entry.read_bytes()[:-20])
    assert add() == (3, index)


@pytest.mark.verify
def test_a_touched_source_is_not_parsed_again(add, fresh, tree):
    (tree / "c10/core/DispatchKey.cpp").touch()
    assert add() == (0, fresh[1])


@pytest.mark.release
def test_a_changed_header_costs_the_units_that_read_it(add, fresh, tree):
    # Part of the precompiled header, which all units share.
    path = tree / "c10/core/DispatchKeySet.h"
    text = path.read_text()
    path.write_text(text + "\n// changed\n")
    try:
        assert add()[0] == fresh[0]
    finally:
        path.write_text(text)
    assert add() == (fresh[0], fresh[1])


@pytest.mark.verify
def test_a_touched_header_is_no_reason_to_do_without_the_precompiled_one(
        source_command, fresh, add, tree, tmp_path):
    """clang refuses a precompiled header that is older than its files, so it is made again."""
    (tree / "c10/core/DispatchKeySet.h").touch()
    path = tree / "c10/core/DispatchKey.cpp"
    text = path.read_text()
    path.write_text(text + "namespace c10 { void added_by_a_test() {} }\n")
    try:
        result = source_command("add", tree, *ONLY, "-o", tmp_path / "x.index")
    finally:
        path.write_text(text)
    assert result.returncode == 0 and parsed_now(result.stdout) == 1
    assert "Reading the headers shared by all units" in result.stderr
    assert b"added_by_a_test" in (tmp_path / "x.index").read_bytes()
    assert add() == (1, fresh[1])


@pytest.mark.release
def test_a_broken_entry_is_made_again(add, fresh, variables):
    entries = list(pathlib.Path(variables["OPTRACE_CACHE_DIR"]).glob("source/*/units/*.unit"))
    assert len(entries) > fresh[0]
    for entry in entries:
        entry.write_bytes(entry.read_bytes()[:-20])
    assert add() == (fresh[0], fresh[1])


@pytest.mark.verify
def test_a_lost_header_is_made_again_only_when_needed(add, fresh, variables, tree):
    headers = list(pathlib.Path(variables["OPTRACE_CACHE_DIR"]).glob("source/*/*.pch"))
    assert headers
    for header in headers:
        header.write_bytes(b"no header at all")
    assert add() == (0, fresh[1])
    path = tree / "c10/core/DispatchKey.cpp"
    text = path.read_text()
    path.write_text(text + "// changed\n")
    try:
        assert add()[0] == 1
    finally:
        path.write_text(text)
    assert add() == (1, fresh[1])


# On demand.


@pytest.fixture(scope="module")
def bare_command(build, run_program, python, variables, tmp_path_factory):
    """bare_command(*arguments): optrace installed without indexes, with this module's folders."""
    prefix = tmp_path_factory.mktemp("prefix")
    (prefix / "share/optrace").mkdir(parents=True)
    for entry in (build / "share/optrace").iterdir():
        if entry.name != "indexes":
            (prefix / "share/optrace" / entry.name).symlink_to(entry)
    (prefix / "lib").symlink_to(build / "lib")
    shutil.copy(build / "optrace", prefix)
    environment = {**os.environ, **{key: str(value) for key, value in variables.items()}}

    def run(*arguments):
        return run_program([prefix / "optrace", *map(str, arguments), "--python", python],
                           timeout=600, env=environment)

    return run


@pytest.fixture(scope="module")
def on_demand(bare_command, tree, variables):
    """The index that grows on demand; at first it contains only the catalogue."""
    made = bare_command("source", "add", tree, "--on-demand")
    assert made.returncode == 0, made.stderr
    assert "on demand" in bare_command("source", "list").stdout
    return pathlib.Path(variables["OPTRACE_INDEX_DIR"]) / "torch-2.6.0.index"


def line_is_of(tree, place, name):
    file, line = place.rsplit(":", 1)
    return name in (tree / file).read_text().splitlines()[int(line) - 1]


def test_explain_indexes_what_it_is_asked_for(on_demand, bare_command, tree):
    before = on_demand.read_bytes()
    explained = bare_command("explain", "conv2d", "--all")
    assert explained.returncode == 0, explained.stderr
    assert re.search(r"Indexing \d+ units", explained.stderr)
    for name, file in (("conv2d_symint", CONVOLUTION), ("_convolution", CONVOLUTION),
                       ("mkldnn_convolution", "aten/src/ATen/native/mkldnn/Conv.cpp")):
        places = re.findall(rf"{re.escape(file)}:\d+", explained.stdout)
        assert any(line_is_of(tree, place, name) for place in places), (name, explained.stdout)
    after = on_demand.read_bytes()
    for unit in (b"aten/src/ATen/native/cudnn/ConvShared.cpp",
                 b"aten/src/ATen/native/mkldnn/Conv.cpp"):
        assert unit + b"\n" not in before and unit + b"\n" in after
    # Only once.
    again = bare_command("explain", "conv2d", "--all")
    assert again.stdout == explained.stdout
    assert again.stderr == "" and on_demand.read_bytes() == after


def test_locate_indexes_what_it_is_asked_for(on_demand, bare_command, tree):
    located = bare_command("locate", "at::native::relu")
    assert located.returncode == 0, located.stderr
    assert "Indexing" in located.stderr
    place = re.search(r"aten/src/ATen/native/Activation.cpp:\d+", located.stdout)
    assert place and line_is_of(tree, place.group(), "relu")
    assert bare_command("locate", "at::native::relu").stderr == ""
    # No source defines it, and it is searched for only once.
    for said in ("Writing the index", ""):
        missing = bare_command("locate", "at::native::no_such_function")
        assert missing.returncode == USAGE and said in missing.stderr
    assert "Writing the index" not in missing.stderr


def test_locate_prints_the_text_of_the_indexed_tree(on_demand, bare_command, tree):
    printed = bare_command("locate", "at::native::relu", "--source")
    assert printed.returncode == 0, printed.stderr
    head, *text = printed.stdout.splitlines()
    file, line = head.split("  ")[1].rsplit(":", 1)
    assert pathlib.Path(file) == tree / "aten/src/ATen/native/Activation.cpp"
    assert text[0] == "Tensor relu(const Tensor & self) {" and text[-1] == "}"
    lines = pathlib.Path(file).read_text().splitlines()
    assert lines[int(line) - 1:][:len(text)] == text


def test_what_was_asked_for_stays(on_demand, bare_command):
    assert bare_command("explain", "gelu").returncode == 0
    before = on_demand.read_bytes()
    assert "Convolution.cpp" in bare_command("explain", "conv2d").stdout
    assert on_demand.read_bytes() == before


def test_a_complete_index_of_the_torch_comes_first(on_demand, optrace, python, variables):
    before = on_demand.read_bytes()
    explained = optrace("explain", "sigmoid", "--python", python, environment=variables)
    assert explained.returncode == 0 and explained.stderr == ""
    assert on_demand.read_bytes() == before


def test_a_tree_that_is_gone(on_demand, bare_command, tree):
    """The known part of the answer is shown, and the problem is reported."""
    elsewhere = tree.with_name("elsewhere")
    tree.rename(elsewhere)
    try:
        explained = bare_command("explain", "tanh")
    finally:
        elsewhere.rename(tree)
    assert explained.returncode == 0 and "tanh(Tensor self) -> Tensor" in explained.stdout
    assert "not indexed on demand" in explained.stderr and str(tree) in explained.stderr


# Interrupts and concurrent runs.


@pytest.fixture
def started(start_optrace, python, tree, variables, tmp_path):
    """started(*patterns) -> Popen of `optrace source add` for these units, with one worker."""

    def start(*patterns):
        only = [word for pattern in patterns for word in ("--only", pattern)]
        return start_optrace("source", "add", tree, "--python", python, *only, "--jobs", "1", "-o",
                             tmp_path / "x.index", environment=variables)

    return start


def kept(variables):
    """Returns the number of whole units in the cache, where SIGKILL can leave a temporary file."""
    return len(list(pathlib.Path(variables["OPTRACE_CACHE_DIR"]).glob("source/*/units/*.unit")))


def wait_for_units(process, variables, count):
    """Waits until the cache has `count` units, while the process is still working."""
    def has_them():
        assert process.poll() is None
        return kept(variables) >= count

    wait_until(has_them, f"the cache has {count} units")


@pytest.mark.parametrize("end", [
    signal.SIGINT, pytest.param(signal.SIGKILL, marks=pytest.mark.verify)])
def test_units_done_before_an_interruption_are_kept(on_demand, started, source_command, tree,
                                                    variables, tmp_path, end):
    folder = {signal.SIGINT: "c10/core/impl/*.cpp", signal.SIGKILL: "c10/util/*.cpp"}[end]
    units = len(list(tree.glob(folder)))
    (tmp_path / "x.index").write_bytes(b"what was there before")
    before = kept(variables)
    process = started(folder)
    wait_for_units(process, variables, before + 3)
    process.send_signal(end)
    process.communicate(timeout=300)
    assert process.returncode == {signal.SIGINT: INTERRUPTED, signal.SIGKILL: -9}[end]
    assert (tmp_path / "x.index").read_bytes() == b"what was there before"
    done = kept(variables) - before
    assert 3 <= done < units
    again = source_command("add", tree, "--only", folder, "-o", tmp_path / "x.index")
    assert again.returncode == 0, again.stderr
    assert parsed_now(again.stdout) <= units - done


@pytest.mark.verify
def test_two_at_a_time(fresh, started, source_command, tree, variables, tmp_path):
    before = kept(variables)
    process = started("c10/cuda/*.cpp", "c10/core/*.cpp")
    wait_for_units(process, variables, before + 1)
    second = source_command("add", tree, *ONLY, "-o", tmp_path / "second.index")
    assert second.returncode == USAGE
    assert "another optrace is indexing" in second.stderr and str(tree) in second.stderr
    assert process.communicate(timeout=600) and process.returncode == 0
    assert not (tmp_path / "second.index").exists()


@pytest.mark.verify
def test_memory_is_bounded(source_command, tree, tmp_path):
    """A unit that exceeds the memory limit is listed as not indexed; the others are indexed."""
    (tree / "c10/core/TestHuge.cpp").write_text(
        "template <class T, T...> struct Numbers {};\n"
        "using Huge = __make_integer_seq<Numbers, int, 3000000>;\nHuge* huge;\n")
    (tree / "c10/core/TestSmall.cpp").write_text("namespace c10 { void test_small() {} }\n")
    try:
        result = source_command("add", tree, "--only", "c10/core/Test*.cpp", "--worker-memory",
                                "400M", "-o", tmp_path / "x.index")
    finally:
        (tree / "c10/core/TestHuge.cpp").unlink()
        (tree / "c10/core/TestSmall.cpp").unlink()
    assert result.returncode == 0, result.stderr
    assert re.search("not indexed: c10/core/TestHuge.cpp .*memory", result.stdout)
    assert b"test_small" in (tmp_path / "x.index").read_bytes()


def test_what_is_kept_is_listed(on_demand, source_command, tree):
    listed = source_command("list")
    assert listed.returncode == 0, listed.stderr
    assert re.search(rf"kept work +\d+ MB.*{re.escape(str(tree))}", listed.stdout)


# Fetching.


@pytest.fixture(scope="module")
def remote(tree, run_program, tmp_path_factory):
    """(a repository with the source, its commit)"""
    folder = tmp_path_factory.mktemp("remote") / "pytorch"
    folder.mkdir()

    def git(*arguments):
        done = run_program(["git", "-C", str(folder), "-c", "user.name=A", "-c", "user.email=a@b.c",
                            *arguments], timeout=300)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    git("init", "--quiet")
    for name in ("aten", "c10", "caffe2", "torch/csrc", "torchgen", "tools", "docs/source/notes"):
        shutil.copytree(tree / name, folder / name, symlinks=True)
    shutil.copy(tree / "version.txt", folder)
    git("add", "--all", "--force")
    git("commit", "--quiet", "--message", "The source")
    commit = git("rev-parse", "HEAD")
    git("config", "uploadpack.allowFilter", "true")
    # Not the newest commit but torch's own must be fetched.
    (folder / "version.txt").write_text("9.9.9\n")
    git("commit", "--quiet", "--all", "--message", "A later one")
    return folder, commit


@pytest.fixture
def torch_of(torch_folder, tmp_path):
    """torch_of(commit) -> an environment in which the reference torch reports that commit."""

    def make(commit):
        overlay = tmp_path / "overlay/torch"
        overlay.mkdir(parents=True)
        for entry in torch_folder.iterdir():
            if entry.name != "version.py":
                (overlay / entry.name).symlink_to(entry)
        text = (torch_folder / "version.py").read_text()
        (overlay / "version.py").write_text(
            re.sub("git_version = .*", f"git_version = {commit!r}", text))
        return {"PYTHONPATH": tmp_path / "overlay"}

    return make


@pytest.fixture
def assert_is_the_commit(remote, run_program):
    """assert_is_the_commit(folder): the folder has the files of the commit, and nothing else."""

    def check(folder):
        assert (folder / "version.txt").read_text().startswith("2.6.0")
        assert (folder / CONVOLUTION).is_file()
        assert not (folder / "docs").exists(), "sparse: only what indexing needs"
        git = ["git", "-C", str(folder)]
        assert run_program([*git, "rev-parse", "HEAD"]).stdout.strip() == remote[1]
        assert run_program([*git, "rev-list", "--count", "HEAD"]).stdout.strip() == "1"
        assert run_program([*git, "status", "--porcelain"]).stdout == ""

    return check


def test_exactly_the_commit_is_fetched(source_command, remote, torch_of, assert_is_the_commit,
                                       tmp_path):
    """The source stays, although the index has no place. test_fetched_source_is_indexed has one."""
    (tmp_path / "file").touch()
    result = source_command("fetch", "--remote", remote[0], "--folder", tmp_path / "fetched",
                            environment={**torch_of(remote[1]),
                                         "OPTRACE_INDEX_DIR": tmp_path / "file/indexes"})
    assert result.returncode == USAGE, result.stderr
    assert str(tmp_path / "file/indexes") in result.stderr
    assert_is_the_commit(tmp_path / "fetched")


@pytest.mark.verify
def test_fetched_source_is_indexed(source_command, remote, torch_of, assert_is_the_commit,
                                   tmp_path):
    result = source_command("fetch", "--remote", remote[0], "--folder", tmp_path / "fetched",
                            "--only", "c10/core/D*.cpp", environment=torch_of(remote[1]))
    assert result.returncode == 0, result.stderr
    assert_is_the_commit(tmp_path / "fetched")


@pytest.mark.parametrize("commit, words", [("0" * 40, "not in this repository"),
                                           ("", "commit that torch was built from is unknown"),
                                           ("--upload-pack=x",
                                            "commit that torch was built from is unknown")])
def test_a_commit_that_the_repository_has_not(source_command, remote, torch_of, tmp_path, commit,
                                              words):
    result = source_command("fetch", "--remote", remote[0], "--folder", tmp_path / "fetched",
                            environment=torch_of(commit))
    assert result.returncode in (USAGE, FAILED)
    assert words in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["overlay"]


@pytest.mark.parametrize("url", ["ext::sh -c 'touch {folder}/pwned'", "--upload-pack=touch",
                                 "/no/such/folder", "file:///no/such/folder", "ftp://x/y",
                                 "https://optrace.invalid/pytorch.git"])
def test_a_remote_that_is_none(source_command, torch_of, tmp_path, url):
    result = source_command("fetch", f"--remote={url.format(folder=tmp_path)}", "--folder",
                            tmp_path / "fetched", environment=torch_of("1" * 40))
    assert result.returncode in (USAGE, FAILED), result.stdout
    assert len(result.stderr[result.stderr.index("optrace: "):].splitlines()) >= 2
    assert [path.name for path in tmp_path.iterdir()] == ["overlay"]


def test_without_git(source_command, torch_of, tmp_path):
    (tmp_path / "bin").mkdir()
    result = source_command("fetch", "--folder", tmp_path / "fetched",
                            environment={**torch_of("1" * 40), "PATH": tmp_path / "bin"})
    assert result.returncode == USAGE
    assert "git" in result.stderr and "install it" in result.stderr
    assert not (tmp_path / "fetched").exists()


# Extensions.


@pytest.fixture(scope="module")
def extension(repository, tmp_path_factory):
    """The extension in fixtures/projects."""
    folder = tmp_path_factory.mktemp("extension") / "soft_clamp"
    shutil.copytree(repository / "fixtures/projects/soft_clamp", folder)
    return folder


@pytest.mark.verify
def test_the_extension_is_real(extension, torch_folder, run_program, python):
    """It can be built against the wheel, and works."""
    built = run_program(["g++", "-shared", "-fPIC", "-O0", "-std=c++17",
                         "-D_GLIBCXX_USE_CXX11_ABI=0",
                         f"-I{torch_folder}/include",
                         f"-I{torch_folder}/include/torch/csrc/api/include",
                         "csrc/soft_clamp.cpp", "-o", "libsoft_clamp.so", f"-L{torch_folder}/lib",
                         "-lc10", "-ltorch_cpu"], cwd=extension, timeout=300)
    assert built.returncode == 0, built.stderr
    ran = run_program([python, "-B", "-c", """
import torch, soft_clamp
soft_clamp.load("libsoft_clamp.so")
x = torch.linspace(-3, 3, 7, requires_grad=True)
y = soft_clamp.SoftClamp(2.0)(x)
y.sum().backward()
assert torch.allclose(y, 2 * torch.tanh(x / 2)) and torch.allclose(x.grad, 1 - (y / 2) ** 2)
print(y.grad_fn.name())"""], cwd=extension)
    assert ran.returncode == 0, ran.stderr
    assert "SoftClamp" in ran.stdout


def test_an_extension_is_indexed(source_command, extension, variables):
    made = source_command("add", extension, "--project")
    assert made.returncode == 0, made.stderr
    assert "2 ops" in made.stdout and "(1 of 1 units, 1 parsed now)" in made.stdout
    path = pathlib.Path(variables["OPTRACE_INDEX_DIR"]) / "project-soft_clamp.index"
    data = path.read_bytes()
    for name in (b"soft_clamp::soft_clamp\0", b"csrc/soft_clamp.cpp\0", b"soft_clamp_autograd",
                 b"soft_clamp(Tensor self, float limit=1.0) -> Tensor", b"Autograd\0",
                 b"soft_clamp_backward(Tensor grad, Tensor self, float limit) -> Tensor"):
        assert name in data, name
    assert "1 parsed" not in source_command("add", extension, "--project").stdout
    listed = source_command("list").stdout
    assert re.search(r"^soft_clamp +\d+ definitions", listed, re.MULTILINE)
    assert "an extension, built with torch 2.6.0" in listed


def test_an_extensions_index_is_none_of_torch(source_command, extension, optrace, python,
                                              variables):
    assert source_command("add", extension, "--project").returncode == 0
    # The usual cache has what tracing needs.
    shown = optrace("relu", "--python", python,
                    environment={"OPTRACE_INDEX_DIR": variables["OPTRACE_INDEX_DIR"]})
    assert shown.returncode == 0, shown.stderr
    assert "aten/src/ATen" in shown.stdout


def test_an_extensions_ops_locate_and_explain_like_pytorchs_own(source_command, extension, optrace,
                                                                python, variables):
    assert source_command("add", extension, "--project").returncode == 0
    lines = (extension / "csrc/soft_clamp.cpp").read_text().splitlines()

    def ask(command, name):
        done = optrace(command, name, "--format", "json", "--python", python, environment=variables)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    op, *_ = ask("locate", "soft_clamp::soft_clamp")["answers"]
    assert (op["kind"], op["source"]["file"]) == ("op", "csrc/soft_clamp.cpp")
    line = op["source"]["line"]
    assert "soft_clamp(Tensor self" in "".join(lines[line - 2:line + 1])
    explained = ask("explain", "soft_clamp::soft_clamp")
    assert explained["op"] == "soft_clamp::soft_clamp"
    assert explained["declared"]["file"] == "csrc/soft_clamp.cpp"
    assert explained["signature"]["text"] == "soft_clamp(Tensor self, float limit=1.0) -> Tensor"
    table = {entry["key"]: entry for entry in explained["dispatch"]}
    assert table["CPU"]["functions"][0]["source"]["file"] == "csrc/soft_clamp.cpp"
    assert "soft_clamp_autograd" in table["AutogradCPU"]["kernel"]
    assert table["AutogradCPU"]["alias_key"] == "Autograd"


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".hidden", "a b"])
def test_a_name_that_is_none(source_command, extension, name):
    result = source_command("add", extension, "--project", f"--name={name or '/'}")
    assert result.returncode == USAGE and "name" in result.stderr


def test_an_extension_without_source(source_command, tmp_path):
    (tmp_path / "empty").mkdir()
    result = source_command("add", tmp_path / "empty", "--project")
    assert result.returncode == USAGE and "no C++ or CUDA source" in result.stderr
    result = source_command("add", tmp_path / "absent", "--project")
    assert result.returncode == USAGE and "no such folder" in result.stderr


def test_a_compilation_database_is_used(source_command, tmp_path):
    """CMake's database is used: it defines a macro without which no op is registered."""
    folder = tmp_path / "guarded"
    (folder / "csrc").mkdir(parents=True)
    (folder / "csrc/ops.cpp").write_text("""#ifdef GUARD
#include <torch/library.h>
TORCH_LIBRARY(guarded, library) {
  library.def("double(Tensor self) -> Tensor");
  library.def("triple(Tensor self) -> Tensor");
}
#endif
int always() { return 1; }
""")
    without = source_command("add", folder, "--project")
    assert without.returncode == 0 and " 0 ops" in without.stdout, without.stderr
    (folder / "compile_commands.json").write_text(
        f'[{{"directory": "{folder}", "file": "csrc/ops.cpp",'
        ' "command": "g++ -O2 -DGUARD=\\"a b\\" -Icsrc -c csrc/ops.cpp -o x.o"}]')
    with_it = source_command("add", folder, "--project")
    assert with_it.returncode == 0 and " 2 ops" in with_it.stdout, with_it.stderr
