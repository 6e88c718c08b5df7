"""Finds the kernels of graphs for which Inductor generates C++ that calls them (`cpp_wrapper`).

Such a library has all kernels of its graph, under their names. torch.compile loads it as a module;
AOTInductor puts it into a package, with its source, and C++ code loads it from there.
"""
import os
import re

# The records of AOTInductor's generated files: of the one that the library is named after, and in
# later versions than 2.6 of the one with the kernels, which follows.
RECORDS = {"inductor_aot_code", "inductor_aot_wrapper_code"}
KERNEL_RECORD = "inductor_aot_kernel_code"
_DEFINITION = re.compile(r'^extern "C"[^\n(;]*\b(cpp_\w+)\([^;{]*\{', re.MULTILINE)
_KERNELS_BESIDE = ".kernel.cpp"
_LONGEST_SOURCE = 4 << 20  # Characters of a generated C++ file that are searched for kernels.
_MOST_KERNELS = 1000  # Of one library.
_LONGEST = 1000  # Characters of a name.
_LIBRARY = re.compile(r" (/\S+/c[a-z2-7]{51}(?:\.\w+)?\.so)(?: \(deleted\))?$", re.MULTILINE)


def kernels_of(library):
    """Returns the kernels of a library that torch.compile has loaded."""
    return [{**kernel, "library": library} for kernel in _defined_in([_source_of(library)])]


def models(generated, known):
    """Returns an entry of `generated_code` for each of AOTInductor's models that was generated or
    loaded. `generated` has the C++ files of each model, by the one that the library is named after.
    `known` are the libraries that have an entry. A model without kernels is one whose package has
    been removed."""
    found = {os.path.basename(file): {"file": file, "kernels": _defined_in(files), "calls": []}
             for file, files in generated.items()}
    for library in _libraries() - known:
        file = _source_of(library)
        name = os.path.basename(file)
        if name not in found:
            kernels = _defined_in([file, *_beside(file)])
            if kernels or not os.path.exists(file):
                found[name] = {"file": file, "kernels": kernels, "calls": []}
    return list(found.values())


def _source_of(library):
    return os.path.splitext(library)[0] + ".cpp"


def _libraries():
    """Returns the libraries that Inductor generated and that are loaded, by their names: a hash."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        return set(_LIBRARY.findall(maps.read()))


def _beside(file):
    """Returns the only file with kernels in the folder of the file, which is a package's."""
    folder = os.path.dirname(file)
    try:
        names = [name for name in os.listdir(folder) if name.endswith(_KERNELS_BESIDE)]
    except OSError:
        return []
    return [os.path.join(folder, name) for name in names] if len(names) == 1 else []


def _defined_in(files):
    """Returns the kernels that generated C++ files define, with their places."""
    kernels = []
    for file in files:
        try:
            with open(file, encoding="utf-8", errors="replace") as source:
                text = source.read(_LONGEST_SOURCE)
        except OSError:
            continue
        kernels += [{"name": found.group(1)[:_LONGEST],
                     "source": {"file": file, "line": 1 + text.count("\n", 0, found.start())}}
                    for found in _DEFINITION.finditer(text)]
    return kernels[:_MOST_KERNELS]
