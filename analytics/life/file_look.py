"""One pass over a file of a log, for what was asked for: a kernel finds the records, and a search over their bytes the few that
matter. Only these are decoded.

Bytes that are searched for (an id, a text, the place at which a dead letter died) may stand anywhere, so each hit is looked up
in the record that it lies in, and counts if it is in the part of it that was meant.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Container, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from analytics.file_window import FileWindow, reader_of
from analytics.inputs import LogFile, unless_deleted
from analytics.life.wanted import (
    AtPlace,
    BodyDigest,
    FoundMessage,
    LookFor,
    MessagePlace,
    Sought,
    SuccessorOf,
    numbers_of,
)
from analytics.lost_records import deleted, lost_of
from analytics.named_actors import PlacedActors
from analytics.queue_events import QUORUM, ActorName, FileEvents, QueueEvent, QueueName, note_name
from classic.store.log_records import decode_reasoned
from native.columns import Field, Table, numbers, picked, rows_of
from native.log_columns import events, origins, publishes, settles
from native.log_tables import DELETED, EVENTS, FILE_BITS, ORIGINS, PUBLISHES, RECORDS, SETTLES
from raft.core.errors import BadBytes
from raft.core.packs import count_in
from replicated.local_members import QUEUE_GROUPS
from storage.history.column_reader import ColumnPiece
from storage.history.name_records import ActorRow
from storage.record import HEADER_BYTES, Kind

_MESSAGE = struct.Struct("<II")  # native/content.py
_PUBLISHING = (Kind.CLASSIC_PUBLISH, Kind.RAFT_ENTRIES)
_REASONED = (Kind.CLASSIC_DONE, Kind.CLASSIC_OUT, Kind.CLASSIC_BACK)
_OUT = re.compile(bytes([Kind.CLASSIC_OUT]))
_CHECKPOINT = re.compile(bytes([Kind.CLASSIC_CHECKPOINT]))
_COLUMN: dict[tuple[Field, ...], dict[str, tuple[int, Field]]] = {
    fields: {one.name: (at, one) for at, one in enumerate(fields)} for fields in (RECORDS, PUBLISHES, SETTLES, EVENTS)
}


@dataclass(slots=True)
class FileSeen(FileWindow):
    """What one file has of what was asked for. Plain values: it travels between processes."""

    names: dict[int, QueueName] = field(default_factory=dict)
    found: list[FoundMessage] = field(default_factory=list)
    events: list[QueueEvent] = field(default_factory=list)  # of the sequences and groups that were asked for
    spans: dict[int, tuple[int, int]] = field(
        default_factory=dict
    )  # first and last entry, of groups that were asked for
    actors: dict[int, ActorRow] = field(default_factory=dict)  # whom messages name, and to whom they belong
    whose: dict[int, list[ActorRow]] = field(default_factory=dict)  # by place of an event of a classic queue, the same


def look(file: LogFile, wanted: LookFor, *, tail: bool) -> FileSeen:
    seen = FileSeen(file, deleted(file))
    with unless_deleted(file):
        reader, durable = reader_of(file, tail=tail)
        one = _FileLook(seen, wanted, durable)
        for piece in reader.pieces():
            one.take(piece)
        one.end()
        seen.damage = lost_of(file, reader)
    return seen


def entries(file: LogFile, group: int, first: int, end: int, *, tail: bool) -> list[QueueEvent]:
    """This group's entries from `first` up to `end`, as far as this file has them."""
    found: list[QueueEvent] = []
    with suppress(FileNotFoundError):
        reader, durable = reader_of(file, tail=tail)
        for piece in reader.pieces():
            writers = _numbers(RECORDS, piece.records, "writer")
            kinds = piece.kinds()
            rows = [row for row, one in enumerate(writers) if one == group and kinds[row] == Kind.RAFT_ENTRIES]
            for event in _events_of(piece, rows, file, durable):
                if first <= event.place < end:
                    found.append(event)
    return found


def _reasoned(event: QueueEvent) -> tuple[int, list[tuple[int, int]]]:
    """Actor and messages. A payload that does not fit its record's kind says nothing."""
    try:
        _, actor, _, ranges = decode_reasoned(memoryview(event.data))
    except struct.error:
        return 0, []
    return actor, ranges


def _numbers(fields: tuple[Field, ...], made: Table, name: str) -> memoryview[int]:
    at, one = _COLUMN[fields][name]
    return numbers(one, made[1][at])


def _events_of(piece: ColumnPiece, rows: list[int], file: LogFile, durable: int | None) -> Iterator[QueueEvent]:
    """What these records tell, event by event."""
    if not rows:
        return
    made = events(piece.buffer, piece.base, picked(RECORDS, piece.records, rows), file.number, b"")
    for row in rows_of(EVENTS, made):
        offset = row.pop("offset")
        is_durable = durable is None or offset < durable
        yield QueueEvent(**row, durable=is_durable, written=(file.number << FILE_BITS) + offset, node=file.node)


class _FileLook:
    def __init__(self, seen: FileSeen, wanted: LookFor, durable: int | None) -> None:
        self._seen = seen
        self._wanted = wanted
        self._durable = durable
        self._said = FileEvents(seen.file.number, durable)
        self._actors: dict[int, ActorRow] = {}  # that the file has named so far
        self._named: set[int] = set()  # those among them that somebody will ask for
        self._placed = PlacedActors()

    def take(self, piece: ColumnPiece) -> None:
        self._seen.note_times(piece)
        self._note_said(piece)
        self._placed.read(piece)
        for sought in self._wanted.sought:
            for needle in sought.needles():
                self._search(piece, needle, sought)
        for place in self._wanted.places:
            self._go_to(piece, place)
        for digest in self._wanted.digests:
            self._compare(piece, digest)
        if self._wanted.sequences:
            self._note_settles(piece)
        if self._wanted.groups:
            self._note_spans(piece)

    def end(self) -> None:
        for number in self._named:
            while number in self._actors:
                self._seen.actors[number] = self._actors[number]
                number = self._actors[number].parent

    def _note_said(self, piece: ColumnPiece) -> None:
        for one in self._said.said(piece):
            if isinstance(one, QueueName):
                note_name(self._seen.names, one)
            elif isinstance(one, ActorName):
                self._actors[one.number] = one.row
                is_consumer = bool(one.row.queue) and one.row.queue in self._wanted.consumed
                if is_consumer or (one.row.incarnation, one.number) in self._wanted.actors:
                    self._named.add(one.number)
            elif one.queue in self._wanted.groups:
                self._seen.events.append(one._replace(node=self._seen.file.node))

    # messages by their bytes

    def _search(self, piece: ColumnPiece, needle: bytes, sought: Sought) -> None:
        buffer, offsets = piece.buffer, _numbers(RECORDS, piece.records, "offset")
        at = buffer.find(needle)
        while at >= 0 and len(self._seen.found) < self._wanted.matches_max:
            row = bisect_right(offsets, piece.base + at) - 1
            behind = at + 1
            if row >= 0 and piece.kinds()[row] in _PUBLISHING:
                for found, in_body, end in self._at(piece, row, at, len(needle), sought):
                    if sought.fits(found, in_body):
                        self._keep(found)
                        behind = end
            at = buffer.find(needle, behind)

    def _at(
        self, piece: ColumnPiece, row: int, at: int, size: int, sought: Sought
    ) -> Iterator[tuple[FoundMessage, bool, int]]:
        """The message whose bytes lie there, once for each of its queues; whether it is the body that does; where it ends."""
        runs, makes = _runs(piece, row), _Maker(self._seen.file, piece, row, self._durable)
        for run in runs:
            start = run["content_at"] - piece.base
            if isinstance(sought, SuccessorOf):
                for nth, begin in makes.dead_letters(run, start):
                    yield makes.message(run, nth, begin), False, start
            elif start <= at < start + run["stored_bytes"]:
                for nth, begin, body, end in _messages(piece.buffer, start, start + run["stored_bytes"]):
                    if at < end:
                        whole = at + size <= end and (at >= body or at + size <= body) and at >= begin
                        if whole:
                            yield makes.message(run, nth, begin), at >= body, end
                        break

    # messages by their bodies

    def _compare(self, piece: ColumnPiece, digest: BodyDigest) -> None:
        for row in self._publishing_to(piece, digest.queue):
            makes = _Maker(self._seen.file, piece, row, self._durable)
            for run in _runs(piece, row):
                if run["queue"] in numbers_of(digest.queue):
                    start = run["content_at"] - piece.base
                    for nth, begin, body, end in _messages(piece.buffer, start, start + run["stored_bytes"]):
                        is_it = digest.fits_body(memoryview(piece.buffer)[body:end])
                        if is_it and len(self._seen.found) < self._wanted.matches_max:
                            self._keep(makes.message(run, nth, begin))

    def _publishing_to(self, piece: ColumnPiece, queue: int) -> list[int]:
        """Records of a piece that say what came to this queue."""
        classic, group = numbers_of(queue)
        made = publishes(piece.buffer, piece.base, piece.records, b"")
        columns = [_numbers(PUBLISHES, made, name) for name in ("queue", "offset")]
        offsets, kinds = _numbers(RECORDS, piece.records, "offset"), piece.kinds()
        rows = {bisect_left(offsets, offset) for number, offset in zip(*columns, strict=True) if number == classic}
        writers = _numbers(RECORDS, piece.records, "writer")
        rows.update(row for row, one in enumerate(writers) if one == group and kinds[row] == Kind.RAFT_ENTRIES)
        return sorted(rows)

    # messages by their places

    def _go_to(self, piece: ColumnPiece, place: AtPlace) -> None:
        for queue in self._queues_of(place):
            name = self._seen.names.get(queue)
            if name is None or name.kind == QUORUM:
                self._go_to_entry(piece, queue, place)
            if name is None or name.kind != QUORUM:
                self._go_to_sequence(piece, queue, place)

    def _queues_of(self, place: AtPlace) -> list[int]:
        if place.queue is not None:
            return [place.queue, place.queue | QUEUE_GROUPS]
        return [number for number, one in self._seen.names.items() if place.is_of(one.name)]

    def _go_to_sequence(self, piece: ColumnPiece, queue: int, place: AtPlace) -> None:
        sequence = place.pos + (place.nth or 0)
        made = publishes(piece.buffer, piece.base, piece.records, b"")
        columns = [_numbers(PUBLISHES, made, name) for name in ("queue", "pos", "count", "offset")]
        offsets = _numbers(RECORDS, piece.records, "offset")
        for _, first, _, offset in (
            one for one in zip(*columns, strict=True) if one[0] == queue and one[1] <= sequence < one[1] + one[2]
        ):
            self._keep_of(piece, bisect_left(offsets, offset), queue, first, 0, sequence - first)

    def _go_to_entry(self, piece: ColumnPiece, queue: int, place: AtPlace) -> None:
        kinds, indexes = piece.kinds(), _numbers(RECORDS, piece.records, "index")
        for row, writer in enumerate(_numbers(RECORDS, piece.records, "writer")):
            if writer == queue and kinds[row] == Kind.RAFT_ENTRIES and indexes[row] <= place.pos:
                self._keep_of(piece, row, queue, place.pos, place.off, place.nth)

    def _keep_of(self, piece: ColumnPiece, row: int, queue: int, pos: int, off: int | None, nth: int | None) -> None:
        """Those of a record's messages that are at this place."""
        makes = _Maker(self._seen.file, piece, row, self._durable)
        for run in _runs(piece, row):
            if (run["queue"], run["pos"]) == (queue, pos) and off in (None, run["off"]):
                start = run["content_at"] - piece.base
                for number, begin, _, _ in _messages(piece.buffer, start, start + run["stored_bytes"]):
                    if nth in (None, number) and len(self._seen.found) < self._wanted.matches_max:
                        self._keep(makes.message(run, number, begin))

    def _keep(self, found: FoundMessage) -> None:
        if all(one.place != found.place or one.term != found.term for one in self._seen.found):
            if found.incarnation is None:
                found = found._replace(publisher=tuple(self._placed.owners_at(found.offset, found.actor)))
            elif found.actor is not None:
                self._named.add(found.actor)
            self._seen.found.append(found)

    # what became of messages

    def _note_settles(self, piece: ColumnPiece) -> None:
        made = settles(piece.buffer, piece.base, piece.records, b"")
        columns = [_numbers(SETTLES, made, name) for name in ("queue", "first", "count", "outcome", "offset")]
        hits: set[int] = set()
        wanted: dict[int, list[int]] = {}
        for queue, sequence in self._wanted.sequences:
            wanted.setdefault(queue, []).append(sequence)
        for queue, first, count, outcome, offset in zip(*columns, strict=True):
            if queue in wanted and (outcome == DELETED or any(first <= one < first + count for one in wanted[queue])):
                hits.add(offset)
        offsets = _numbers(RECORDS, piece.records, "offset")
        rows = [bisect_left(offsets, one) for one in hits] + self._rows_of_out(piece, wanted)
        rows += _checkpoints_of(piece, wanted)
        for event in _events_of(piece, sorted(rows), self._seen.file, self._durable):
            self._seen.events.append(event)
            if event.kind in _REASONED:
                offset = event.place & (1 << FILE_BITS) - 1
                self._seen.whose[event.place] = self._placed.owners_at(offset, _reasoned(event)[0])

    def _rows_of_out(self, piece: ColumnPiece, wanted: dict[int, list[int]]) -> list[int]:
        """Records that say who was given them; no table has those."""
        found = []
        for row in (one.start() for one in _OUT.finditer(piece.kinds())):
            for event in _events_of(piece, [row], self._seen.file, self._durable):
                sequences = wanted.get(event.queue, ())
                if any(first <= one < end for one in sequences for first, end in _reasoned(event)[1]):
                    found.append(row)
        return found

    def _note_spans(self, piece: ColumnPiece) -> None:
        kinds, indexes = piece.kinds(), _numbers(RECORDS, piece.records, "index")
        lasts: dict[int, int] = {}  # by group, the row of the last entries
        for row, writer in enumerate(_numbers(RECORDS, piece.records, "writer")):
            if writer in self._wanted.groups and kinds[row] == Kind.RAFT_ENTRIES:
                low, high = self._seen.spans.get(writer, (indexes[row], indexes[row]))
                self._seen.spans[writer] = (min(low, indexes[row]), max(high, indexes[row]))
                if indexes[row] == self._seen.spans[writer][1]:
                    lasts[writer] = row
        for writer, row in lasts.items():
            (record,) = rows_of(RECORDS, picked(RECORDS, piece.records, [row]))
            start = record["offset"] - piece.base + HEADER_BYTES
            with suppress(BadBytes):
                count = count_in(memoryview(piece.buffer)[start : start + record["size"]])
                low, high = self._seen.spans[writer]
                self._seen.spans[writer] = (low, max(high, record["index"] + count - 1))


def _checkpoints_of(piece: ColumnPiece, queues: Container[int]) -> list[int]:
    """Records that say what these had: what was out when a node was killed is ready there, and nothing else says so."""
    numbers_of_queues = _numbers(RECORDS, piece.records, "index")
    return [at for one in _CHECKPOINT.finditer(piece.kinds()) if numbers_of_queues[at := one.start()] in queues]


class _Maker:
    """Messages of one record."""

    def __init__(self, file: LogFile, piece: ColumnPiece, row: int, durable: int | None) -> None:
        self._file, self._piece = file, piece
        self._record = picked(RECORDS, piece.records, [row])
        (self._head,) = rows_of(RECORDS, self._record)
        self._parts = rows_of(ORIGINS, origins(piece.buffer, piece.base, self._record, _group_of(self._head)))
        self._events = (
            list(_events_of(piece, [row], file, durable)) if self._head["kind"] == Kind.CLASSIC_PUBLISH else []
        )

    def _parts_of(self, run: dict[str, Any]) -> list[dict[str, Any]]:
        entry = None if run["session_inc"] is None else run["pos"]
        return [one for one in self._parts if (one["entry"], one["off"]) == (entry, run["off"])]

    def dead_letters(self, run: dict[str, Any], start: int) -> Iterator[tuple[int, int]]:
        """The how manieth messages of a run, and where in the piece they begin: those that may have died elsewhere."""
        if run["src_queue"] is not None:
            yield 0, start
            return
        firsts = {one["nth"] for one in self._parts_of(run) if one["src_queue"] is not None}
        for nth, begin, _, _ in _messages(self._piece.buffer, start, start + run["stored_bytes"]) if firsts else ():
            if nth in firsts:
                yield nth, begin

    def message(self, run: dict[str, Any], nth: int, at: int) -> FoundMessage:
        """That begins at this byte of the piece."""
        buffer, head, record = self._piece.buffer, self._head, run
        props_len, body_len = _MESSAGE.unpack_from(buffer, at)
        part = next((one for one in self._parts_of(run) if one["nth"] <= nth < one["nth"] + one["count"]), None)
        number = None if part is None or part["publish_no"] is None else part["publish_no"] + nth - part["nth"]
        said = record if part is None else part  # who has a part and who died stand together, or at the run
        died = (
            None if said["src_queue"] is None else tuple(said[f"src_{one}"] for one in ("queue", "pos", "off", "nth"))
        )
        confirm = part["confirm"] if part is not None and part["actor"] else record["confirm"]
        event = next((one for one in self._events if one.queue == record["queue"]), None)
        return FoundMessage(
            MessagePlace(record["queue"], record["pos"], record["off"], nth),
            self._file.node,
            self._file.number,
            head["offset"],
            head["kind"],
            head["term"],
            record["time"],
            bytes(record["exchange"]).decode("utf-8", "surrogateescape"),
            bytes(record["routing_key"]).decode("utf-8", "surrogateescape"),
            None if confirm is None else bool(confirm),
            None if part is None else part["actor"] or None,
            record["session_inc"],
            number,
            record["expires_at"],
            body_len,
            died,
            said["src_reason"],
            bytes(buffer[at + _MESSAGE.size : at + _MESSAGE.size + props_len]),
            event,
        )


def _runs(piece: ColumnPiece, row: int) -> list[dict[str, Any]]:
    """What this record publishes."""
    one = picked(RECORDS, piece.records, [row])
    return rows_of(PUBLISHES, publishes(piece.buffer, piece.base, one, _group_of(rows_of(RECORDS, one)[0])))


def _group_of(record: dict[str, Any]) -> bytes:
    """As the kernel takes the ids of groups."""
    return bytes((record["writer"] & (1 << 64) - 1).to_bytes(8, "little"))


def _messages(buffer: bytes, start: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Of a content each message: the how manieth, where it begins, where its body does, and where it ends."""
    nth = 0
    while end - start >= _MESSAGE.size:
        props_len, body_len = _MESSAGE.unpack_from(buffer, start)
        body = start + _MESSAGE.size + props_len
        if body + body_len > end:
            return
        yield nth, start, body, body + body_len
        nth, start = nth + 1, body + body_len
