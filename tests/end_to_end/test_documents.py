"""Each path in a document or a comment exists."""
import re
import subprocess

FOLDERS = "bench|cmake|docs|examples|fixtures|indexer|platform|python|report|setup|src|tests|tracer"
# A path below one of the project's folders: a file with its suffix, or a folder with a final slash.
PATH = re.compile(rf"(?<![\w./-])((?:{FOLDERS})/(?:[\w.-]+/)*(?:[\w-]+(?:\.[\w-]+)+|(?<=/)))"
                  r"(?![\w/*<{-])")
COMMENT = {".cpp": r"//.*", ".h": r"//.*", ".py": r"#.*|\"\"\"(?:.|\n)*?\"\"\"", ".sh": r"#.*",
           ".txt": r"#.*", ".cmake": r"#.*", ".md": r"(?:.|\n)+"}


def tracked_files(repository):
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=repository, capture_output=True,
                            text=True, check=True)
    return [repository / name for name in listed.stdout.split("\0") if name]


def named_paths(path):
    text = path.read_text()
    for comment in re.findall(COMMENT[path.suffix], text):
        for found in PATH.findall(comment):
            yield found.rstrip(".")


def test_paths_exist(repository):
    checked, missing = 0, []
    for path in tracked_files(repository):
        if path.suffix not in COMMENT or path.is_relative_to(repository / "fixtures"):
            continue
        for name in named_paths(path):
            checked += 1
            places = (repository, path.parent, path.parent.parent)
            if not any((place / name).exists() for place in places):
                missing.append(f"{path.relative_to(repository)}: {name}")
    assert not missing
    assert checked > 100
