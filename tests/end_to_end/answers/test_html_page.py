"""`--format html`: the interactive page, in Chromium."""
import json
import re

import pytest
from playwright.sync_api import expect, sync_playwright

from hostile_files import OP, PYTHON, path, python_function, trace as trace_file
from html_pages import large_payload, rows_with, with_payload
from page_data import page_data
from report_frames import frames

CHROMIUM = "/usr/bin/chromium"
WINDOW = {"width": 1400, "height": 800}

PROGRAM = """
import torch
from torch import nn

def step(model, optimizer, x):
    loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()

model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    step(model, optimizer, torch.ones(8, 16))
"""

HOSTILE = ['</script><script>alert("a")</script>', '"><img src=x onerror=alert("b")>',
           "<!--<script>", "javascript:alert(1)", "$&{{constructor}}%s", "\u202egnp.exe\u2028x",
           "a" * 5000]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("html_page")


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def open_page(browser):
    """open_page(file, fragment) -> the page, loaded. At the end, nothing may have gone wrong in it:
    no error, no dialog, no violation of its policy, no request for anything else."""
    wrong = []
    contexts = []

    def opened(file, fragment="", **options):
        contexts.append(browser.new_context(viewport=WINDOW, **options))
        page = contexts[-1].new_page()
        page.on("console", lambda message: wrong.append(message.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda request: wrong.append(request.url)
                if request.url.split("#")[0] != file.as_uri() else None)

        def refuse(dialog):
            wrong.append(dialog.message)
            dialog.dismiss()

        page.on("dialog", refuse)
        page.goto(file.as_uri() + fragment)
        expect(page.locator("body[data-ready]")).to_be_visible()
        return page

    yield opened
    for context in contexts:
        context.close()
    assert wrong == []


@pytest.fixture(scope="module")
def conv2d_trace(op_trace):
    return op_trace("conv2d", "--backward")


@pytest.fixture(scope="module")
def conv2d(optrace, conv2d_trace, folder):
    file = folder / "conv2d.html"
    result = optrace("report", conv2d_trace, "--format", "html", "-o", file)
    assert (result.returncode, result.stdout) == (0, ""), result.stderr
    return file


@pytest.fixture(scope="module")
def program(optrace, python, folder):
    script = folder / "train.py"
    script.write_text(PROGRAM)
    file = folder / "program.html"
    result = optrace("run", "--python", python, "--format", "html", "-o", file, script)
    assert result.returncode == 0, result.stderr
    return file


@pytest.fixture(scope="module")
def comparison(optrace, op_trace, folder, conv2d_trace):
    file = folder / "comparison.html"
    other = op_trace("conv2d", "--dtype", "float64")
    result = optrace("compare", conv2d_trace, other, "--format", "html", "-o", file)
    assert result.returncode == 1, result.stderr
    return file


def item(page, row):
    return page.locator(f"#row-{row}")


def selected(page):
    """Returns the row of the selected frame."""
    return int(page.locator("body").get_attribute("data-frame"))


def press(page, *keys):
    for key in keys:
        page.keyboard.press(key)


def search(page, query, count):
    page.locator("input[type=search]").fill(query)
    expect(page.locator(".search .count")).to_contain_text(count)


def test_the_tree_has_the_frames_of_the_json(open_page, optrace, conv2d_trace, conv2d):
    report = json.loads(optrace("report", conv2d_trace, "--format", "json").stdout)
    wanted = list(frames(report))
    places = {}  # Level, number among the siblings, number of siblings.
    for frame in [{"children": report["roots"]}, *wanted]:
        level = places.get(id(frame), (0,))[0] + 1
        for number, child in enumerate(frame["children"]):
            places[id(child)] = (level, number + 1, len(frame["children"]))
    page = open_page(conv2d)
    assert page.title().startswith("nn.Conv2d")
    press(page, "End")
    expect(item(page, len(wanted) - 1)).to_be_in_viewport()
    press(page, "Home")
    expect(item(page, 0)).to_be_in_viewport()
    for row, frame in enumerate(wanted[:30]):
        line = item(page, row)
        assert line.locator(".tag").inner_text() == frame["layer"]
        shown = [int(line.get_attribute("aria-" + name))
                 for name in ("level", "posinset", "setsize")]
        assert tuple(shown) == places[id(frame)]


def tree_for_screen_readers(page):
    """Returns the tree's node in Chromium's accessibility tree, and the lines, with their names."""
    session = page.context.new_cdp_session(page)
    session.send("Accessibility.enable")
    nodes = [node for node in session.send("Accessibility.getFullAXTree")["nodes"]
             if not node["ignored"]]
    tree, = [node for node in nodes if node["role"]["value"] == "tree"]
    lines = [(node["name"]["value"], {one["name"]: one["value"].get("value")
                                      for one in node["properties"]})
             for node in nodes if node["role"]["value"] == "treeitem"]
    return tree["name"]["value"], lines


def test_a_screen_reader_has_the_tree(open_page, conv2d):
    payload = page_data(conv2d.read_text())
    layers = [payload["layers"][layer] for layer in payload["frames"]["layer"]]
    labels = [payload["strings"][label] for label in payload["frames"]["label"]]
    page = open_page(conv2d)
    name, lines = tree_for_screen_readers(page)
    assert name == "Frames" and len(lines) > 20
    for row, (text, state) in enumerate(lines):
        assert text.startswith(f"{layers[row]} {labels[row]}"), text
        assert re.search(r" time [\d.]+ .s own time [\d.]+ .s", text), text
        assert state["level"] >= 1
        is_leaf = row + 1 < len(lines) and lines[row + 1][1]["level"] <= state["level"]
        if row + 1 < len(lines):
            assert state.get("expanded") == (None if is_leaf else True), text
    press(page, "ArrowDown", "ArrowLeft", "ArrowLeft")
    expect(item(page, 0)).to_have_attribute("aria-expanded", "false")
    _, lines = tree_for_screen_readers(page)
    assert lines[0][1]["expanded"] is False and lines[0][1]["selected"] is True
    assert lines[1][1]["level"] == 1


def test_the_keyboard_moves_and_folds(open_page, conv2d):
    page = open_page(conv2d)
    tree = page.get_by_role("tree")
    expect(tree).to_be_focused()
    press(page, "ArrowDown", "ArrowDown")
    assert selected(page) == 1
    expect(tree).to_have_attribute("aria-activedescendant", "row-1")
    press(page, "ArrowLeft")
    expect(item(page, 1)).to_have_attribute("aria-expanded", "false")
    expect(item(page, 2)).to_have_count(0)
    press(page, "ArrowLeft")
    assert selected(page) == 0
    press(page, "c")
    expect(page.get_by_role("treeitem", expanded=False)).not_to_have_count(0)
    press(page, "e", "ArrowDown", "ArrowRight")
    assert selected(page) == 2
    press(page, "End", "Enter")
    expect(page.locator(".panel")).to_be_focused()
    press(page, "Escape", "?")
    expect(page.get_by_role("dialog")).to_be_visible()
    press(page, "Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    page.locator("#row-%d .caret" % selected(page)).click()
    item(page, selected(page)).dblclick()


def test_search_finds_what_is_in_the_data(open_page, conv2d):
    payload = page_data(conv2d.read_text())
    found = rows_with(payload, lambda text: "convolution" in text.lower())
    page = open_page(conv2d)
    press(page, "/")
    search(page, "Convolution", f"1 of {len(found)} found")
    assert selected(page) == found[0]
    expect(item(page, found[0]).locator("mark, .place")).not_to_have_count(0)
    press(page, "Enter", "Enter")
    assert selected(page) == found[2]
    press(page, "Escape", "/")
    search(page, "Convolution", "of")
    page.get_by_role("tree").focus()
    press(page, "Home", "n")
    assert selected(page) == next(row for row in found if row > 0)
    press(page, "N")
    assert selected(page) == found[-1]
    page.get_by_role("button", name="Regular expression").click()
    search(page, r"^aten::(t|add)mm$|jit:\w+", f"of {len(rows_with(payload, MATCHING))} found")
    search(page, "(", "not a valid pattern")
    search(page, "no such frame at all", "nothing found")


def MATCHING(text):
    return re.search(r"^aten::(t|add)mm$|jit:\w+", text, re.IGNORECASE)


def test_filters_leave_frames_out(open_page, program):
    payload = page_data(program.read_text())
    page = open_page(program, "#tree")
    rows = page.get_by_role("treeitem")
    layers = page.get_by_role("group", name="Layers")
    for name in payload["layers"]:
        button = layers.get_by_role("button", name=name, exact=True)
        if name != "library" and button.count():
            button.click()
    press(page, "Escape")
    expect(rows.locator(".tag").filter(has_not_text="library")).to_have_count(0)
    expect(rows).not_to_have_count(0)
    page.get_by_role("button", name="Reset filters").click()
    page.get_by_role("button", name="own code only").click()
    own = [row for row, is_own in enumerate(payload["frames"]["own_code"]) if is_own]
    page.get_by_role("tree").focus()
    press(page, "Home", "e")
    expect(rows).to_have_count(len(own))
    page.get_by_role("button", name="Reset filters").click()
    page.get_by_label("op", exact=True).select_option("aten::addmm")
    page.get_by_role("tree").focus()
    search(page, "op:aten::addmm", "found")
    search(page, "op:aten::relu", "nothing found, ")
    page.get_by_label("module").select_option("c:ReLU")
    expect(page.locator(".tree-view .empty")).to_be_visible()


def test_ranks_and_threads_are_filtered(open_page, conv2d, folder):
    payload = page_data(conv2d.read_text())
    rows = len(payload["frames"]["label"])
    payload["processes"] = [{"id": 10 + rank, "rank": rank} for rank in range(8)]
    payload["strings"] += ["1, 4 to 6", "0"]
    ranks, only_first = len(payload["strings"]) - 2, len(payload["strings"]) - 1
    payload["frames"]["ranks"] = [only_first if row >= rows - 5 else ranks if row >= rows - 9 else 0
                                  for row in range(rows)]
    payload["threads"], payload["thread_names"] = [7, 8], ["main", "worker"]
    payload["frames"]["thread"] = [int(row < 3) for row in range(rows)]
    file = folder / "ranks.html"
    file.write_text(with_payload(conv2d.read_text(), payload))
    page = open_page(file)
    rank, thread = page.get_by_label("rank"), page.get_by_label("thread")
    for chosen, last in (("0", rows - 1), ("1", rows - 6), ("5", rows - 6), ("7", rows - 10)):
        rank.select_option(chosen)
        page.get_by_role("tree").focus()
        press(page, "End")
        assert selected(page) == last
    rank.select_option("")
    thread.select_option(label="worker")
    expect(page.get_by_role("treeitem")).to_have_count(3)
    page.get_by_role("button", name="Reset filters").click()
    press(page, "t", "End")
    expect(item(page, rows - 1)).to_be_in_viewport()


def test_the_flame_graph_zooms_and_follows_the_tree(open_page, conv2d):
    page = open_page(conv2d, "#flame")
    canvas, status = page.locator("canvas"), page.locator(".status")
    expect(canvas).to_have_attribute("aria-label", re.compile("frames by time"))
    canvas.click(position={"x": 20, "y": 30})
    first = selected(page)
    expect(page.locator(".panel .permalink")).to_have_attribute("href", f"#flame/{first}")
    label = page.locator(".panel h2").inner_text()
    expect(status).to_contain_text(label)
    canvas.dblclick(position={"x": 20, "y": 30})
    expect(page.get_by_role("button", name="Zoom out")).to_be_visible()
    canvas.hover(position={"x": WINDOW["width"] / 2, "y": 30})
    expect(status).to_contain_text(label)
    press(page, "ArrowDown")
    assert selected(page) == first + 1
    press(page, "Escape")
    expect(page.get_by_role("button", name="Zoom out")).to_be_hidden()
    press(page, "t")
    expect(item(page, first + 1)).to_have_attribute("aria-selected", "true")
    press(page, "End", "f")
    page.get_by_role("button", name="Zoom to selected frame").click()
    expect(status).to_contain_text(page.locator(".panel h2").inner_text())
    page.get_by_label("Width of a box").select_option("calls")
    page.get_by_label("Direction").select_option("callers")
    expect(canvas).to_have_attribute("aria-label", re.compile("by calls, from functions to"))
    canvas.click(position={"x": 5, "y": 5})
    canvas.dblclick(position={"x": 5, "y": 5})
    expect(page.get_by_role("button", name="Zoom out")).to_be_visible()


def test_a_link_leads_to_a_frame(open_page, conv2d):
    page = open_page(conv2d, "#tree/60")
    expect(item(page, 60)).to_be_in_viewport()
    expect(item(page, 60)).to_have_attribute("aria-selected", "true")
    page.evaluate("location.hash = '#tree/7'")
    expect(item(page, 7)).to_be_in_viewport()
    press(page, "ArrowDown")
    assert page.url.endswith("#tree/8")
    page.evaluate("location.hash = '#tree?find=op%3Aaten%3A%3Aconvolution'")
    expect(page.locator(".search .count")).to_contain_text("found")
    expect(page.locator(".panel h2")).to_have_text("aten::convolution")
    for wrong in ("#tree/100000", "#nothing/x", "#tree?find=%E0%A4%A", "#__proto__"):
        page.evaluate("fragment => { location.hash = fragment; }", wrong)
    expect(page.locator(".view:visible")).to_have_count(1)


def test_the_panel_shows_what_is_known(open_page, conv2d):
    payload = page_data(conv2d.read_text())
    page = open_page(conv2d, "#tree?find=op%3Aaten%3A%3Aconvolution")
    panel = page.locator(".panel")
    for text in ("convolution(", "ConvolutionBackward0", "AutogradCPU", "float32 8×3×3×3",
                 "requires grad", "fresh storage", "libtorch_cpu.so", "Operators_0.cpp:1883"):
        expect(panel).to_contain_text(text)
    page.evaluate("location.hash = '#tree/2'")
    expect(panel.locator(".excerpt mark").first).to_contain_text("def forward")
    link = panel.locator(".where a").first
    assert re.fullmatch(r"https://github\.com/.*/conv\.py#L\d+", link.get_attribute("href"))
    search(page, "jit:", "found")
    expect(panel).to_contain_text("oneDNN")
    panel.locator(".path-above summary").click()
    panel.locator(".path-above a").first.click()
    assert selected(page) < len(payload["frames"]["up"])
    expect(panel.locator("h2")).to_have_text(payload["strings"][
        payload["frames"]["label"][selected(page)]])


def test_approximate_lines_are_marked(open_page, conv2d, folder):
    """Of frame 2, the line is approximate, with bounds, and so is that of its call, without."""
    payload = page_data(conv2d.read_text())
    columns = payload["frames"]
    rows = len(columns["up"])
    line, call = columns["line"][2], columns["call_line"][2]
    columns["approximate"] = [3 if row == 2 else 0 for row in range(rows)]
    columns["line_first"] = [line - 1 if row == 2 else 0 for row in range(rows)]
    columns["line_last"] = [line + 7 if row == 2 else 0 for row in range(rows)]
    columns["line"][3] = 0
    output = folder / "approximate.html"
    output.write_text(with_payload(conv2d.read_text(), payload))
    page = open_page(output, "#tree/2")
    places = page.locator(".panel .where")
    expect(places.nth(0)).to_have_text(
        re.compile(rf"defined at .*\.py:~{line} between lines {line - 1} and {line + 7}$"))
    expect(places.nth(1)).to_have_text(re.compile(rf"called at .*:~{call}$"))
    expect(page.locator(".panel .excerpt")).not_to_have_count(0)
    expect(page.locator(".panel .excerpt mark")).to_have_count(0)
    expect(item(page, 2).locator(".place")).to_contain_text(f":~{line}")
    page.evaluate("location.hash = '#tree/3'")
    expect(places.nth(0)).to_have_text(re.compile(r"defined at [^:]*$"))


def test_tables_are_sorted(open_page, program):
    page = open_page(program, "#tables")
    table = page.get_by_role("table", name="Ops")

    def column(number):
        return table.locator(f"tbody td:nth-child({number})").all_inner_texts()

    table.get_by_role("button", name="calls").click()
    counts = [int(text.replace(",", "")) for text in column(2)]
    assert counts == sorted(counts, reverse=True) and len(counts) > 10
    table.get_by_role("button", name="op", exact=True).click()
    expect(table.get_by_role("columnheader", name="op", exact=True)).to_have_attribute(
        "aria-sort", "ascending")
    assert column(1) == sorted(column(1))
    table.get_by_role("button", name="op", exact=True).click()
    assert column(1) == sorted(column(1), reverse=True)
    table.get_by_role("link", name="aten::addmm", exact=True).click()
    expect(page.locator(".panel h2")).to_have_text("aten::addmm")
    page.locator("#tab-tables").click()
    page.get_by_role("link", name="Library calls").click()
    expect(page.get_by_role("table", name="Library calls")).to_be_visible()


def test_the_summary_of_a_program_links_into_the_tree(open_page, program):
    page = open_page(program)
    summary = page.locator(".summary")
    loop = summary.get_by_role("listitem").filter(has_text="for-loop-optimizer")
    expect(loop.locator(".cost")).to_contain_text(re.compile(r"s, [\d.]+ % of the time in ops, "))
    line = PROGRAM.splitlines().index("    loss.backward()") + 1
    summary.get_by_role("link", name=f"train.py:{line}").first.click()
    expect(page.locator(".panel")).to_contain_text("loss.backward()")
    page.go_back()
    evidence = summary.locator(".evidence a").last
    name = evidence.inner_text()
    evidence.click()
    expect(page.locator(".panel h2")).to_have_text(name)


def test_a_comparison_marks_differences(open_page, comparison):
    payload = page_data(comparison.read_text())
    side = payload["frames"]["side"]
    page = open_page(comparison)
    expect(page.locator(".comparison")).to_contain_text("only in A")
    page.locator(".comparison .changes a").first.click()
    expect(page.locator(".panel .changes li").first).to_be_visible()
    page.get_by_role("button", name="differences only").click()
    rows = page.get_by_role("treeitem")
    expect(rows).not_to_have_count(0)
    assert {0, 1} <= set(side)
    row = side.index(1)
    page.evaluate("row => { location.hash = `#tree/${row}`; }", row)
    expect(item(page, row).locator(".sign")).to_have_text("−")
    expect(item(page, row).locator(".calls").nth(1)).to_have_text("·")
    same = [row for row in range(len(side)) if side[row] == 0]
    leaf = next(row for row in same if row + 1 not in same and row + 1 < len(side)
                and payload["frames"]["up"][row + 1] != 1)
    expect(item(page, leaf)).to_have_count(0)
    page.locator("#tab-flame").click()
    expect(page.locator("canvas")).to_be_visible()


def test_dark_light_and_paper(open_page, conv2d):
    page = open_page(conv2d, color_scheme="dark")
    background = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(background)
    press(page, "d")
    light = page.evaluate(background)
    assert (dark, light) == ("rgb(20, 23, 28)", "rgb(255, 255, 255)")
    shown = page.get_by_role("treeitem")
    count = shown.count()
    page.emulate_media(media="print", color_scheme="light")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    frames = len(page_data(conv2d.read_text())["frames"]["label"])
    expect(shown).to_have_count(frames)
    assert count < frames
    expect(page.locator(".summary")).to_be_visible()
    expect(page.locator(".panel")).to_be_hidden()
    page.evaluate("dispatchEvent(new Event('afterprint'))")


def walk_through(page):
    """Opens every view and selects every frame that is on the screen."""
    for view in ("#summary", "#tables", "#flame", "#tree"):
        page.evaluate("fragment => { location.hash = fragment; }", view)
        page.wait_for_timeout(50)
    expect(page.get_by_role("treeitem")).not_to_have_count(0)
    for number in range(page.get_by_role("treeitem").count()):
        press(page, "ArrowDown")
        assert selected(page) == number


def test_a_hostile_trace_stays_text(open_page, optrace, folder):
    file = folder / "hostile.trace"
    functions = [python_function(text, file=text) for text in HOSTILE]
    record = json.dumps({"op": "aten::" + HOSTILE[0], "arguments": [
        {"name": HOSTILE[0], "value": HOSTILE[1]}]})
    above = [None, *range(len(HOSTILE))]
    file.write_bytes(trace_file(
        {"call": HOSTILE[0]}, modules=["libtorch_cpu.so"], python_functions=functions,
        op_records=["{}", record],
        paths=[*(path(number, PYTHON, above[number]) for number in range(len(HOSTILE))),
               path(1, OP, above[-1], ops=[1])]))
    output = folder / "hostile.html"
    result = optrace("report", file, "--format", "html", "-o", output)
    assert result.returncode == 0, result.stderr
    text = output.read_text()
    assert "alert(" not in text and text.count("<script") == 2
    page = open_page(output)
    walk_through(page)
    expect(page.locator("img, iframe, object, embed, link")).to_have_count(0)
    expect(page.get_by_role("tree")).to_contain_text('<script>alert("a")</script>')


def test_hostile_data_stays_text(open_page, conv2d, folder):
    payload = page_data(conv2d.read_text())

    def spoiled(value, number=0):
        if isinstance(value, str):
            return HOSTILE[(len(value) + number) % len(HOSTILE)]
        if isinstance(value, list):
            return [spoiled(one, number) for number, one in enumerate(value)]
        return {key: spoiled(one) for key, one in value.items()} if isinstance(value, dict) \
            else value

    for key in ("header", "summary", "strings", "details", "excerpts", "op_facts"):
        payload[key] = spoiled(payload[key])
    payload["strings"][0] = ""
    output = folder / "spoiled.html"
    output.write_text(with_payload(conv2d.read_text(), payload))
    page = open_page(output)
    walk_through(page)
    expect(page.locator("img, iframe, object, embed, link")).to_have_count(0)
    links = page.eval_on_selector_all("a", "all => all.map(one => one.getAttribute('href'))")
    assert links and all(link.startswith(("#", "https://")) for link in links)


@pytest.mark.parametrize("paths, name", [
    (20_000, "function_77"),
    pytest.param(500_000, "function_777", marks=pytest.mark.verify)])
def test_many_paths(open_page, conv2d, folder, paths, name):
    layers = page_data(conv2d.read_text())["layers"]
    payload = large_payload(layers, paths)
    file = folder / "large.html"
    file.write_text(with_payload(conv2d.read_text(), payload))
    far = paths * 4 // 5
    page = open_page(file, f"#tree/{far}")
    expect(item(page, far)).to_be_in_viewport()
    press(page, "Home", "e")
    tree = page.get_by_role("tree")
    expect(page.get_by_role("treeitem")).not_to_have_count(0)
    assert page.get_by_role("treeitem").count() < 100
    tree.evaluate("element => { element.scrollTop = element.scrollHeight; }")
    press(page, "End")
    assert selected(page) == paths - 1
    expect(item(page, paths - 1)).to_be_in_viewport()
    press(page, "ArrowUp", "PageUp")
    assert paths - 100 < selected(page) < paths - 2
    expect(item(page, selected(page))).to_be_in_viewport()
    search(page, name, f"of {len(rows_with(payload, lambda text: name in text))}")
    page.get_by_role("group", name="Layers").get_by_role("button").first.click()
    expect(page.locator(".search .count")).to_contain_text("filtered out")
    press(page, "f")
    page.get_by_label("Direction").select_option("callers")
    expect(page.locator(".status")).to_be_visible()
