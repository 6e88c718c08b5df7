"""make-wheel.py BUILD OUTPUT [PYTHON...]: packs the build folder BUILD into wheels that run without
a compiler and Debian packages, and writes them to OUTPUT: one for the CPython that BUILD has the
Python module for, one for each PYTHON (a path), and one without the module, for the command in the
environment of any other Python. Also writes the sdist. Fails if a wheel is too large.

The environment whose Python runs this has setup/requirements-wheel.txt. BUILD is configured with
OPTRACE_PORTABLE. The wheels contain the licences of all libraries that are linked statically or
that auditwheel adds.
"""
import argparse
import contextlib
import email
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

import pybind11
import scikit_build_core.build as backend
from wheel.wheelfile import WheelFile

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
MAX_WHEEL = 12_000_000  # Bytes.
# The functions of dlopen's family and of threads have a version of 2.34 in the libc of Debian 12.
PLATFORM = "manylinux_2_34_x86_64"
# The code of the programs and of the modules, in the build folder and in the package.
LIBRARY = "lib/optrace/liboptrace.so"
# What is in the files without a library on the linker's command line: headers, and libstdc++.
HEADER_PACKAGES = ["libcli11-dev", "libclang-common-19-dev", "libfmt-dev", "libstdc++-12-dev",
                   "nlohmann-json3-dev"]
# What every Linux has.
SYSTEM_PACKAGES = ["libc6", "libgcc-s1"]
COMMON_LICENSES = pathlib.Path("/usr/share/common-licenses")


def output_of(*words, **options):
    """Runs a program and returns its output, which is shown if it fails."""
    ended = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True, **options)
    if ended.returncode != 0:
        sys.exit(f"make-wheel.py: {words[0]} fails:\n{ended.stdout}")
    return ended.stdout


def describe(python):
    """The tag and the file name of the module for a Python."""
    question = ("import sys, sysconfig; print('cp%d%d' % sys.version_info[:2], "
                "sysconfig.get_config_var('EXT_SUFFIX'))")
    tag, suffix = output_of(python, "-c", question).split()
    return tag, "_optrace" + suffix


def build_modules(build, pythons):
    """Compiles the Python module for other Pythons; returns {tag: file}."""
    if not pythons:
        return {}
    output_of("cmake", "-B", build, f"-DOPTRACE_OTHER_PYTHONS={';'.join(pythons)}",
              f"-DOPTRACE_OTHER_PYBIND11={pybind11.get_include()}")
    output_of("cmake", "--build", build, "--target", "other_modules")
    return {tag: build / "python/other_modules" / name for tag, name in map(describe, pythons)}


def packages_of_libraries(build, folder):
    """The Debian packages of the libraries that the files in the folder are linked with."""
    commands = output_of("ninja", "-C", build, "-t", "commands", LIBRARY, "_optrace")
    libraries = set(re.findall(r"/usr/lib/\S+?(?:\.a|\.so[.\d]*)(?=\s)", commands))
    libraries.update(re.findall(r"=> (/\S+)", output_of("ldd", folder / LIBRARY)))
    found = set()
    for library in libraries:
        # dpkg knows some by a path from before /lib became a link to /usr/lib.
        paths = {library, library.removeprefix("/usr"), "/usr" + library}
        known = subprocess.run(["dpkg", "-S", *paths], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True)
        packages = re.findall(r"^([^:\s]+)(?::\w+)?: ", known.stdout, re.MULTILINE)
        if not packages:
            sys.exit(f"make-wheel.py: no Debian package has {library}, so its licence is unknown")
        found.update(packages)
    return found.difference(SYSTEM_PACKAGES)


def licenses(build, folder):
    """{name: text} of the licences of what the wheel contains besides optrace."""
    texts = {}
    for package in sorted({*packages_of_libraries(build, folder), *HEADER_PACKAGES}):
        path = pathlib.Path("/usr/share/doc", package, "copyright")
        texts[f"third_party/{package}.txt"] = path.read_text(encoding="utf-8", errors="replace")
    named = {name.rstrip(".") for text in texts.values()
             for name in re.findall(rf"{COMMON_LICENSES}/([\w.-]*\w)", text)}
    for name in sorted(named):
        texts[f"third_party/common-licenses/{name}.txt"] = (COMMON_LICENSES / name).read_text()
    metadata = pathlib.Path(pybind11.__file__).parent.parent.glob("pybind11-*/licenses/LICENSE")
    texts["third_party/pybind11.txt"] = next(metadata).read_text()
    return texts


def from_backend(function, folder, *arguments):
    """Calls a function of the build backend for the project in the folder, without its output."""
    os.chdir(folder)
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        return function(*arguments)


def for_pypi(readme):
    """The README without pictures and links to files of the repository, which PyPI doesn't have."""
    readme = readme.partition("\n## Links\n")[0]
    file = r"\((?!https?:)[^)]*\)"
    return re.sub(rf"\[([^\]]+)\]{file}", r"\1", re.sub(rf"!\[[^\]]*\]{file}\n+", "", readme))


def copy_project(folder):
    """Copies the sources into the folder, since the backend would look at each file of all virtual
    environments."""
    listed = output_of("git", "-C", REPOSITORY, "ls-files", "-z", "--cached", "--others",
                       "--exclude-standard")
    for name in filter(None, listed.split("\0")):
        if (REPOSITORY / name).is_file():  # Some may be deleted, and not yet in git.
            copy = folder / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(REPOSITORY / name, copy)
    readme = folder / "README.md"
    readme.write_text(for_pypi(readme.read_text(encoding="utf-8")), encoding="utf-8")


def stage(build, project, folder):
    """Puts what all wheels have in common into the folder; returns the .dist-info."""
    package = folder / "optrace"
    output_of("cmake", "--install", build, "--prefix", package, "--component", "Unspecified",
              "--strip")
    for module in package.glob("_optrace*.so"):
        module.unlink()
    kinds = list((package / "lib/optrace/prebuilt").glob("*"))
    if kinds:
        output_of(build / "optrace-prebuild", "--pack", *kinds)
    for source in (REPOSITORY / "python/optrace").glob("*"):
        if source.suffix in (".py", ".pyi", ".typed"):
            shutil.copy(source, package)
    shutil.copy(REPOSITORY / "python/optrace_listen.pth", folder)
    info = folder / from_backend(backend.prepare_metadata_for_build_wheel, project, str(folder))
    # Completions and the man page lie in the environment's own share folder.
    data = folder / info.name.replace(".dist-info", ".data") / "data/share"
    data.mkdir(parents=True)
    for child in (package / "share").iterdir():
        if child.name != "optrace":
            child.rename(data / child.name)
    metadata = info / "METADATA"
    lines = ""
    for name, text in licenses(build, package).items():
        path = info / "licenses" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        lines += f"License-File: {name}\n"
    text = metadata.read_text(encoding="utf-8")
    metadata.write_text(text.replace("License-File: NOTICE\n", "License-File: NOTICE\n" + lines, 1),
                        encoding="utf-8")
    return info


def write_wheel(folder, info, tag, output):
    """Packs the folder as the wheel for a tag (`cp311-cp311`); returns its path. The backend's
    WHEEL has the tag of the Python that runs this."""
    described = email.message_from_bytes((info / "WHEEL").read_bytes())
    described.replace_header("Tag", f"{tag}-linux_x86_64")
    (info / "WHEEL").write_bytes(bytes(described))
    wheel = output / f"{info.name.removesuffix('.dist-info')}-{tag}-linux_x86_64.whl"
    with WheelFile(wheel, "w", zipfile.ZIP_STORED) as archive:
        archive.write_files(folder)
    return wheel


def repair(wheel, output):
    """Adds the libraries that other distributions lack. Fails if the wheel needs a newer libc."""
    tools = pathlib.Path(sys.executable).parent
    output_of(tools / "auditwheel", "repair", "--plat", PLATFORM, "--only-plat",
              "--zip-compression-level", "9", "--wheel-dir", output, wheel,
              env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"})


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("pythons", nargs="*")
    options = parser.parse_args()
    build, output = options.build.absolute(), options.output.absolute()
    [module] = (build / "python/optrace").glob("_optrace.cpython-*.so")
    tag = "cp" + re.search(r"cpython-(\d+)-", module.name)[1]
    others = [python for python in options.pythons if describe(python)[0] != tag]
    modules = {tag: module, **build_modules(build, others)}
    output.mkdir(exist_ok=True)
    for old in [*output.glob("optrace-*.whl"), *output.glob("optrace-*.tar.gz")]:
        old.unlink()
    with tempfile.TemporaryDirectory() as scratch:
        folder, project = pathlib.Path(scratch, "wheel"), pathlib.Path(scratch, "project")
        copy_project(project)
        info = stage(build, project, folder)

        def write(tag):
            repair(write_wheel(folder, info, tag, pathlib.Path(scratch)), output)

        write("py3-none")
        for version, file in modules.items():
            copy = folder / "optrace" / file.name
            shutil.copy(file, copy)
            output_of("strip", copy)
            write(f"{version}-{version}")
            copy.unlink()
        from_backend(backend.build_sdist, project, str(output))
        os.chdir(output)  # No longer in a folder that is deleted.
    files = sorted(output.glob("optrace-*"))
    for made in files:
        print(f"{made.relative_to(REPOSITORY) if made.is_relative_to(REPOSITORY) else made}"
              f"  {made.stat().st_size / 1e6:.1f} MB")
    if any(made.suffix == ".whl" and made.stat().st_size > MAX_WHEEL for made in files):
        sys.exit(f"make-wheel.py: a wheel may have {MAX_WHEEL / 1e6:.0f} MB")


main()
