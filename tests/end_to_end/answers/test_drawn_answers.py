"""`optrace layers` as a picture, read by an XML parser and compared with the JSON."""
import itertools
import json
import re
import xml.etree.ElementTree

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


def test_there_is_no_graph_of_layers(optrace):
    assert optrace("layers", "--format", "dot").returncode == USAGE
