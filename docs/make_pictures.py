#!/usr/bin/env python3
"""Renews the picture in the README and the output that the README and the pages of docs/ show.

    .venv/bin/python docs/make_pictures.py [COMMAND]

COMMAND is build/optrace by default. The Python to trace is chosen as for any other call of it.

docs/conv2d.svg is made from the output of `optrace conv2d`, docs/layers.svg is that of `optrace
layers --format svg`. In the pages of SHOWN, a code block
that begins with `$ build/optrace` contains the output of that command. If the block has a line
`...`, it contains only the header and the frames of the tree.
"""
import html
import io
import itertools
import os
import pathlib
import pty
import re
import shlex
import subprocess
import sys
import tempfile

from rich.console import Console
from rich.terminal_theme import SVG_EXPORT_THEME
from rich.text import Text

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
PICTURE = REPOSITORY / "docs/conv2d.svg"
LAYERS = REPOSITORY / "docs/layers.svg"
COLUMNS = 120
CHARACTER_WIDTH = 12.2  # In rich's pictures.

# The pages that show output, and the width of the terminal that it is from.
SHOWN = {"README.md": 110, "docs/reading-the-tree.md": 120, "docs/locate-format.md": 140,
         "docs/explain-format.md": 140}
BLOCK = re.compile(r"```text\n\$ build/optrace (.+)\n((?:(?!```).*\n)*)```\n")

# With these variables, oneDNN and ATen choose the same code on every processor that has AVX2.
SAME_EVERYWHERE = {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2",
                   "OMP_NUM_THREADS": "2"}

# rich's template without its web font, its shadow and the buttons of a window.
TEMPLATE = """<svg class="rich-terminal" viewBox="0 0 {width} {height}"
  xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{
  font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px;
  line-height: {line_height}px;
}}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
  <rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})"
  clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def terminal_output(arguments, columns=COLUMNS, environment=None):
    """Returns the output, with its escape sequences, of a command on a terminal of that width."""
    variables = {**os.environ, **SAME_EVERYWHERE, "COLUMNS": str(columns),
                 "TERM": "xterm-256color", **(environment or {})}
    variables.pop("NO_COLOR", None)
    ours, terminal = pty.openpty()
    with tempfile.TemporaryFile() as errors, os.fdopen(ours, "rb", buffering=0) as reader:
        with subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=terminal, stderr=errors,
                              env=variables) as process:
            os.close(terminal)
            output = b"".join(iter(lambda: _read(reader), b""))
        errors.seek(0)
        if process.returncode != 0:
            raise RuntimeError(f"{arguments}: {errors.read().decode(errors='replace')}")
    return output.decode().replace("\r\n", "\n")


def conv2d_svg(command, environment=None):
    """Returns the picture of `optrace conv2d`. Lines that lead to no library call are left out."""
    output = terminal_output([*command, "conv2d"], environment=environment)
    lines = _excerpt(Text.from_ansi(output).split("\n"))
    text = Text("\n").join([Text("$ optrace conv2d", style="bold"), *lines])
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), color_system="256",
                      force_terminal=True, legacy_windows=False)
    console.print(text, no_wrap=True, overflow="ellipsis", highlight=False)
    return console.export_svg(title="", theme=SVG_EXPORT_THEME, code_format=TEMPLATE,
                              unique_id="conv2d")


def layers_svg(command, environment=None):
    """Returns the map of the layers."""
    return subprocess.run([*command, "layers", "--format", "svg"], check=True, text=True,
                          stdout=subprocess.PIPE, env={**os.environ, **(environment or {})}).stdout


def page_with_fresh_output(page, command, environment=None):
    """Returns the text of one of the SHOWN pages with the output that the command prints now."""

    def fresh(block):
        arguments = [*command, *shlex.split(block[1])]
        output = terminal_output(arguments, SHOWN[page], environment)
        text = "\n".join(line.plain.rstrip() for line in Text.from_ansi(output).split("\n"))
        if "\n...\n" in "\n" + block[2]:
            paragraphs = text.split("\n\n")
            frames = next(part for part in paragraphs if re.match(r"(python|binding) ", part))
            text = f"{paragraphs[0]}\n...\n{frames}"
        return f"```text\n$ build/optrace {block[1]}\n{text.strip()}\n```\n"

    return BLOCK.sub(fresh, (REPOSITORY / page).read_text())


def svg_lines(svg):
    """Returns the lines of text in a picture, without colours."""
    lines = {}
    for x, y, text in re.findall(r"""<text[^>]* x="(.*?)" y="(.*?)"[^>]*>([^<]*)</text>""", svg):
        column = round(float(x) / CHARACTER_WIDTH)
        text = html.unescape(text).replace("\N{NO-BREAK SPACE}", " ")
        lines[float(y)] = lines.get(float(y), "").ljust(column) + text
    return [lines[y].rstrip() for y in sorted(lines)]


def _read(reader):
    try:
        return reader.read(65536)
    except OSError:  # The other end of the terminal is closed.
        return b""


def _excerpt(lines):
    """Leaves out the suggestions, and two or more calls in a row that lead to no library call."""
    lines = list(itertools.takewhile(lambda line: not line.plain.startswith("try "), lines))
    start = 0
    while start < len(lines):
        end = _end_of_calls_without_library(lines, start)
        if end - start > 2:
            branch = lines[start].plain[12:_branch(lines[start])]
            lines[start:end] = [Text(f"{'':12}{branch}…  {end - start} more", style="dim")]
        start += 1
    return lines


def _end_of_calls_without_library(lines, start):
    """Returns the end of the calls from line start on that lead to no library call.

    A call begins with a branch, and ends before the next branch in the same column or further left.
    """
    column = _branch(lines[start])
    end = start
    while column is not None and end < len(lines) and _branch(lines[end]) == column:
        next_end = end + 1
        while next_end < len(lines) and _is_below(lines[next_end], column):
            next_end += 1
        if any(line.plain.startswith(("library", " ")) for line in lines[end:next_end]):
            break
        end = next_end
    return end


def _branch(line):
    """Returns the column in which a branch begins in the line, or None."""
    found = re.match(r"[a-z ]{12}[ │]*(?=[├└]─)", line.plain)
    return found.end() if found else None


def _is_below(line, column):
    """Returns true if the line belongs to the call whose branch is in this column."""
    return len(line.plain) > column and line.plain[12:column + 1].strip(" │") == ""


def main():
    command = sys.argv[1:] or [str(REPOSITORY / "build/optrace")]
    PICTURE.write_text(conv2d_svg(command))
    LAYERS.write_text(layers_svg(command))
    for page in SHOWN:
        text = page_with_fresh_output(page, command)
        (REPOSITORY / page).write_text(text)


if __name__ == "__main__":
    main()
