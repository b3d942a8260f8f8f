"""Topic patterns as a tree of words: which of a thousand patterns match a key, in time that follows the key's length.

Words are split at dots; `*` stands for one word and `#` for any number, zero too. The empty key has no words. Walking
keeps the *set* of nodes that the words so far can lead to, so patterns with several `#` cost no more than others.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

from broker.errors import PreconditionFailed

T = TypeVar("T", bound=Hashable)


def words_of(key: str) -> list[str]:
    return key.split(".") if key else []


def check_pattern(pattern: str, wildcards_max: int) -> None:
    """Raises PreconditionFailed for a binding key with too many `#`."""
    count = words_of(pattern).count("#")
    if wildcards_max and count > wildcards_max:
        raise PreconditionFailed(
            f"invalid binding key '{pattern}': it has {count} wildcards '#', and at most {wildcards_max} are allowed"
        )


class _Node(Generic[T]):
    __slots__ = ("children", "eats_words", "values")

    def __init__(self, eats_words: bool = False) -> None:
        self.children: dict[str, _Node[T]] = {}
        self.values: dict[T, int] = {}  # how many times each was added with this pattern
        self.eats_words = eats_words  # the pattern so far ends in `#`

    @property
    def empty(self) -> bool:
        return not self.children and not self.values


class TopicTree(Generic[T]):
    """A multiset of (pattern, value), asked by key."""

    __slots__ = ("_root", "count")

    def __init__(self) -> None:
        self._root: _Node[T] = _Node()
        self.count = 0

    def add(self, pattern: str, value: T) -> None:
        node = self._root
        for word in words_of(pattern):
            child = node.children.get(word)
            if child is None:
                child = node.children[word] = _Node(eats_words=word == "#")
            node = child
        node.values[value] = node.values.get(value, 0) + 1
        self.count += 1

    def remove(self, pattern: str, value: T) -> None:
        path = [self._root]
        words = words_of(pattern)
        for word in words:
            path.append(path[-1].children[word])
        values = path[-1].values
        values[value] -= 1
        if values[value] == 0:
            del values[value]
        self.count -= 1
        for depth in range(len(words), 0, -1):  # branches that lead nowhere go at once
            if not path[depth].empty:
                break
            del path[depth - 1].children[words[depth - 1]]

    def match(self, key: str) -> Iterator[T]:
        """Values whose pattern matches. One that was added with several such patterns may come several times."""
        final: dict[_Node[T], None] = {}
        reached = _closed({self._root: None}, final)
        for word in words_of(key):
            following: dict[_Node[T], None] = {}
            for node in reached:
                children = node.children
                if word in children and word != "#":  # a `#` in a key is only a word, and no pattern asks for it
                    following[children[word]] = None
                if "*" in children:
                    following[children["*"]] = None
                if node.eats_words:
                    following[node] = None
            reached = _closed(following, final)
            if not reached:
                break
        for node in (*reached, *final):
            yield from node.values


def _closed(nodes: dict[_Node[T], None], final: dict[_Node[T], None]) -> dict[_Node[T], None]:
    """These nodes, and those that a `#` standing for no word leads to from them. A `#` with which patterns end goes to `final`:
    it matches whatever follows, and nobody walks on from there."""
    reached = dict(nodes)
    for node in nodes:
        child = node.children.get("#")
        while child is not None:
            (reached if child.children else final)[child] = None
            child = child.children.get("#")
    return reached
