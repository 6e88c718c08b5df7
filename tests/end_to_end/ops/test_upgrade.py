"""docs/ci.md, "When a PyTorch upgrade changes the kernel": its commands and their output."""
import json
import pathlib
import re

import pytest

MODEL = pathlib.Path(__file__).with_name("upgraded_model.py")
RECIPE = "## When a PyTorch upgrade changes the kernel"
DIFFERS = 1


@pytest.fixture(scope="module")
def reports(optrace, python, newest_python, tmp_path_factory):
    """The model's reports, with the reference torch and with the newest."""
    folder = tmp_path_factory.mktemp("upgrade")
    made = []
    for name, interpreter in (("old", python), ("new", newest_python)):
        made.append(folder / f"{name}.json")
        result = optrace("run", "--python", interpreter, "--format", "json",
                         "-o", made[-1], MODEL, timeout=600)
        assert result.returncode == 0, result.stderr
    return made


@pytest.fixture(scope="module")
def recipe(repository):
    """The text of the page's section."""
    page = (repository / "docs/ci.md").read_text()
    return page[page.index(RECIPE) + len(RECIPE):].partition("\n## ")[0]


def test_the_page_shows_what_is_printed(optrace, reports, recipe):
    result = optrace("compare", *reports)
    assert result.returncode == DIFFERS, result.stderr
    # The numbers of steps below a difference are not compared.
    def uncounted(text):
        return [re.sub(r", and \d+ below", "", line).strip() for line in text.splitlines()]

    printed = uncounted(result.stdout)
    shown = [line for line in uncounted(recipe)
             if re.match(r"(vanished|appeared|changed|count) ", line)]
    assert len(shown) >= 2
    for line in shown:
        assert line in printed, (line, result.stdout)
    # Short enough to be read completely.
    assert len(printed) < 80, result.stdout


def test_wrappers_and_lines_are_no_differences(optrace, reports):
    result = optrace("compare", *reports, "--format", "json")
    comparison = json.loads(result.stdout)
    assert not comparison["same_build"]
    names = [found["path"][-1] for found in comparison["differences"]]
    assert not [name for name in names if "wrapper_" in name or name.startswith("torch.")]
    assert comparison["passed_over"]["first"] > 0
    everything = json.loads(optrace("compare", *reports, "--all", "--format", "json").stdout)
    assert len(everything["differences"]) > len(names)
    assert everything["passed_over"] == {"first": 0, "second": 0}
