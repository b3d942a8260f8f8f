"""The tree of patterns agrees with matching one pattern at a time."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.errors import PreconditionFailed
from broker.exchanges import topic_tree
from broker.exchanges.topic_tree import TopicTree, check_pattern
from tests.unit.broker.topic_grammar import matches

PATTERN_WORDS = st.sampled_from(["a", "b", "", "*", "#"])
KEY_WORDS = st.sampled_from(["a", "b", "c", "", "*", "#"])
PATTERNS = st.lists(PATTERN_WORDS, max_size=6).map(".".join)
KEYS = st.lists(KEY_WORDS, max_size=6).map(".".join)


@given(st.lists(PATTERNS, max_size=12), st.lists(KEYS, min_size=1, max_size=6))
def test_matches_as_each_pattern_alone_does(patterns: list[str], keys: list[str]) -> None:
    tree: TopicTree[int] = TopicTree()
    for number, pattern in enumerate(patterns):
        tree.add(pattern, number)
    for key in keys:
        expected = {number for number, pattern in enumerate(patterns) if matches(pattern, key)}
        assert set(tree.match(key)) == expected


@pytest.mark.parametrize(
    ("pattern", "key", "expected"),
    [
        ("#", "", True),
        ("", "", True),
        ("*", "", False),
        ("a.#", "a", True),
        ("#.a", "a", True),
        ("a.*.c", "a..c", True),
        ("*.*", ".", True),
        ("a.#.b.#.c", "a.x.b.b.y.c", True),
        ("a.#.b", "a.b.c", False),
        ("stock.*.nyse", "stock.ibm.nyse", True),
        ("stock", "stocks", False),
        ("é.*", "é.é", True),
    ],
)
def test_known_answers(pattern: str, key: str, expected: bool) -> None:
    tree: TopicTree[int] = TopicTree()
    tree.add(pattern, 1)
    assert (set(tree.match(key)) == {1}) is expected
    assert matches(pattern, key) is expected


def test_nobody_walks_on_behind_the_hash_with_which_a_pattern_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message with 450 keys of 127 words held a node for 6 seconds, where 1,000 patterns ended so."""
    tree: TopicTree[str] = TopicTree()
    for pattern in ("a.#", "*.#", "#.b.#"):
        tree.add(pattern, pattern)
    reached: list[int] = []

    def noting(nodes: dict[Any, None], final: dict[Any, None]) -> dict[Any, None]:
        found = topic_tree_closed(nodes, final)
        reached.append(len(found))
        return found

    topic_tree_closed = topic_tree._closed
    monkeypatch.setattr(topic_tree, "_closed", noting)
    assert sorted(tree.match("a.a.b.b.b.a.a")) == ["#.b.#", "*.#", "a.#"]
    assert reached == [2, 3, 1, 2, 2, 2, 1, 1], "the root, then `a` and `*` once, and the first `#` with each word"


@given(st.lists(st.tuples(PATTERNS, st.integers(0, 3)), max_size=12), st.randoms(use_true_random=False))
def test_removing_restores_what_was_before(entries: list[tuple[str, int]], random) -> None:  # type: ignore[no-untyped-def]
    tree: TopicTree[int] = TopicTree()
    for entry in entries:
        tree.add(*entry)
    random.shuffle(entries)
    while entries:
        tree.remove(*entries.pop())
        assert tree.count == len(entries)
        for key in ("", "a", "a.b", "b..a"):
            assert set(tree.match(key)) == {value for pattern, value in entries if matches(pattern, key)}
    assert tree._root.empty


def test_many_wildcards_do_not_multiply_the_work() -> None:
    tree: TopicTree[int] = TopicTree()
    tree.add(".".join(["#"] * 40), 1)
    assert set(tree.match(".".join(["a"] * 100))) == {1}


def test_a_binding_key_may_hold_two_hashes() -> None:
    check_pattern("#.a.#", 2)
    check_pattern("a#b.c##.###", 2)  # these are words like others
    with pytest.raises(PreconditionFailed, match=r"it has 3 wildcards '#', and at most 2 are allowed"):
        check_pattern("#.a.#.#", 2)
    check_pattern("#.a.#.#", 0)  # no limit
