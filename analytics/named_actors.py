"""Whom the numbers of actors stand for, at each place of a file that is read from its beginning on. A node that was started
again gives the same numbers to others, in the same file."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from operator import itemgetter

from analytics.file_window import OWNERS_MAX, owners
from native.columns import row_of
from native.log_tables import RECORDS
from storage.history.column_reader import ColumnPiece
from storage.history.name_records import ActorRow, decode_actor
from storage.record import HEADER_BYTES, Kind

_ACTORS = re.compile(re.escape(bytes([Kind.ACTOR])))


class NamedActors:
    """See the module. Of one file."""

    def __init__(self) -> None:
        self._rows: dict[int, ActorRow] = {}  # by number, as they are at the place that was asked for last
        self._coming: deque[tuple[int, int, ActorRow]] = deque()  # where it is named, its number, and who it is

    def read(self, piece: ColumnPiece) -> None:
        """The next piece."""
        self._coming.extend(_actors_of(piece))

    def owners_at(self, offset: int, actor: int | None) -> list[ActorRow]:
        """An actor that a record there names, and to whom it belongs. `offset` never goes back."""
        while self._coming and self._coming[0][0] < offset:
            _, number, row = self._coming.popleft()
            self._rows[number] = row
        return owners(self._rows, actor)


class PlacedActors:
    """The same, of places in any order."""

    def __init__(self) -> None:
        # By number: where it is named, and who it is from there on.
        self._rows: dict[int, list[tuple[int, ActorRow]]] = {}

    def read(self, piece: ColumnPiece) -> None:
        """The next piece."""
        for offset, number, row in _actors_of(piece):
            self._rows.setdefault(number, []).append((offset, row))

    def owners_at(self, offset: int, actor: int | None) -> list[ActorRow]:
        """An actor that a record there names, and to whom it belongs."""
        found: list[ActorRow] = []
        while actor is not None and len(found) < OWNERS_MAX and (row := self._row_at(offset, actor)) is not None:
            found.append(row)
            actor = row.parent
        return found

    def _row_at(self, offset: int, actor: int) -> ActorRow | None:
        rows = self._rows.get(actor, [])
        behind = bisect_left(rows, offset, key=itemgetter(0))
        return rows[behind - 1][1] if behind else None


def connection_of(found: list[ActorRow]) -> ActorRow | None:
    """Of an actor and its owners the one with a user; None: the file does not name it."""
    return next((row for row in found if row.user), None)


def _actors_of(piece: ColumnPiece) -> Iterator[tuple[int, int, ActorRow]]:
    for found in _ACTORS.finditer(piece.kinds()):
        record = row_of(RECORDS, piece.records, found.start())
        start = record["offset"] - piece.base + HEADER_BYTES
        with suppress(ValueError):  # of a version that is not known
            yield record["offset"], record["index"], decode_actor(piece.buffer[start : start + record["size"]])
