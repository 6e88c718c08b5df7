"""The folders of the C++ sources depend on each other one way, as docs/design/ describes it."""
import collections
import pathlib
import re

import pytest

# A folder includes no headers of those to its right.
LAYERS = ("platform", "pytorch", "present", "indexer", "target", "gpu", "tracer", "lookup",
          "report", "src", "python")
# Files that may include nlohmann's headers, besides those called *_json: the basics of JSON, the
# edges to Python and to editors, and what has to do with a traced process's messages, which are
# JSON inside.
JSON_FOLDERS = ("platform/text/json_", "python/", "src/language_server/")
# Each has one function that reads or writes a small file or line, and no other has its JSON:
# compile_commands.json, what a Python tells of itself, what was built before, and progress.
JSON_OF_ONE_FUNCTION = {
    "gpu/build/prebuild_main.cpp", "indexer/builders/project_maker.cpp",
    "indexer/sources/python_installation.cpp", "src/commands/tracing/attach_command.cpp",
    "src/inputs/python_inspection.cpp", "target/build/prebuilt.cpp"}
# Files that ask which user something belongs to. Whether a path is trusted is decided by
# platform/files/file_trust.cpp alone; the others ask about an open file, a process or a socket.
WHOSE = re.compile(r"\bst_uid\b|\bgete?uid\b|\bSO_PEERCRED\b|\bS_IWOTH\b")
KNOW_USERS = {
    "gpu/emulated/libraries/nccl_split.cpp",  # Names shared memory.
    "platform/files/file_trust.cpp", "platform/files/private_folder.cpp",
    "platform/files/mapped_file.cpp", "platform/files/output_file.cpp",
    "python/optrace/_listen.py", "src/completion/index_names.cpp",
    "target/python/optrace_target/connection.py", "tracer/attach/attach.cpp",
    "tracer/attach/attach_refusal.cpp", "tracer/attach/listening.cpp",
    "tracer/connection/program_socket.cpp"}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+/[^"/]+)"', re.MULTILINE)


@pytest.fixture(scope="module")
def included(repository):
    """Folder of the sources -> {folder of a header that it includes: a file that does}."""
    folders = collections.defaultdict(dict)
    for layer in LAYERS:
        for file in sorted((repository / layer).rglob("*")):
            if file.suffix not in (".cpp", ".h"):
                continue
            folder = str(file.parent.relative_to(repository))
            for header in INCLUDE.findall(file.read_text()):
                other = str(pathlib.PurePosixPath(header).parent)
                if other != folder and (repository / header).exists():
                    folders[folder].setdefault(other, file.name)
    return folders


def test_no_folder_includes_headers_of_a_higher_one(included):
    upwards = [(folder, other, file) for folder, others in included.items()
               for other, file in others.items()
               if LAYERS.index(folder.split("/")[0]) < LAYERS.index(other.split("/")[0])]
    assert upwards == []


def test_folders_have_no_cycle(included):
    finished = set()

    def search(folder, path):
        assert folder not in path, " -> ".join([*path[path.index(folder):], folder])
        if folder in finished:
            return
        for other in included.get(folder, ()):
            search(other, [*path, folder])
        finished.add(folder)

    for folder in list(included):
        search(folder, [])
    assert len(finished) > 30


def test_folders_are_in_the_table_of_the_design(included, repository):
    design = (repository / "docs/design/README.md").read_text()
    named = set(re.findall(r"^\| `([\w/]+)/` \|", design, re.MULTILINE))
    missing = [folder for folder in included
               if not any(folder == name or folder.startswith(f"{name}/") for name in named)]
    assert missing == []


def test_json_is_at_the_edges(repository):
    """No header includes nlohmann's, and no source has a JSON value, but those at the edges."""
    with_json = {}
    for layer in LAYERS:
        for file in (repository / layer).rglob("*"):
            if file.suffix in (".cpp", ".h") and "stub_headers" not in file.parts:
                text = file.read_text()
                with_json[str(file.relative_to(repository))] = (
                    "nlohmann/" in text if file.suffix == ".h" else
                    re.search(r'#include <nlohmann/|nlohmann::|#include "platform/text/'
                              r'json_(reader|fields|members)\.h"', text) is not None)
    elsewhere = {file for file, has in with_json.items()
                 if has and not re.search(r"_json\.(cpp|h)$", file)
                 and not file.startswith(JSON_FOLDERS)}
    assert elsewhere == JSON_OF_ONE_FUNCTION


def test_few_files_know_of_users(repository):
    """A new check of who owns what belongs to file_trust."""
    found = {str(file.relative_to(repository))
             for layer in LAYERS
             for file in (repository / layer).rglob("*")
             if file.suffix in (".cpp", ".h", ".py") and WHOSE.search(file.read_text())}
    assert found == KNOW_USERS
