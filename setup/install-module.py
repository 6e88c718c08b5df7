"""install-module.py BUILD: installs the Python package of the build folder BUILD into the virtual
environment whose Python runs this, as an editable install: the module and the command stay in the
build folder, so that a later build needs no new install. pip lists it as `optrace` and can
uninstall it. Does nothing if it is up to date, or if an optrace is there that was installed
otherwise.
"""
import base64
import hashlib
import importlib.metadata
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

try:
    import tomllib
except ImportError:  # Before Python 3.11; pip contains the same module.
    from pip._vendor import tomli as tomllib

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
MARK = "made-from"  # In our own .dist-info, so it is uninstalled with it.


def wheel_of(build):
    """The contents of the wheel: {name: text}, except RECORD."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    version = re.search(r"VERSION (\S+) LANGUAGES", (REPOSITORY / "CMakeLists.txt").read_text())[1]
    info = f"{project['name']}-{version}.dist-info"
    groups = {"console_scripts": project["scripts"], **project["entry-points"]}
    files = {
        "optrace_build.pth": f"{build / 'python'}\n",
        "optrace_listen.pth": (REPOSITORY / "python/optrace_listen.pth").read_text(),
        f"{info}/METADATA": (f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {version}\n"
                             f"Summary: {project['description']}\n"
                             f"Requires-Python: {project['requires-python']}\n"),
        f"{info}/WHEEL": ("Wheel-Version: 1.0\nGenerator: optrace\nRoot-Is-Purelib: false\n"
                          "Tag: py3-none-any\n"),
        f"{info}/entry_points.txt": "".join(
            f"[{group}]\n" + "".join(f"{name} = {target}\n" for name, target in entries.items())
            for group, entries in groups.items())}
    key = hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()
    return info, {**files, f"{info}/{MARK}": key}


def installed_mark():
    """The mark of our own install; "" for an install that is not ours, None if there is none."""
    try:
        return importlib.metadata.distribution("optrace").read_text(MARK) or ""
    except importlib.metadata.PackageNotFoundError:
        return None


def install(info, files):
    with tempfile.TemporaryDirectory() as folder:
        wheel = pathlib.Path(folder) / f"{info.removesuffix('.dist-info')}-py3-none-any.whl"
        record = ""
        with zipfile.ZipFile(wheel, "w") as archive:
            for name, text in files.items():
                archive.writestr(name, text)
                digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest())
                record += f"{name},sha256={digest.rstrip(b'=').decode()},{len(text.encode())}\n"
            archive.writestr(f"{info}/RECORD", record + f"{info}/RECORD,,\n")
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-index",
                        "--no-deps", "--disable-pip-version-check", "--force-reinstall",
                        "--root-user-action", "ignore", str(wheel)], check=True)


def main():
    build = pathlib.Path(sys.argv[1]).absolute()
    info, files = wheel_of(build)
    mark = installed_mark()
    if mark == "" or mark == files[f"{info}/{MARK}"]:
        return
    if not list(build.glob("python/optrace/_optrace*.so")):
        sys.exit(f"{build} has no Python module; configure it with -DOPTRACE_PYTHON_MODULE=ON")
    install(info, files)


main()
