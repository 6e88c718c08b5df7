"""Indexing of real PyTorch source, and errors of the source, Python, the index or the machine. The
shipped index is compared with its wheel.
"""
import collections
import contextlib
import functools
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import time

import pytest

from attach_target import wait_until
from refusals import assert_refused
from tree_of_few_ops import copy_with_few_ops

USAGE, FAILED, INTERRUPTED = 2, 3, 130
CONVOLUTION = "aten/src/ATen/native/Convolution.cpp"
ONLY = ["--only", CONVOLUTION, "--only", "c10/core/Dispatch*.cpp", "--only", "c10/util/Ty*.cpp"]


def copy_tree(source, folder, version="2.6.0a0"):
    """Makes a copy of the source from links, with its own c10 folder and version."""
    folder.mkdir()
    for entry in source.iterdir():
        if entry.name not in ("version.txt", "c10"):
            (folder / entry.name).symlink_to(entry)
    (folder / "version.txt").write_text(version + "\n")
    shutil.copytree(source / "c10", folder / "c10")
    return folder


@pytest.fixture(scope="session")
def tree(source, tmp_path_factory):
    """The source with few ops, with a c10 folder that a test may change and restore."""
    folder = tmp_path_factory.mktemp("tree") / "pytorch"
    copy_with_few_ops(source, folder)
    return folder


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    """The cache of work on the tree, so that code is generated for it only once."""
    return tmp_path_factory.mktemp("cache")


def is_worker(process):
    try:
        return ((process / "comm").read_text().startswith("optrace-index-w") and
                b"--clang-version" not in (process / "cmdline").read_bytes())
    except OSError:
        return False


class Temporary:
    def __init__(self, folder, cache):
        self.folder = folder
        self.environment = {"TMPDIR": folder, "OPTRACE_TEST_MARK": str(folder),
                            "OPTRACE_CACHE_DIR": cache}

    def processes(self):
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if (entry.name.isdigit() and
                        f"OPTRACE_TEST_MARK={self.folder}\0".encode() in
                        (entry / "environ").read_bytes()):
                    found.append(entry)
        return found

    def workers(self):
        """Returns the workers that parse; one that is asked for its version doesn't."""
        return [entry for entry in self.processes() if is_worker(entry)]

    def generators(self):
        return [entry for entry in self.processes()
                if b"torchgen" in (entry / "cmdline").read_bytes()]

    def assert_nothing_left(self):
        assert self.processes() == []
        assert list(self.folder.iterdir()) == []


@pytest.fixture
def temporary(tmp_path, cache):
    folder = tmp_path / "temporary"
    folder.mkdir()
    return Temporary(folder, cache)


@pytest.fixture
def add(optrace, python, temporary):
    """add(DIR, options...): `optrace source add`; asserts that only the index is left behind."""

    def run(*arguments, **options):
        result = optrace("source", "add", *arguments, "--python", python, timeout=600,
                         environment=temporary.environment, **options)
        temporary.assert_nothing_left()
        return result

    return run


@pytest.fixture(scope="session")
def made(optrace, python, tree, cache, tmp_path_factory):
    """An index of a few units, made by one worker."""
    path = tmp_path_factory.mktemp("index") / "made.index"
    result = optrace("source", "add", tree, "--python", python, *ONLY, "--jobs", 1, "-o", path,
                     timeout=600, environment={"OPTRACE_CACHE_DIR": cache})
    assert result.returncode == 0, result.stderr
    assert "not indexed" not in result.stdout
    return Index(path)


@pytest.fixture(scope="session")
def shipped(build):
    return Index(build / "share/optrace/indexes/torch-2.6.0.index")


class Index:
    """Reads the file as described in docs/index-format.md, without any code of optrace."""

    def __init__(self, path):
        self.path = path
        data = path.read_bytes()
        magic, _, sections, size, start = struct.unpack_from("<8sIIQQ", data)
        assert magic == b"OPTINDEX" and size == len(data)
        parts = {}
        for number in range(sections):
            kind, _, offset, length = struct.unpack_from("<IIQQ", data, 48 + 24 * number)
            parts[kind] = data[start + offset:start + offset + length]

        def names(kind):
            return parts[kind].decode().split("\0")[:-1]

        def numbers(kind, code="I"):
            return struct.unpack(f"<{len(parts[kind]) // 4}{code}", parts[kind])

        meta = names(1)
        self.meta = dict(zip(meta[::2], meta[1::2]))
        files, symbols = names(2), names(3)
        self.definitions = [(symbols[symbol], files[file], line)
                            for symbol, file, line in zip(numbers(5), numbers(6), numbers(7))]
        starts, callees, distances = numbers(8), numbers(9), numbers(10, "i")
        # (caller, callee, file, line)
        self.calls = [(caller, symbols[callees[at]], file, line + distances[at])
                      for number, (caller, file, line) in enumerate(self.definitions)
                      for at in range(starts[number], starts[number + 1])]
        self.symbols = {symbol for symbol, _, _ in self.definitions}


def last_name(symbol):
    """Returns the name of a key's function in the source; None if the key doesn't contain it as is
    (operators, lambdas, template arguments).
    """
    if "#" in symbol or not (start := re.match(r"_ZN?K?", symbol)):
        return None
    name, rest = None, symbol[start.end():]
    while found := re.match(r"(\d+)", rest):
        name = rest[found.end():][:int(found.group(1))]
        rest = rest[found.end() + len(name):]
    is_structor = re.match(r"[CD]1E", rest) is not None
    if (rest.startswith("I")
            or symbol.startswith("_ZN") and not (rest.startswith("E") or is_structor)):
        return None
    return name


def lines_of(source, file):
    path = source / file
    return path.read_text(errors="replace").splitlines() if path.is_file() else None


def test_conv2d_is_found_where_it_is(made, source):
    text = lines_of(source, CONVOLUTION)
    for name in ("conv2d_symint", "convolution", "_convolution", "_select_conv_backend"):
        lines = [line for symbol, file, line in made.definitions
                 if file == CONVOLUTION and last_name(symbol) == name]
        assert lines, name
        for line in lines:
            assert re.search(rf"\b{name}\s*\(", text[line - 1]), (name, line, text[line - 1])


def split_by_line(places, source):
    """Returns (places whose line names the function, those whose line uses a macro, others).

    places: (key, file, line). A macro is a word of capitals only.
    """
    named, macros, others = [], [], []
    text_of = functools.lru_cache(None)(lambda file: lines_of(source, file))
    for symbol, file, line in places:
        name, text = last_name(symbol), text_of(file)
        if name is None or text is None:
            continue
        found = text[line - 1]
        kind = (named if name in found else
                macros if re.search(r"\b[A-Z][A-Z0-9_]{4,}\b", found) else others)
        kind.append((symbol, f"{file}:{line}", found.strip()))
    return named, macros, others


def test_every_definition_is_at_its_name(made, source):
    """The line of each definition names the function or uses a macro, in all files read."""
    named, macros, others = split_by_line(made.definitions, source)
    assert others == []
    assert len(named) > 3000
    assert len(macros) < 0.05 * len(named), macros[:20]


def test_call_sites_name_what_they_call(made, source):
    """The line of each call names the function or uses a macro; constructors need no name."""
    calls = [(callee, file, line) for _, callee, file, line in made.calls
             if file == CONVOLUTION and not re.search(r"[CD]1E", callee)]
    named, macros, others = split_by_line(calls, source)
    assert others == []
    assert len(named) > 600
    assert len(macros) < 0.3 * len(named), macros[:20]


def test_calls_in_templates_are_found(made, source):
    """Calls in templates are found, although they are unresolved until instantiation."""
    text = lines_of(source, CONVOLUTION)
    sites = collections.defaultdict(set)
    for caller, callee, file, line in made.calls:
        if file == CONVOLUTION:
            sites[last_name(caller), last_name(callee)].add(text[line - 1].strip())
    assert any("params.use_cudnn(" in line
               for line in sites["_select_conv_backend", "use_cudnn"]), sites
    assert any("check_shape_forward(" in line
               for key, lines in sites.items() if key[1] == "check_shape_forward" for line in lines)


def test_neither_workers_nor_what_was_kept_matter(made, add, tree, cache, tmp_path):
    kept = tmp_path / "kept.index"
    result = add(tree, *ONLY, "-o", kept)
    assert result.returncode == 0 and ", 0 parsed now" in result.stdout, result.stderr
    assert kept.read_bytes() == made.path.read_bytes()
    for units in cache.glob("source/*/units"):
        shutil.rmtree(units)
    fresh = tmp_path / "fresh.index"
    result = add(tree, *ONLY, "--jobs", 2, "-o", fresh)
    assert result.returncode == 0 and ", 0 parsed now" not in result.stdout, result.stderr
    assert fresh.read_bytes() == made.path.read_bytes()


def test_no_path_of_this_machine_gets_in(made, shipped, source, tree):
    for index in (made, shipped):
        data = index.path.read_bytes()
        for trace in (str(source).encode(), str(tree).encode(), b"/tmp/", b"optrace-",
                      b"site-packages"):
            assert trace not in data


# Unsuitable trees, Pythons and folders.


def test_a_folder_that_is_no_tree(add, tmp_path):
    output = tmp_path / "x.index"
    assert_refused(add(tmp_path / "absent", "-o", output), USAGE, "no such folder",
                   tmp_path / "absent")
    assert_refused(add(tmp_path, "-o", output), USAGE, "version.txt")
    (tmp_path / "file").touch()
    assert_refused(add(tmp_path / "file", "-o", output), USAGE, tmp_path / "file")
    assert not output.exists()


def test_a_tree_of_another_version(add, source, tmp_path):
    tree = copy_tree(source, tmp_path / "tree", "2.7.0")
    assert_refused(add(tree, "-o", tmp_path / "x.index"), USAGE, "2.7.0", "2.6.0", "--python",
                   after_progress=True)


def test_a_tree_whose_generators_fail(add, source, tmp_path):
    tree = copy_tree(source, tmp_path / "tree")
    (tree / "torchgen").unlink()
    (tree / "torchgen").mkdir()
    (tree / "torchgen/__init__.py").touch()
    (tree / "torchgen/gen.py").write_text("raise SystemExit('broken on purpose')\n")
    assert_refused(add(tree, "-o", tmp_path / "x.index"), FAILED, "broken on purpose",
                   after_progress=True)
    assert not (tmp_path / "x.index").exists()


def test_a_python_without_torch(optrace, run_program, python, source, tmp_path):
    """A Python without torch is refused; its path is relative, and it runs in another folder."""
    made = run_program([python, "-m", "venv", "--without-pip", str(tmp_path / "bare")])
    assert made.returncode == 0, made.stderr
    result = optrace("source", "add", source, "--python", "bare/bin/python", "-o", "x.index",
                     cwd=tmp_path)
    assert_refused(result, USAGE, "torch", "bare/bin/python", after_progress=True)
    assert not (tmp_path / "x.index").exists()


@pytest.mark.parametrize("output", ["/proc/x.index", "{file}/x.index", "{absent}/x.index"])
def test_an_output_that_cannot_be_written(add, source, tmp_path, output):
    (tmp_path / "file").touch()
    path = output.format(file=tmp_path / "file", absent=tmp_path / "absent")
    refused = add(source, *ONLY, "-o", path)
    assert_refused(refused, USAGE, "x.index")
    assert refused.stderr.startswith("optrace: "), "it said so only after some of the work"


def test_an_own_folder_that_cannot_be_made(optrace, python, source, tmp_path):
    (tmp_path / "file").touch()
    result = optrace("source", "add", source, "--python", python,
                     environment={"OPTRACE_INDEX_DIR": tmp_path / "file/indexes"})
    assert_refused(result, USAGE, tmp_path / "file/indexes", after_progress=True)


# Workers and interrupts.


@pytest.fixture
def started(start_optrace, python, tree, temporary, tmp_path):
    """started(options..., VARIABLE=value) -> Popen of `optrace source add` that writes x.index."""

    def start(*arguments, **environment):
        return start_optrace("source", "add", tree, "--python", python, *arguments, "-o",
                             tmp_path / "x.index",
                             environment={**temporary.environment, **environment})

    return start


@pytest.mark.parametrize("moment", ["generating", "workers"])
def test_an_interrupt_leaves_everything_as_it_was(started, temporary, tmp_path, moment):
    (tmp_path / "x.index").write_bytes(b"what was there before")
    if moment == "workers":
        process = started("--only", "aten/src/ATen/native/R*.cpp")
        wait_until(temporary.workers, "a worker runs")
    else:
        process = started(*ONLY, OPTRACE_CACHE_DIR=tmp_path / "cold")
        wait_until(temporary.generators, "a generator runs")
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=600)
    assert process.returncode == INTERRUPTED, errors
    assert output == "" and "interrupted" in errors
    assert (tmp_path / "x.index").read_bytes() == b"what was there before"
    assert [path.name for path in tmp_path.iterdir() if "index" in path.name] == ["x.index"]
    temporary.assert_nothing_left()


def test_workers_that_are_killed_cost_nothing(started, temporary, made, shipped, tmp_path):
    folder = "c10/cuda/"
    process = started("--only", folder + "*.cpp")
    killed = set()
    while process.poll() is None and len(killed) < 2:
        for worker in temporary.workers():
            with contextlib.suppress(OSError):
                os.kill(int(worker.name), signal.SIGKILL)
                killed.add(worker.name)
        time.sleep(0.05)
    output, errors = process.communicate(timeout=300)
    assert killed
    assert process.returncode == 0, errors
    temporary.assert_nothing_left()
    # Work that is killed once is repeated; a header or unit that is killed twice is listed.
    if "not indexed" not in output:
        expected = {symbol for symbol, file, _ in shipped.definitions
                    if re.fullmatch(re.escape(folder) + r"[^/]*\.cpp", file)}
        assert len(expected) > 50
        assert expected <= Index(tmp_path / "x.index").symbols


@pytest.fixture
def hostile(tree):
    """Hostile sources, and a valid one, in the tree's c10/core."""
    folder = tree / "c10/core"
    (folder / "HostileGarbage.cpp").write_bytes(bytes(range(256)) * 4000)
    (folder / "HostileInclude.cpp").write_text('#include "c10/core/HostileInclude.cpp"\n' * 2)
    (folder / "HostileNested.cpp").write_text(
        "int x = " + "(" * 100000 + "1" + ")" * 100000 + ";\n")
    (folder / "HostileTemplate.cpp").write_text(
        "template <int N> struct F { static constexpr int v = F<N + 1>::v + F<N + 2>::v; };\n"
        "int x = F<0>::v;\n")
    (folder / "HostileEmpty.cpp").write_text("")
    (folder / "HostileGood.cpp").write_text("namespace c10 { void hostile_but_good() {} }\n")
    yield
    for path in folder.glob("Hostile*"):
        path.unlink()


def test_hostile_sources_are_listed_or_read(add, tree, hostile, tmp_path):
    output = tmp_path / "x.index"
    result = add(tree, "--only", "c10/core/Hostile*", "-o", output)
    assert result.returncode == 0, result.stderr
    assert "_ZN3c1016hostile_but_goodEv" in Index(output).symbols
    for line in re.findall("not indexed: (.*)", result.stdout):
        assert line.startswith("c10/core/Hostile") and "Good" not in line and "(" in line


# Broken indexes.


def spoil(path, how):
    data = bytearray(path.read_bytes())
    if how == "truncated":
        del data[len(data) // 2:]
    elif how == "corrupt":
        data[48] ^= 1  # The section table.
    elif how == "of another version":
        data[8] = 99
    else:
        data[:] = b"no index at all"
    path.write_bytes(data)


@pytest.fixture
def own(made, tmp_path):
    """The user's own folder of indexes, with one in it."""
    folder = tmp_path / "own"
    folder.mkdir()
    shutil.copy(made.path, folder / "torch-2.6.0.index")
    return folder


BROKEN = {"truncated": "truncated", "corrupt": "corrupt", "of another version": "version",
          "no index": "not an optrace index"}


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_index_is_listed_as_such(optrace, own, how):
    spoil(own / "torch-2.6.0.index", how)
    result = optrace("source", "list", environment={"OPTRACE_INDEX_DIR": own})
    assert result.returncode == 0, result.stderr
    assert "broken" in result.stdout and BROKEN[how] in result.stdout
    assert str(own / "torch-2.6.0.index") in result.stdout


@pytest.mark.parametrize("how", BROKEN)
def test_with_a_broken_index_the_tree_comes_with_a_warning(optrace, python, own, how):
    spoil(own / "torch-2.6.0.index", how)
    result = optrace("relu", "--python", python, environment={"OPTRACE_INDEX_DIR": own})
    assert result.returncode == 0, result.stderr
    assert "THPVariable_relu" in result.stdout
    assert BROKEN[how] in result.stderr and str(own / "torch-2.6.0.index") in result.stderr


def test_an_own_index_is_used_and_listed(optrace, own):
    result = optrace("source", "list", environment={"OPTRACE_INDEX_DIR": own})
    assert re.search(r"torch 2\.6\.0 .*some units only\n  made by you", result.stdout)


# The shipped index and its wheel.


# (library, namespace, pattern, minimum share of its functions in the index). The minimum is a bit
# less than measured. Missing are functions that no source contains (copy constructors, `_FUN` of a
# lambda), and parts of the wheel whose source is not in the package.
SHARES = [("libtorch_cpu.so", "at::_ops", r"_ZNK?2at4_ops", 0.999),
          ("libtorch_cpu.so", "at::native", r"_ZNK?2at6native", 0.995),
          ("libtorch_cpu.so", "at::native's lambdas", r"_ZZNK?2at6native", 0.95),
          ("libtorch_cpu.so", "torch::autograd", r"_ZNK?5torch8autograd", 0.995),
          ("libtorch_cpu.so", "at and torch", r"_ZNK?(2at|5torch)", 0.98),
          ("libtorch_python.so", "torch::autograd", r"_ZNK?5torch8autograd", 0.995),
          ("libtorch_python.so", "at and torch", r"_ZNK?(2at|5torch)", 0.93)]


@pytest.fixture(scope="session")
def wheel_functions(run_program, torch_folder):
    """library -> the mangled names of its functions without destructors, most of them implicit."""

    @functools.lru_cache(None)
    def functions(library):
        listed = run_program(["nm", "--defined-only", torch_folder / "lib" / library], timeout=300)
        assert listed.returncode == 0, listed.stderr
        names = {fields[2] for line in listed.stdout.splitlines()
                 if len(fields := line.split(" ")) == 3 and fields[1] in "tTwW"}
        return sorted(name for name in names if ".cold" not in name and
                      not re.search(r"D[0-2]Ev", name))

    return functions


@pytest.mark.parametrize("library, namespace, pattern, least", SHARES)
def test_the_shipped_index_knows_the_wheel(build, shipped, wheel_functions, library, namespace,
                                           pattern, least):
    names = [name for name in wheel_functions(library) if re.match(pattern, name)]
    assert len(names) > 1000
    looked_up = subprocess.run([build / "tests/truth/index_lookup", shipped.path],
                               input="\n".join(names) + "\n", capture_output=True, text=True,
                               timeout=300)
    assert looked_up.returncode == 0, looked_up.stderr
    answers = looked_up.stdout.splitlines()
    assert len(answers) == len(names)
    missing = [name for name, answer in zip(names, answers) if not answer]
    share = 1 - len(missing) / len(names)
    print(f"{library}: {namespace}: {share:.4f} of {len(names)}")
    assert share >= least, (share, missing[:20])
