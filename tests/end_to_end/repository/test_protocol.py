"""The command and the traced process use the same names in their messages."""
import ast
import importlib.util
import re

import pytest

HEADER = "tracer/connection/protocol.h"
MODULE = "target/python/optrace_target/protocol.py"
CPP_GROUPS = {"message": "Message", "order": "Order", "key": "Key"}
# The folders with code of either side.
CPP_FOLDERS = ("tracer/connection", "tracer/launch", "tracer/attach")
PYTHON_FOLDERS = ("target/python",)


def names_in_header(repository):
    """{group: {NAME: value}} of the C++ header."""
    groups = {}
    for group, body in re.findall(r"^namespace (\w+) \{\n(.*?)^\}  // namespace \1$",
                                  (repository / HEADER).read_text(), re.MULTILINE | re.DOTALL):
        named = re.findall(r'constexpr const char\* k(\w+) = "(\w+)";', body)
        assert len(named) == body.count("constexpr")
        groups[CPP_GROUPS[group]] = {re.sub(r"(?<!^)(?=[A-Z])", "_", name).upper(): value
                                     for name, value in named}
    return groups


def names_in_module(repository):
    spec = importlib.util.spec_from_file_location("protocol", repository / MODULE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {group: {name: value for name, value in vars(getattr(module, group)).items()
                    if not name.startswith("_")} for group in CPP_GROUPS.values()}


def test_both_sides_list_the_same_names(repository):
    module = names_in_module(repository)
    assert names_in_header(repository) == module
    assert all(name == value.upper() for names in module.values() for name, value in names.items())
    for names in module.values():
        assert len(set(names.values())) == len(names)


def cpp_files(repository):
    return [path for folder in CPP_FOLDERS for path in (repository / folder).glob("*.cpp")]


def python_files(repository):
    return [path for folder in PYTHON_FOLDERS for path in (repository / folder).rglob("*.py")
            if path != repository / MODULE]


def test_each_name_is_used_on_both_sides(repository):
    cpp = "\n".join(path.read_text() for path in cpp_files(repository))
    python = "\n".join(path.read_text() for path in python_files(repository))
    for group, names in names_in_module(repository).items():
        for name, value in names.items():
            constant = "k" + "".join(word.capitalize() for word in value.split("_"))
            assert re.search(rf"\b{group.lower()}::{constant}\b", cpp), (group, name)
            assert re.search(rf"\b{group}\.{name}\b", python), (group, name)


@pytest.mark.parametrize("call", ["send", "receive"])
def test_no_message_is_named_by_a_literal(repository, call):
    for path in cpp_files(repository):
        literals = re.findall(rf'\b{call}\(\s*(?:\{{+\s*)?"[^"]*"', path.read_text())
        assert not literals, path
    for path in python_files(repository):
        calls = [node for node in ast.walk(ast.parse(path.read_text()))
                 if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == call]
        for node in calls:
            assert not any(isinstance(argument, ast.Constant) and isinstance(argument.value, str)
                           for argument in node.args), (path, node.lineno)
            for argument in node.args:
                assert not any(isinstance(key, ast.Constant) for key in
                               getattr(argument, "keys", ())), (path, node.lineno)
