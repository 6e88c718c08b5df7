"""The picture and the output that README and docs show are what the command prints now."""
import importlib.util
import pathlib
import re

import pytest

SCRIPT = pathlib.Path(__file__).resolve().parents[3] / "docs/make_pictures.py"
RENEW = "run `.venv/bin/python docs/make_pictures.py`"


def script():
    specification = importlib.util.spec_from_file_location("make_pictures", SCRIPT)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


PICTURES = script()


@pytest.fixture(name="environment")
def environment_without_own_indexes(python, tmp_path):
    return {"OPTRACE_PYTHON": python, "OPTRACE_INDEX_DIR": str(tmp_path)}


def without_python_version(text):
    return re.sub(r"Python 3[\d.]+", "Python 3", text)


def test_picture_shows_what_conv2d_prints(optrace, environment):
    kept = PICTURES.PICTURE.read_text()
    fresh = PICTURES.conv2d_svg(optrace.command, environment)
    lines = PICTURES.svg_lines(kept)
    assert any("at::native::conv2d_symint" in line for line in lines)
    assert [without_python_version(line) for line in lines] == \
        [without_python_version(line) for line in PICTURES.svg_lines(fresh)], RENEW


def test_map_shows_the_layers_of_the_shipped_index(optrace, environment):
    assert PICTURES.LAYERS.read_text() == PICTURES.layers_svg(optrace.command, environment), RENEW


@pytest.mark.parametrize("picture", [PICTURES.PICTURE, PICTURES.LAYERS], ids=lambda one: one.stem)
def test_picture_requests_nothing_from_servers(picture):
    kept = picture.read_text().replace('xmlns="http://www.w3.org/2000/svg"', "")
    kept = re.sub(r'<a href="https://github\.com/[^"]*">', "", kept)  # Links are not followed.
    assert not re.findall(r"https?:|@import|@font-face|url\((?!#)", kept)


@pytest.mark.parametrize("page", PICTURES.SHOWN)
def test_page_shows_what_commands_print(page, optrace, environment, repository):
    kept = (repository / page).read_text()
    assert PICTURES.BLOCK.search(kept)
    fresh = PICTURES.page_with_fresh_output(page, optrace.command, environment)
    assert without_python_version(kept).splitlines() == \
        without_python_version(fresh).splitlines(), RENEW


def test_every_shown_output_is_checked(repository):
    for path in [repository / "README.md", *sorted((repository / "docs").glob("*.md"))]:
        if path.relative_to(repository).as_posix() not in PICTURES.SHOWN:
            assert "$ build/optrace" not in path.read_text(), path
