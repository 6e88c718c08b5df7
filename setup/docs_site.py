"""The hook of mkdocs.yml: pages in docs/ link to files of the repository, as on GitHub.

Each file that `extra.repository_files` names is in the site below repository/, and links to it lead
there. Links from such a file to a page in docs/ lead to that page.
"""
import pathlib
import posixpath
import re

from mkdocs.structure.files import File

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
DOCS, OUTSIDE = "docs/", "repository/"
# The target of a Markdown link or image, without its anchor.
LINK = re.compile(r"(?<=\]\()[^)\s#]+")


def path_in_site(path):
    """The site's path of a file, both relative: to docs/ and to the repository."""
    if path == "README.md":
        return path  # That of docs/, the first page of the site.
    return path.removeprefix(DOCS) if path.startswith(DOCS) else OUTSIDE + path


def path_in_repository(page):
    """The inverse of path_in_site()."""
    return page.removeprefix(OUTSIDE) if page.startswith(OUTSIDE) else DOCS + page


def rewritten(target, page):
    """The link `target` of a page, as the site needs it. Returns other text unchanged."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(path_in_repository(page)), target))
    if (REPOSITORY / path / "README.md").is_file():
        path += "/README.md"
    if path.startswith("..") or not (REPOSITORY / path).is_file():
        return target
    return posixpath.relpath(path_in_site(path), posixpath.dirname(page))


def on_files(files, config):
    for pattern in config.extra["repository_files"]:
        for file in sorted(REPOSITORY.glob(pattern)):
            path = path_in_site(file.relative_to(REPOSITORY).as_posix())
            files.append(File.generated(config, path, abs_src_path=str(file)))
    return files


def on_page_markdown(markdown, page, config, files):
    del config, files  # MkDocs passes these by name.
    return LINK.sub(lambda link: rewritten(link[0], page.file.src_uri), markdown)
