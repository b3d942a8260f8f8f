"""docs/glossary.md and the code agree: each word is where it says, and a class that it names stands for nothing else."""

from __future__ import annotations

import ast
import re

import pytest

from tests.tidy.sources import ROOT, folder, sources

ROW = re.compile(r"^\| ([a-z -]+) \| .+ \| `([\w/]+\.py)`(?: `(\w+)`)? \|$")
# Names of two things that the field gives to both: one class in each of these folders.
OF_TWO_FOLDERS = {
    "Connection": {"broker", "front"},  # a client's; the AMQP state machine of one
    "Consumer": {"broker", "quorum"},  # of a session; as the machine of a queue knows it
    "Entry": {"raft", "broker"},  # of a log; of an x-death header
    "Segment": {"storage", "classic"},  # of a replicated log; of the index of a queue
}


def rows() -> list[tuple[str, str, str]]:
    lines = (ROOT / "docs" / "glossary.md").read_text().splitlines()
    rows = [line for line in lines if line.startswith("| ") and not line.startswith("| word ")]
    found = [match.groups(default="") for line in rows if (match := ROW.match(line))]
    assert len(found) == len(rows) > 30, "a row is not of three columns, or says where in another way"
    return [(word, file, name) for word, file, name in found]


def classes() -> dict[str, list[str]]:
    """Name of each class that is no port -> the files that define one."""
    found: dict[str, list[str]] = {}
    for file, tree in sources().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and "Protocol" not in map(ast.unparse, node.bases):
                found.setdefault(node.name, []).append(file)
    return found


@pytest.mark.parametrize(("word", "file", "name"), rows())
def test_each_word_is_where_the_glossary_says(word: str, file: str, name: str) -> None:
    tree = sources()[file]
    if name:
        assert name in {node.name for node in tree.body if isinstance(node, ast.ClassDef)}


def test_each_word_has_one_row() -> None:
    words = [word for word, _, _ in rows()]
    assert sorted(words) == sorted(set(words))


@pytest.mark.parametrize("name", sorted({name for _, _, name in rows() if name}))
def test_a_class_of_the_glossary_is_the_only_one_of_its_name(name: str) -> None:
    files = [file for file in classes()[name] if not file.startswith("client/")]
    folders = [folder(file) for file in files]
    assert len(files) == 1 or (len(folders) == 2 and set(folders) == OF_TWO_FOLDERS.get(name, set())), files
