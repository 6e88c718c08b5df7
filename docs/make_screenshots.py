#!/usr/bin/env python3
"""Renews the pictures of the interactive page in docs/html-page.md.

    .venv/bin/python docs/make_screenshots.py [COMMAND]

COMMAND is build/optrace by default; the Python that runs this is traced. Chromium of Debian takes
the pictures. Times in them are those of this machine.
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile

from playwright.sync_api import sync_playwright

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = REPOSITORY / "bench/programs/gpt_training.py"
WINDOW = {"width": 1240, "height": 680}

# Picture -> the page, the fragment of its address, the colour scheme, and keys to press.
PICTURES = {
    "html-conv2d": ("conv2d", "#tree?find=op%3Aaten%3A%3Aconvolution", "light", []),
    "html-gpt": ("gpt", "#summary", "light", []),
    "html-gpt-flame": ("gpt", "#flame", "dark", []),
    "html-comparison": ("comparison", "#tree?find=function%3Aat%3A%3Anative%3A%3Athnn_conv2d",
                        "light", []),
}


def make_pages(command, folder):
    """Writes the pages into the folder, by name."""
    shutil.copy(PROGRAM, folder)
    python = ["--python", sys.executable]
    conv2d = [*command, "conv2d", *python]

    def run(*arguments, status=0):
        done = subprocess.run(arguments, cwd=folder, check=False, stdout=subprocess.DEVNULL)
        if done.returncode != status:
            raise RuntimeError(f"{arguments} ended with {done.returncode}")

    run(*conv2d, "--backward", "--format", "html", "-o", "conv2d.html")
    run(*command, "run", *python, "--format", "html", "-o", "gpt.html", PROGRAM.name)
    run(*conv2d, "--trace", "float32.trace", "-o", "/dev/null")
    run(*conv2d, "--dtype", "float64", "--trace", "float64.trace", "-o", "/dev/null")
    run(*command, "compare", "float32.trace", "float64.trace", "--format", "html", "-o",
        "comparison.html", status=1)


def take(browser, file, fragment, colours, keys, picture):
    page = browser.new_page(viewport=WINDOW, color_scheme=colours)
    page.goto(file.as_uri() + fragment)
    page.wait_for_selector("body[data-ready]")
    for key in keys:
        page.keyboard.press(key)
    page.wait_for_timeout(300)
    page.screenshot(path=picture)
    page.close()


def main():
    command = sys.argv[1:] or [str(REPOSITORY / "build/optrace")]
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = pathlib.Path(name) / "gpt"
        folder.mkdir()
        make_pages([str(pathlib.Path(command[0]).absolute()), *command[1:]], folder)
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium",
                                             args=["--no-sandbox"])
        for picture, (page, fragment, colours, keys) in PICTURES.items():
            take(browser, folder / f"{page}.html", fragment, colours, keys,
                 REPOSITORY / f"docs/{picture}.png")
        browser.close()


if __name__ == "__main__":
    main()
