"""Each path in a document or a comment exists, and the diagram is drawn from its source."""
import re
import subprocess
import xml.etree.ElementTree

FOLDERS = ("bench|cmake|docs|examples|fixtures|gpu|indexer|lookup|platform|present|python|pytorch|"
           "report|setup|src|target|tests|tracer")
# A path below one of the project's folders: a file with its suffix, or a folder with a final slash.
PATH = re.compile(rf"(?<![\w./-])((?:{FOLDERS})/(?:[\w.-]+/)*(?:[\w-]+(?:\.[\w-]+)+|(?<=/)))"
                  r"(?![\w/*<{-])")
COMMENT = {".cpp": r"//.*", ".h": r"//.*", ".py": r"#.*|\"\"\"(?:.|\n)*?\"\"\"", ".sh": r"#.*",
           ".txt": r"#.*", ".cmake": r"#.*", ".md": r"(?:.|\n)+"}


def tracked_files(repository):
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=repository, capture_output=True,
                            text=True, check=True)
    return [repository / name for name in listed.stdout.split("\0") if name]


def named_paths(path):
    text = path.read_text()
    for comment in re.findall(COMMENT[path.suffix], text):
        for found in PATH.findall(comment):
            yield found.rstrip(".")


def test_paths_exist(repository):
    checked, missing = 0, []
    for path in tracked_files(repository):
        if path.suffix not in COMMENT or path.is_relative_to(repository / "fixtures"):
            continue
        for name in named_paths(path):
            checked += 1
            places = (repository, path.parent, path.parent.parent)
            if not any((place / name).exists() for place in places):
                missing.append(f"{path.relative_to(repository)}: {name}")
    assert not missing
    assert checked > 100


def drawn_texts(group):
    """(title, lines of text) of a node, an edge or a cluster in an SVG drawing of Graphviz."""
    title = group.find("{*}title").text
    return title, [text.text for text in group.iterfind(".//{*}text")]


def test_the_diagram_is_drawn_from_its_source(repository):
    """Compares texts and arrows, because other versions of Graphviz place them differently."""
    source = (repository / "docs/architecture.dot").read_text()
    nodes = {name: label.split("\\n") for name, label in
             re.findall(r'^ *(\w+) \[label="([^"]*)"', source, re.MULTILINE)}
    clusters = dict(re.findall(r'^ *subgraph (\w+) {\n *label="([^"]*)"', source, re.MULTILINE))
    edges = re.findall(r"^ *(\w+ -> \w+)$", source, re.MULTILINE)
    assert len(nodes) > 15 and len(edges) > 15 and len(clusters) > 2

    svg = xml.etree.ElementTree.parse(repository / "docs/architecture.svg")
    drawn = {kind: [drawn_texts(group) for group in svg.iterfind(f".//{{*}}g[@class='{kind}']")]
             for kind in ("node", "edge", "cluster")}
    assert dict(drawn["node"]) == nodes
    assert dict(drawn["cluster"]) == {name: [label] for name, label in clusters.items()}
    assert sorted(title for title, _ in drawn["edge"]) == sorted(
        edge.replace(" -> ", "->") for edge in edges)


def test_folders_of_the_diagram_exist(repository):
    source = (repository / "docs/architecture.dot").read_text()
    folders = re.findall(rf"((?:{FOLDERS})/[\w/]*)", source.split("{", 1)[1])
    assert len(folders) > 15
    assert [folder for folder in folders if not (repository / folder).is_dir()] == []
