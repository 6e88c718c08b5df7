"""html_page.py OPTRACE: measures how long the interactive page of 500,000 paths takes to open.

The page is made of the script that OPTRACE writes and of made-up frames. Time is counted until its
tree is on the screen of Chromium; then the script is read, the data unpacked and its tables made.
The peer is Python's json.load of the page's data from a file, unpacked: no page can show a report
before it has read it. Beside that: how long a frame of a scrolling tree takes, of which a smooth
one has 16.7 ms, and searching and filtering all paths.
"""
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from playwright.sync_api import sync_playwright

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests/end_to_end"))
from html_pages import large_payload, with_payload
from page_data import page_data

PATHS = 500_000
ROUNDS = 5
READ = "import json, sys; json.load(open(sys.argv[1]))"

# Scrolls for two seconds, a third of a screen in each frame.
SCROLL = """async () => {
  const tree = document.querySelector('.tree');
  const times = [];
  let last = await new Promise(requestAnimationFrame);
  for (let frame = 0; frame < 120; ++frame) {
    tree.scrollTop += 250;
    const now = await new Promise(requestAnimationFrame);
    times.push(now - last);
    last = now;
  }
  return times;
}"""


def seconds(work):
    times = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def made_page(optrace, folder):
    """Returns a page with PATHS frames, and its data in a file."""
    page, data = folder / "large.html", folder / "large.json"
    subprocess.run([*optrace, "--format", "html", "-o", page], check=True)
    text = page.read_text()
    payload = large_payload(page_data(text)["layers"], PATHS)
    page.write_text(with_payload(text, payload))
    data.write_text(json.dumps(payload))
    return page, data


def main():
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        page_file, data = made_page([sys.argv[1], "conv2d"], pathlib.Path(name))
        peer = seconds(lambda: subprocess.run([sys.executable, "-c", READ, data], check=True))
        chromium = playwright.chromium.launch(executable_path="/usr/bin/chromium",
                                              args=["--no-sandbox"])
        page = chromium.new_page(viewport={"width": 1400, "height": 800})

        def load():
            page.goto(page_file.as_uri() + "#tree")
            page.wait_for_selector("body[data-ready] [role=treeitem]")

        def opened():
            page.goto("about:blank")
            load()

        opening = seconds(opened)
        print(f"json.load of {data.stat().st_size / 1e6:.0f} MB, {PATHS} paths: {peer:.2f} s")
        print(f"the page, {page_file.stat().st_size / 1e6:.1f} MB, until its tree is shown: "
              f"{opening:.2f} s ({opening / peer:.2f} of it)")
        page.keyboard.press("Home")  # The first root, below which everything is unfolded.
        page.keyboard.press("e")
        frames = page.evaluate(SCROLL)
        print(f"a frame of scrolling: median {statistics.median(frames):.1f} ms, "
              f"95 % within {statistics.quantiles(frames, n=20)[-1]:.1f} ms")
        begin = time.perf_counter()
        page.fill("input[type=search]", "function_777")
        page.wait_for_selector(".search .count:not(:empty)")
        print(f"searching: {time.perf_counter() - begin:.2f} s, of which the page waits 0.15 s for "
              f"the next key: {page.inner_text('.search .count')}")
        begin = time.perf_counter()
        page.click(".layers button")
        page.wait_for_selector(".search .count:text('filtered out')")
        print(f"filtering: {time.perf_counter() - begin:.2f} s")
        chromium.close()


if __name__ == "__main__":
    main()
