"""Writes the man page: python make_man_page.py OPTRACE optrace.1

The commands and options are those of the command OPTRACE, which describes itself. Exit statuses,
environment variables and files are the tables of command-line.md.
"""
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import textwrap
import time

FOLDER = pathlib.Path(__file__).resolve().parent

# Section of the man page -> heading in command-line.md.
TABLES = {"ENVIRONMENT": "Environment variables", "FILES": "Files", "EXIT STATUS": "Exit statuses"}

# What `optrace run`, `optrace tensors` and `optrace explain --compiled` take besides their options.
# The description has no text about it.
PROGRAM = "Ar SCRIPT | Fl m Ar MODULE | Fl c Ar CODE Op Ar ARGUMENT ..."

COLUMNS = 72


def text(line):
    """A line of text as roff."""
    line = line.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + line if line[:1] in (".", "'") else line


def prose(words):
    """Sentences as lines of roff. Each sentence starts a line, as roff needs it."""
    sentences = re.split(r"(?<=[\w)'`][.!?]) (?=[A-Z0-9])", words.rstrip(".") + ".")
    return [text(line) for sentence in sentences for line in
            textwrap.wrap(sentence, COLUMNS, break_long_words=False, break_on_hyphens=False)]


def argument(word):
    """A word as the argument of a macro. It may be the name of one."""
    word = word.replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq")
    return '"' + word.replace(" ", "\\ ") + '"' if " " in word else "\\&" + word


def literal(block):
    return [".Bd -literal", *map(text, block.split("\n")), ".Ed"]


def flag(name):
    # Fl writes the first dash.
    return f"Fl {argument(name[1:])}"


def item(option):
    """The line that introduces an option."""
    if option["positional"]:
        return f".It Ar {argument(option['names'][0])}"
    value = f" Ar {argument(option['type'])}" if option["type"] else ""
    return ".It " + " , ".join(flag(name) + value for name in option["names"])


def option_lines(option):
    lines = [item(option), *prose(option["help"])]
    if option["default"]:
        lines.append(text(f"Default: {option['default']}."))
    if option["variable"]:
        lines += [".br", text(f"Also set by the variable {option['variable']}.")]
    return lines


def synopsis(path, command):
    line = [".Nm", "optrace"] if not path else [".Nm", "optrace", "Cm", *map(argument, path)]
    if command["commands"] and path:
        return [" ".join([*line, "Ar", "command"])]
    words = []
    for option in command["options"]:
        if option["positional"]:
            name = f"Ar {argument(option['names'][0])}" + (" ..." if option["repeated"] else "")
            words.append(name if option["required"] else f"Oo {name} Oc")
    if path in (("run",), ("tensors",)):
        words.append(PROGRAM)
    options = ["Oo", "Ar", "options", "Oc"]
    lines = [" ".join([*line, *options, *words])]
    if path == ("explain",):
        lines.append(" ".join([*line, "Fl", argument("-compiled"), *options, PROGRAM]))
    return lines


def every_command(command, path=()):
    yield path, command
    for one in command["commands"]:
        yield from every_command(one, (*path, one["name"]))


def command_lines(path, command):
    lines = [f".Ss optrace {text(' '.join(path))}".rstrip() if path else ".Ss optrace OP",
             *prose(command["help"])]
    if command["options"]:
        lines.append(".Bl -tag -width Ds")
        for option in command["options"]:
            lines += option_lines(option)
        lines.append(".El")
    if command["footer"]:
        lines += literal(command["footer"])
    return lines


def table(heading):
    """The rows of the table below a heading of command-line.md, as pairs of plain text."""
    page = (FOLDER / "command-line.md").read_text()
    section = page.split(f"\n## {heading}\n", 1)[1].split("\n## ")[0]
    rows = re.findall(r"^\| (.*?) \| (.*) \|$", section, re.MULTILINE)
    # A link to a page is shown as the page's name in the folder of the documentation.
    plain = [[re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", re.sub(r"\[(\w+\.md)\]", r"[docs/\1]", cell))
              .replace("`", "") for cell in row] for row in rows]
    return [row for row in plain if not set(row[0]) <= {"-", " "}][1:]


def make(description, version, date):
    lines = [f".Dd {date}", ".Dt OPTRACE 1", ".Os", ".Sh NAME", ".Nm optrace",
             ".Nd " + text(description["help"].rstrip(".")[:1].lower()
                           + description["help"].rstrip(".")[1:]),
             ".Sh SYNOPSIS"]
    commands = list(every_command(description))
    for path, command in commands:
        if not path or not command["commands"]:
            lines += synopsis(path, command)
    lines += [".Sh DESCRIPTION",
              *prose("optrace traces a PyTorch op or program and shows every call below it, down "
                     "to the last library call or device kernel, each with its source file and "
                     f"line. This page describes version {version}"),
              ".Sh COMMANDS"]
    for path, command in commands:
        lines += command_lines(path, command)
    for section, heading in TABLES.items():
        lines += [f".Sh {section}", ".Bl -tag -width Ds"]
        for name, meaning in table(heading):
            lines += [f".It {argument(name)}", *prose(meaning[:1].upper() + meaning[1:])]
        lines.append(".El")
    return "\n".join(lines) + "\n"


def main():
    program, file = sys.argv[1:]

    def ask(word):
        return subprocess.run([program, word], check=True, capture_output=True, text=True).stdout

    version = ask("--version").split()[1]
    # As https://reproducible-builds.org/specs/source-date-epoch has it.
    seconds = float(os.environ.get("SOURCE_DATE_EPOCH", time.time()))
    date = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).strftime("%B %-d, %Y")
    pathlib.Path(file).write_text(make(json.loads(ask("__describe")), version, date))


if __name__ == "__main__":
    main()
