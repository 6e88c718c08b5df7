"""`optrace layers` as a picture and a page, `optrace explain` as a page and a graph: read by an XML
parser, an HTML parser and Graphviz, and compared with the JSON.
"""
import base64
import hashlib
import itertools
import json
import re
import subprocess
import xml.etree.ElementTree

import html5lib
import pytest

USAGE = 2
SVG = "{http://www.w3.org/2000/svg}"
GITHUB = "https://github.com/pytorch/pytorch/blob/2236df1770800ffea5697b11b0bb0d910b2e59e1/"


@pytest.fixture(scope="module")
def ask(optrace, python):
    def run(*arguments):
        result = optrace(*arguments, "--python", python)
        assert (result.returncode, result.stderr) == (0, "")
        return result.stdout

    return run


@pytest.fixture(scope="module")
def layers(ask):
    return json.loads(ask("layers", "--format", "json"))["layers"]


@pytest.fixture(scope="module")
def picture(ask):
    return xml.etree.ElementTree.fromstring(ask("layers", "--format", "svg"))


def boxes_of(picture):
    """Returns the rectangle of each layer: left, top, right, bottom."""
    boxes = {}
    for group in picture.iterfind(f"{SVG}g[@id]"):
        box = group.find(f"{SVG}rect")
        left, top, width, height = (int(box.get(key)) for key in ("x", "y", "width", "height"))
        boxes[group.get("id").removeprefix("layer-")] = (left, top, left + width, top + height)
    return boxes


def arrows_of(picture):
    """Returns the points of each arrow's line, by its tooltip."""
    arrows = {}
    for group in picture.iterfind(f"{SVG}g[@class='call']"):
        numbers = [int(number) for number in
                   re.findall(r"-?\d+", group.find(f"{SVG}path").get("d"))]
        arrows[group.find(f"{SVG}title").text] = list(zip(numbers[::2], numbers[1::2]))
    return arrows


def overlap(one, other):
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def test_picture_has_every_layer_and_every_exit(picture, layers):
    assert set(boxes_of(picture)) == {layer["id"] for layer in layers} | {"libraries"}
    texts = {text.text for text in picture.iter(f"{SVG}text")}
    links = {link.get("href") for link in picture.iter(f"{SVG}a")}
    for layer in layers:
        assert layer["title"] in texts
        urls = {door["source"]["url"] for door in layer["doors"] if door["source"]} - {None}
        assert urls <= links and all(url.startswith(GITHUB) for url in urls)
    calls = {f"{layer['id']} {door['leads_to']}" for layer in layers for door in layer["doors"]
             if door["leads_to"] != layer["id"]}
    assert len(arrows_of(picture)) == len(calls)


def test_picture_is_readable(picture):
    boxes = boxes_of(picture)
    width, height = int(picture.get("width")), int(picture.get("height"))
    for box in boxes.values():
        assert 0 <= box[0] < box[2] <= width and 0 <= box[1] < box[3] <= height
    assert not [pair for pair in itertools.combinations(boxes.values(), 2) if overlap(*pair)]
    lines = [(tip, tuple(map(min, start, end)) + tuple(map(max, start, end)))
             for tip, points in arrows_of(picture).items() for start, end in
             itertools.pairwise(points)]
    for tip, line in lines:
        assert not [name for name, box in boxes.items() if overlap(line, box)], tip
    for group in picture.iterfind(f"{SVG}g[@id]"):
        box = boxes[group.get("id").removeprefix("layer-")]
        for text in group.iter(f"{SVG}text"):
            assert box[0] < int(text.get("x")) < box[2] and box[1] < int(text.get("y")) < box[3]


def test_picture_is_described(picture):
    assert picture.find(f"{SVG}title").text == "The layers of PyTorch 2.6.0"
    assert "ATen calls CUDA" in picture.find(f"{SVG}desc").text
    assert picture.get("aria-labelledby") == picture.find(f"{SVG}title").get("id")


def test_picture_of_one_layer(ask):
    picture = xml.etree.ElementTree.fromstring(ask("layers", "c10", "--format", "svg"))
    boxes = boxes_of(picture)
    assert set(boxes) == {"aten", "c10", "cuda", "libraries"}
    assert boxes["aten"][3] < boxes["c10"][1] and boxes["c10"][3] < boxes["cuda"][1]


@pytest.fixture(scope="module", params=[["layers"], ["explain", "conv2d"], ["explain", "gelu"],
                                        ["explain", "add_"]], ids=" ".join)
def page(request, ask):
    """A page's text and its parsed tree."""
    text = ask(*request.param, "--format", "html")
    parser = html5lib.HTMLParser(html5lib.getTreeBuilder("etree"), strict=True,
                                 namespaceHTMLElements=False)
    return text, parser.parse(text)


def name_of(element):
    """Returns an element's name without its namespace; a comment has none."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def test_page_is_allowed_only_its_own_style(page):
    _, tree = page
    policy = next(meta.get("content") for meta in tree.iter("meta")
                  if meta.get("http-equiv") == "Content-Security-Policy")
    hashes = [base64.b64encode(hashlib.sha256(style.text.encode()).digest()).decode()
              for style in tree.iter() if name_of(style) == "style"]
    allowed = " ".join(f"'sha256-{one}'" for one in hashes)
    assert policy == f"default-src 'none'; style-src {allowed}"
    for element in tree.iter():
        assert name_of(element) not in ("script", "link", "img", "iframe")
        assert not [key for key in element.attrib if key.startswith("on") or key == "style"]
        assert element.get("href", "#").startswith(("#", GITHUB))


def test_identifiers_on_a_page_are_unique(page):
    text, _ = page
    ids = re.findall(r' id="([^"]*)"', text)
    assert ids and len(ids) == len(set(ids))


def test_page_of_an_op_has_what_the_json_has(ask):
    text = ask("explain", "gelu", "--format", "html")
    tree = html5lib.parse(text, namespaceHTMLElements=False)
    shown = " ".join("".join(tree.itertext()).split())
    facts = json.loads(ask("explain", "gelu", "--format", "json"))
    assert facts["signature"]["text"] in shown
    for entry in facts["dispatch"]:
        assert entry["key"] in shown
        for function in entry["functions"]:
            assert f"{function['source']['file']}:{function['source']['line']}" in shown
    for derivative in facts["derivatives"]:
        assert derivative["node"] in shown
        for formula in derivative["backward"]:
            assert " ".join(formula["text"].split()) in shown
            assert formula["source"]["url"] in text
    ends = {path["steps"][-1]["name"].split("(")[0].rpartition("::")[2]
            for path in facts["paths"]}
    assert ends and not [end for end in ends if end not in shown]


def graph(dot):
    """Returns the labels of a graph's nodes, and the edges between them, as Graphviz reads it."""
    read = subprocess.run(["dot", "-Tjson"], input=dot, capture_output=True, text=True, check=True,
                          timeout=600)
    assert read.stderr == ""
    drawn = json.loads(read.stdout)
    labels = [node["label"].split("\\n")[0] for node in drawn["objects"]]
    return labels, {(labels[edge["tail"]], labels[edge["head"]]) for edge in drawn["edges"]}


def test_graph_of_an_op(ask):
    labels, edges = graph(ask("explain", "gelu", "--format", "dot"))
    assert len(labels) == len(set(labels))
    assert edges >= {
        ("aten::gelu", "CPU"), ("CPU", "at::wrapper_CPU_gelu"),
        ("at::wrapper_CPU_gelu", "at::native::structured_gelu_out_cpu::impl"),
        ("at::native::structured_gelu_out_cpu::impl", "ideep::eltwise_forward::compute"),
        ("aten::gelu", "GeluBackward0"), ("GeluBackward0", "aten::gelu_backward")}
    everything, _ = graph(ask("explain", "gelu", "--format", "dot", "--all"))
    assert len(everything) > len(labels)


def test_formats_of_one_op_refuse_a_list_of_names(optrace):
    for name in ("html", "dot"):
        result = optrace("explain", "-", "--format", name)
        assert (result.returncode, result.stdout) == (USAGE, "")
        assert f"--format {name}" in result.stderr and "JSON" in result.stderr
    assert optrace("explain", "mm", "--format", "svg").returncode == USAGE
    assert optrace("layers", "--format", "dot").returncode == USAGE
