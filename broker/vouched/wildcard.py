"""Patterns of scopes: `*` stands for any text, also for none, and all else for itself once it is decoded as in the query of a
URL: `%2F` is a slash, `%2A` a star, and `+` a space.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote, unquote_plus

_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


@dataclass(slots=True, frozen=True)
class Wildcard:
    """What stands between the stars; without a star it is one text."""

    parts: tuple[str, ...]

    def matches(self, text: str) -> bool:
        """In time that follows the length of the text: each part is taken where it comes first."""
        if len(self.parts) == 1:
            return text == self.parts[0]
        first, *middle, last = self.parts
        if len(text) < len(first) + len(last) or not (text.startswith(first) and text.endswith(last)):
            return False
        at, end = len(first), len(text) - len(last)
        for part in middle:
            found = text.find(part, at, end)
            if found < 0:
                return False
            at = found + len(part)
        return True


def wildcard(pattern: str) -> Wildcard | None:
    """None: it has a percent sign that escapes nothing, or bytes that are no text, and so it matches nothing."""
    if _BAD_ESCAPE.search(pattern):
        return None
    try:
        return Wildcard(tuple(unquote_plus(part, errors="strict") for part in pattern.split("*")))
    except UnicodeDecodeError:
        return None


def literally(text: str) -> str:
    """The pattern that matches this text only."""
    return quote(text, safe="", errors="replace").replace("*", "%2A")
