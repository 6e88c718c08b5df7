"""Mermaid itself, as the package mermaidx brings it, in Chromium."""
import importlib.util
import pathlib

from playwright.sync_api import sync_playwright

CHROMIUM = "/usr/bin/chromium"

# Mermaid refuses a text that is no diagram, and more edges than `maxEdges`.
DRAW = """async (text) => {
    const mermaid = globalThis.__esbuild_esm_mermaid_nm.mermaid.default;
    mermaid.initialize({startOnLoad: false});
    const {diagramType} = await mermaid.parse(text);
    const {svg} = await mermaid.render("drawn", text);
    const drawn = document.createElement("div");
    drawn.innerHTML = svg;
    return {type: diagramType,
            labels: [...drawn.querySelectorAll(".node .nodeLabel")].map((one) => one.innerText),
            edges: drawn.querySelectorAll("path.flowchart-link").length};
}"""


def drawn_by_mermaid(text):
    """Returns the diagram's type, the texts of its nodes and the number of its edges."""
    package = importlib.util.find_spec("mermaidx")
    script = pathlib.Path(package.origin).parent / "assets/mermaid.js"
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            page = chromium.new_page()
            page.add_script_tag(path=script)
            return page.evaluate(DRAW, text)
        finally:
            chromium.close()
