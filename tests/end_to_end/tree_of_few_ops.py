"""A tree of PyTorch's source that declares few ops.

Everything else in it is PyTorch's own. Its code is generated in a fourth of the time, and its
headers are parsed in a third, because both grow with the number of ops.
"""
import re
import shutil

NATIVE = "aten/src/ATen/native"
OPS = re.compile(r"\w*conv\w*|(add|empty|gelu|relu|tanh|zeros)_?")


def is_kept(op):
    return OPS.fullmatch(op) is not None


def copy_with_few_ops(source, folder):
    """Makes a copy of the source that declares only OPS. A test may change its c10 folder."""
    folder.mkdir()
    for entry in source.iterdir():
        if entry.name not in ("aten", "c10", "tools"):
            (folder / entry.name).symlink_to(entry)
    for own in ("aten", "c10", "tools"):
        shutil.copytree(source / own, folder / own)
    _filter_entries(folder / NATIVE / "native_functions.yaml", "- func: ")
    _filter_entries(folder / "tools/autograd/derivatives.yaml", "- name: ")
    _filter_entries(folder / "tools/autograd/deprecated.yaml", "- name: ")
    _filter_lists(folder / NATIVE / "ts_native_functions.yaml")


def _filter_entries(path, start):
    """Removes the other ops from a YAML list whose entries begin with `start` and the op."""
    head, *entries = re.split(r"^(?=- )", path.read_text(), flags=re.MULTILINE)
    kept = [entry for entry in entries if is_kept(re.match(start + r" *(\w+)", entry)[1])]
    assert 0 < len(kept) < len(entries)
    path.write_text(head + "".join(kept))


def _filter_lists(path):
    """Removes the other ops from the lists of names in the YAML of the lazy backend."""

    def filtered(match):
        kept = [line + "\n" for line in match[2].splitlines()
                if (item := re.match(r" +- +(?:func: )?(\w+)", line)) and is_kept(item[1])]
        return f"{match[1]}:\n{''.join(kept)}" if kept else f"{match[1]}: []\n"

    path.write_text(re.sub(r"^(full_codegen|ir_gen|supported|symint|autograd):\n((?:[ #].*\n|\n)*)",
                           filtered, path.read_text(), flags=re.MULTILINE))
