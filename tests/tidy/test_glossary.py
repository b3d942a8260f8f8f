"""docs/glossary.md and the code agree: each word is where it says, and a class that it names stands for nothing else."""

from __future__ import annotations

import ast
import re

import pytest

from tests.tidy.sources import ROOT, sources, words

ROW = re.compile(r"^\| ([a-z -]+) \| .+ \| `([\w/]+\.py)`(?: `(\w+)`)? \|$")
FAMILY = re.compile(r"^\| ([a-z ]+) \| .+ \| (`\w+`(?:, `\w+`)*) \|$")
FAMILIES = "## Words that several classes carry"
# Each of these had several meanings once. In another meaning it needs a word before it: a dead letter is no letter.
OVERLOADED = ("session", "record", "letter", "turn", "run", "member", "slice", "portion", "state", "status", "held")


def tables() -> tuple[list[str], list[str]]:
    """Rows of one word with its place, and rows of a word with the classes that carry it."""
    words, found, families = (ROOT / "docs" / "glossary.md").read_text().partition(f"\n{FAMILIES}\n")
    assert found, f"docs/glossary.md has no '{FAMILIES}'"
    first, second = (
        [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| word ")]
        for text in (words, families)
    )
    return first, second


def rows() -> list[tuple[str, str, str]]:
    lines, _ = tables()
    found = [match.groups(default="") for line in lines if (match := ROW.match(line))]
    assert len(found) == len(lines) > 30, "a row is not of three columns, or says where in another way"
    return [(word, file, name) for word, file, name in found]


def families() -> dict[str, list[str]]:
    """Word, or word with what is before it -> the classes that carry it."""
    _, lines = tables()
    found = [match.groups() for line in lines if (match := FAMILY.match(line))]
    assert len(found) == len(lines), "a row is not of three columns, or lists something else than classes"
    return {word: re.findall(r"\w+", names) for word, names in found}


def public_classes() -> set[str]:
    return {
        node.name
        for file, tree in sources().items()
        for node in tree.body
        if isinstance(node, ast.ClassDef) and not file.startswith("client/") and not node.name.startswith("_")
    }


def singular(name: str) -> set[str]:
    """The words of a name; `Letters` has letter."""
    return {word.removesuffix("s") if word.removesuffix("s") in OVERLOADED else word for word in words(name)}


@pytest.mark.parametrize(("word", "file", "name"), rows())
def test_each_word_is_where_the_glossary_says(word: str, file: str, name: str) -> None:
    tree = sources()[file]
    if name:
        assert name in {node.name for node in tree.body if isinstance(node, ast.ClassDef)}


def test_each_word_has_one_row() -> None:
    words = [word for word, _, _ in rows()]
    assert sorted(words) == sorted(set(words))


@pytest.mark.parametrize("word", OVERLOADED)
def test_an_overloaded_word_has_one_meaning_and_its_classes_are_listed(word: str) -> None:
    listed = [name for term, names in families().items() if word in term.split() for name in names]
    assert word in families() or word in {row[0] for row in rows()}, "without a word before it, it means nothing"
    assert sorted(listed) == sorted(set(listed)), "a class carries one meaning"
    assert sorted(listed) == sorted(name for name in public_classes() if word in singular(name))


def test_only_overloaded_words_have_a_family() -> None:
    assert [term for term in families() if not set(term.split()) & set(OVERLOADED)] == []
