"""Interactive pages with other data than that of a report (docs/html-page.md)."""
import base64
import gzip
import json
import random
import re

PAYLOAD = re.compile(r'(<script type="application/octet-stream" id="payload">)([^<]*)(</script>)')

COLUMNS = ("up layer label note why name symbol library op file line url call_line excerpt "
           "call_excerpt own_code thread ranks calls time own_time shortest longest detail").split()


def with_payload(page, payload):
    """Returns the page with other data: its script, style and policy stay as they are."""
    data = gzip.compress(json.dumps(payload).encode(), 1)
    encoded = base64.b64encode(data).decode()
    return PAYLOAD.sub(lambda match: match[1] + encoded + match[3], page, count=1)


def rows_with(payload, test):
    """Returns the rows in which a searched text passes the test."""
    texts = {number for number, text in enumerate(payload["strings"]) if number and test(text)}
    columns = [payload["frames"][name] for name in
               ("label", "note", "why", "name", "op", "file", "library")]
    return [row for row in range(len(payload["frames"]["label"]))
            if any(column and column[row] in texts for column in columns)]


def large_payload(layers, frames, seed=1):
    """Returns the data of a report with so many frames below one root, up to 40 deep."""
    chance = random.Random(seed)
    names = [f"at::native::function_{number}" for number in range(20_000)]
    files = [f"aten/src/ATen/native/File{number}.cpp" for number in range(800)]
    columns = {name: [] for name in COLUMNS}
    path = []
    for row in range(frames):
        if path and chance.random() > 0.6:
            del path[1 + chance.randrange(len(path)):]
        del path[39:]
        name = 1 + chance.randrange(len(names))
        time = 10 ** 9 // (len(path) + 1)
        for column, value in (
                ("up", row - path[-1] if path else 0), ("layer", row % len(layers)),
                ("label", name), ("name", name), ("symbol", name),
                ("file", 1 + len(names) + row % len(files)), ("line", 1 + row % 3000),
                ("call_line", 1 + row % 500), ("calls", 1 + row % 7), ("time", time),
                ("own_time", time // 2)):
            columns[column].append(value)
        path.append(row)
    return {"schema": "optrace.page/1", "mode": "report", "header": [["", "a large program"]],
            "layers": layers, "threads": [1], "thread_names": ["main"],
            "processes": [], "findings": [], "op_facts": {}, "excerpts": [], "frames": columns,
            "summary": {"lines": [], "ops": [], "libraries": [], "kernels": [], "copies": []},
            "strings": ["", *names, *files], "details": [None]}
