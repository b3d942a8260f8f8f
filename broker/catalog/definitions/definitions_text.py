"""A document of definitions as JSON, read entry by entry: one of 10 MB in a single step would hold the node for a tenth of a
second.

json finds where an entry ends; msgspec says what it is, and is strict about it. An entry, or what is no list, has at most
ENTRY_CHARACTERS_MAX characters.
"""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF8
from collections.abc import Iterator
from typing import Any

import msgspec

from broker.errors import PreconditionFailed

ENTRY_CHARACTERS_MAX = 262_144
PIECE_CHARACTERS = 4_096  # what is looked at first: most entries are shorter
SPACE = re.compile(r"[ \t\r\n]*")
DECODER = json.JSONDecoder()
Document = dict[str, Any]


def collect(raw: bytes, document: Document) -> Iterator[None]:
    """Fill the document, in as many steps as it has entries. Raises PreconditionFailed."""
    try:
        text = _Text(raw.removeprefix(BOM_UTF8).decode())
    except UnicodeDecodeError as error:
        raise PreconditionFailed(f"definitions are JSON in UTF-8, and these are not: {error}") from error
    for key in text.keys_of_object():
        if text.peek() == "[":
            items = document[key] = []
            for item in text.items_of_list():
                items.append(item)
                yield
        else:
            document[key] = text.value()
        yield
    if text.peek():
        raise text.wrong("there is something behind the object")


class _Text:
    """A text, and how far it is read."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def peek(self) -> str:
        """The next character that is no space; empty: there is none."""
        space = SPACE.match(self._text, self._at)
        assert space is not None, "no space at all is found everywhere"
        self._at = space.end()
        return self._text[self._at : self._at + 1]

    def keys_of_object(self) -> Iterator[str]:
        """What belongs to a key is to be read before the next one is asked for."""
        for _ in self._parts("{", "}"):
            if self.peek() != '"':
                raise self.wrong("a key is a text")
            key = self.value()
            self._take(":")
            yield key

    def items_of_list(self) -> Iterator[Any]:
        for _ in self._parts("[", "]"):
            yield self.value()

    def value(self) -> Any:
        self.peek()
        for size in (PIECE_CHARACTERS, ENTRY_CHARACTERS_MAX):
            piece = self._text[self._at : self._at + size]
            is_rest = self._at + len(piece) == len(self._text)
            try:
                _, end = DECODER.raw_decode(piece)
            except RecursionError:
                raise self.wrong("it is nested too deeply") from None
            except ValueError as error:
                if is_rest:
                    raise self.wrong(str(error).partition(":")[0]) from error
                continue
            if end < len(piece) or is_rest:  # or it may go on, as a number does
                return self._decoded(piece[:end])
        raise self.wrong(f"what begins here has more than {ENTRY_CHARACTERS_MAX} characters, or is no JSON")

    def wrong(self, why: str) -> PreconditionFailed:
        return PreconditionFailed(f"definitions are a JSON object, and these are not: at character {self._at}, {why}")

    def _decoded(self, piece: str) -> Any:
        try:
            value = msgspec.json.decode(piece)
        except (msgspec.DecodeError, UnicodeError) as error:
            raise self.wrong(str(error)) from error
        except RecursionError:
            raise self.wrong("it is nested too deeply") from None
        self._at += len(piece)
        return value

    def _parts(self, begin: str, end: str) -> Iterator[None]:
        """Stands at each of what the commas divide."""
        self._take(begin)
        if self.peek() == end:
            self._at += 1
            return
        while True:
            yield
            if self.peek() == end:
                self._at += 1
                return
            self._take(",")

    def _take(self, character: str) -> None:
        if self.peek() != character:
            raise self.wrong(f"'{character}' is missing")
        self._at += 1
