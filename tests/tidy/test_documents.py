"""What documents name is there: links, files, commands of make. The picture of the layers is the contract of the imports."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.tidy.sources import ROOT, SERVER, sources

READING_ORDER = ROOT / "docs" / "README.md"
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "native" / "README.md"])
LINK = re.compile(r"\]\((?!https?://|#)([^)#\s]+)")
QUOTED = re.compile(r"`([^`\s]+)`")
IS_PATH = re.compile(r"[\w./-]*/[\w./-]*|[\w-]+\.(?:py|md|toml|txt)")
NAMED_IN_PROSE = "|".join((*SERVER, "tests", "docs", "deploy", "proto", "client"))
IN_PROSE = re.compile(rf"(?<![\w/.])(?:{NAMED_IN_PROSE})/[\w./-]+\.(?:pyx?|md|txt|toml|proto|yaml|js)\b")
ANY_NAME = re.compile(r"[/_][xX]\.")  # stands for any
MAKE = re.compile(r"\bmake ([a-z][a-z-]*)")
LEFT_OUT = {"var/"}  # made by running


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert [link for link in LINK.findall(page.read_text()) if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", [READING_ORDER, CONTRIBUTING], ids=lambda page: page.name)
def test_files_and_folders_of_the_reading_order_exist(page: Path) -> None:
    named = [name for name in QUOTED.findall(page.read_text()) if IS_PATH.fullmatch(name) and name not in LEFT_OUT]
    assert named, "the names were not found"
    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_pages_speak_of_exist(page: Path) -> None:
    """Also without quotes. What stood there once is told by decisions and the change log."""
    if page.name != "CHANGELOG.md" and page.parent.name != "decisions":
        named = [name for name in IN_PROSE.findall(page.read_text()) if not ANY_NAME.search(name)]
        assert [name for name in named if not (ROOT / name).exists()] == []


def test_files_that_the_code_speaks_of_exist() -> None:
    """In docstrings and comments: a file that was moved is easily forgotten there."""
    gone = []
    for file in sources():
        named = set(IN_PROSE.findall((ROOT / file).read_text()))
        gone += [f"{file}: {name}" for name in named if not (ROOT / name).exists()]
    assert gone == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_make_is_asked_for_it_can_do(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    commands = "\n".join(re.findall(r"`[^`]*`|^(?: {4}|\$ ).*$", page.read_text(), re.MULTILINE))
    assert set(MAKE.findall(commands)) - targets == set()


def contract(name: str) -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = project["tool"]["importlinter"]["contracts"]
    found: list[str] = next(one["layers"] for one in contracts if one["name"] == name)
    return found


def picture(title: str) -> list[str]:
    """The names at the left of the lines of the picture below a heading of the reading order."""
    section = READING_ORDER.read_text().partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    lines = [line.strip() for line in section.splitlines() if line.startswith("    ")]
    return [re.split(r" {2,}", line)[0].replace("/", "") for line in lines]


@pytest.mark.parametrize(
    ("title", "name"),
    [("Layers", "imports point downward"), ("Rooms of the node", "rooms of the node import downward")],
)
def test_the_picture_of_the_layers_is_the_contract_of_the_imports(title: str, name: str) -> None:
    assert picture(title) == contract(name), "change the picture of docs/README.md with pyproject.toml"


def test_every_room_of_the_node_is_explained() -> None:
    rooms = {path.parent.name for path in ROOT.glob("node/*/__init__.py")}
    assert {room for room in rooms if f"`node/{room}/" not in READING_ORDER.read_text()} == set()


def test_stated_times_cover_the_commands() -> None:
    """Each target that somebody calls is in the table of CONTRIBUTING.md, with how long it takes."""
    targets = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert targets is not None
    stated = dict(re.findall(r"^\| `make ([a-z-]+)` \|[^|]*\| ([^|]+) \|$", CONTRIBUTING.read_text(), re.MULTILINE))
    assert set(targets[1].split()) - stated.keys() == set()


def test_headings_of_the_changelog_are_versions() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert headings[0] == "Unreleased"
    released = [re.fullmatch(r"(\d+)\.(\d+)\.(\d+), \d{4}-\d\d-\d\d", heading) for heading in headings[1:]]
    assert None not in released, "a version and its date, as in `## 0.1.0, 2026-12-31`"
    numbers = [tuple(map(int, match.groups())) for match in released if match is not None]
    assert numbers == sorted(set(numbers), reverse=True), "newest first, each once"
    tags = subprocess.run(["git", "tag", "--list", "v*"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    assert {tuple(map(int, tag[1:].split("."))) for tag in tags.split()} <= set(numbers), "a tag without its heading"


def test_no_line_of_the_changelog_is_there_twice() -> None:
    """Branches are merged with all lines of both."""
    section = re.split(r"^## ", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)[1]
    lines = [line for line in section.splitlines() if line.startswith("- ")]
    assert sorted({line for line in lines if lines.count(line) > 1}) == []


def test_each_decision_has_a_number_of_its_own() -> None:
    pages = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))
    in_names = [int(page.name[:4]) for page in pages]
    in_headings = [int(page.read_text().removeprefix("# ").partition(".")[0]) for page in pages]
    assert in_names == in_headings
    assert len(set(in_names)) == len(in_names)


def test_the_reading_order_names_every_room() -> None:
    text = (ROOT / "docs/README.md").read_text()
    rooms = {
        f"{init.parent.relative_to(ROOT)}/"
        for folder in SERVER
        for init in (ROOT / folder).glob("*/__init__.py")
        if folder not in ("node", "wire")  # rooms of the node have a picture of their own; wire has a protocol in each
    }
    named = set(re.findall(r"^    ((?:\w+/){2})  ", text, re.MULTILINE))
    assert named == rooms
