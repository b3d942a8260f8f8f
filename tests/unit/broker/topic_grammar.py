"""What topic patterns mean, without any thought of speed: the definition that broker/exchanges/topic_tree.py must agree
with."""

from __future__ import annotations


def matches(pattern: str, key: str) -> bool:
    return _means(_words(pattern), _words(key))


def _words(text: str) -> list[str]:
    return text.split(".") if text else []


def _means(parts: list[str], words: list[str]) -> bool:
    if not parts:
        return not words
    if parts[0] == "#":
        return any(_means(parts[1:], words[taken:]) for taken in range(len(words) + 1))
    return bool(words) and parts[0] in ("*", words[0]) and _means(parts[1:], words[1:])
