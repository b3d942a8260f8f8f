"""What the logs of nodes tell of each message of a stream, and what that has to be by what clients wrote down."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from analytics.file_window import FileWindow, entries_of, looked_through
from analytics.fold.lives import LifeState
from analytics.fold.stream_log import StreamLog
from analytics.inputs import LogFile, log_files
from analytics.jobs.answer import EXIT_HOLDS
from analytics.jobs.proof import ProofRow, code_of
from analytics.streams.stream_copies import StreamsRead, read_streams
from analytics.streams.stream_proof import stream_proofs
from analytics.streams.stream_rows import StreamRow, stream_rows
from raft.core.messages import EntryKind
from stream.chunks.chunk import CHUNK_HEADER_BYTES, items_in
from stream.chunks.entries import ChunkEntry, decode
from tests.ledger.notes import SKEW_S
from tests.ledger.plain_proof import looked_at
from tests.ledger.stream_clients import StreamNote, StreamNotes
from wire.amqp10.from_amqp10 import from_amqp10


class ToldMessage(NamedTuple):
    """One message, as the log has it."""

    offset: int
    body: str
    at: float  # s
    state: LifeState


class ToldStream(NamedTuple):
    """One stream: its messages by offset, and what the commands answer."""

    messages: list[ToldMessage]
    log: StreamLog
    proof: ProofRow
    rows: list[StreamRow]


def told_streams(data: Path) -> dict[str, ToldStream]:
    """By name without the virtual host."""
    files = log_files([str(data)])
    read = read_streams(files, looked_at, tail=False)
    proofs = {row.queue: row for row in stream_proofs(files, looked_at, tail=False)}
    rows = stream_rows(read.streams)
    bodies = _bodies_in(read)
    found = {}
    for one in read.streams:
        log = one.folded()
        messages = list(_messages(one.group, log, bodies))
        mine = [row for row in rows if row.name == one.name]
        found[one.name.rpartition("/")[2]] = ToldStream(messages, log, proofs[one.group], mine)
    return found


def _bodies_in(read: StreamsRead) -> dict[tuple[int, int, int], list[str]]:
    """By group, entry and term."""
    groups = {one.group for one in read.streams}
    return {place: bodies for file in read.files for place, bodies in _bodies_of(file, groups)}


def _bodies_of(file: LogFile, groups: set[int]) -> Iterator[tuple[tuple[int, int, int], list[str]]]:
    for looked in looked_through(FileWindow(file), tail=False):
        for group, entry, _, _ in entries_of(looked, groups):
            said = decode(entry.data) if entry.kind == EntryKind.COMMAND else None
            if isinstance(said, ChunkEntry):
                items = items_in(said.chunk[CHUNK_HEADER_BYTES:], said.header.item_count)
                bodies = [from_amqp10(bytes(item)).body.decode() for item in items if isinstance(item, memoryview)]
                yield (group, entry.index, entry.term), bodies


def _messages(group: int, log: StreamLog, bodies: dict[tuple[int, int, int], list[str]]) -> Iterator[ToldMessage]:
    for chunk in log.chunks:
        told = bodies.get((group, chunk.entry, chunk.term), ["?"] * chunk.messages)
        for nth, body in enumerate(told):
            yield ToldMessage(chunk.first_offset + nth, body, (chunk.time_ms or 0) / 1000, chunk.state)


def compared_streams(
    notes: list[StreamNotes], told: dict[str, ToldStream], read: dict[str, dict[int, str]]
) -> list[str]:
    """Row by row: a sentence for each difference. `read`: what readers found at the end, by offset."""
    found = [f"{name} is in the log, and nobody declared it" for name in told.keys() - {one.stream for one in notes}]
    for one in notes:
        if one.stream not in told:
            found.append(f"{one.stream} is in no log")
            continue
        here = told[one.stream]
        wrong = [
            *_of_messages(one, here), *_of_order(one, here), *_of_reading(here, read[one.stream]), *_of_answers(one, here),
        ]  # fmt: skip
        found += [f"{one.stream}: {sentence}" for sentence in wrong]
    return found


def _of_messages(notes: StreamNotes, told: ToldStream) -> Iterator[str]:
    by_body: dict[str, list[ToldMessage]] = {}
    for message in told.messages:
        by_body.setdefault(message.body, []).append(message)
    yield from (
        f"{body[:40]} is in the log, and nobody published it" for body in by_body.keys() - notes.messages.keys()
    )
    for body, note in notes.messages.items():
        rows = by_body.get(body, [])
        least = int(note.confirmed_at is not None)
        if not least <= len(rows) <= 1:
            yield f"{body[:40]} is in the log {len(rows)} times, and should be {least} to 1 times"
        elif rows and not _is_when(note, rows[0]):
            yield f"{body[:40]} was published from {note.sent_at} to {note.confirmed_at}, the log says {rows[0].at}"


def _is_when(note: StreamNote, message: ToldMessage) -> bool:
    return note.sent_at - SKEW_S <= message.at <= (note.confirmed_at or float("inf")) + SKEW_S


def _of_order(notes: StreamNotes, told: ToldStream) -> Iterator[str]:
    offsets = [message.offset for message in told.messages]
    if offsets != list(range(len(offsets))):
        yield "its offsets have gaps, or come twice"
    places = {body: number for number, body in enumerate(notes.messages)}
    by_publisher: dict[str, list[int]] = {}
    for message in told.messages:
        if message.body in places:
            by_publisher.setdefault(notes.messages[message.body].publisher, []).append(places[message.body])
    for publisher, said in by_publisher.items():
        if any(late <= early for early, late in pairwise(said)):
            yield f"messages of {publisher} are out of order"


def _of_reading(told: ToldStream, read: dict[int, str]) -> Iterator[str]:
    kept = {message.offset: message.body for message in told.messages if message.state is LifeState.KEPT}
    if kept != read:
        yield f"readers found offsets {_span(read)}, and the log tells of {_span(kept)}, or their bodies differ"


def _span(found: dict[int, str]) -> str:
    return f"{min(found)} to {max(found)}" if found else "none"


def _of_answers(notes: StreamNotes, told: ToldStream) -> Iterator[str]:
    """What the commands say, against the messages."""
    messages, proof, row = told.messages, told.proof, told.rows[0]
    cut = sum(message.state is LifeState.CUT for message in messages)
    if code_of(proof) != EXIT_HOLDS or (proof.promised, proof.cut, proof.present) != (
        len(messages), cut, len(messages) - cut,
    ):  # fmt: skip
        yield f"{len(messages)} messages, of which {cut} were cut, and the proof is {proof}"
    if (row.messages, row.next_offset or 0, row.unknown) != (len(messages), len(messages), None):
        yield f"{len(messages)} messages, and `streams` answers {row}"
    for reference, said in notes.named.items():
        last = told.log.machine.state.publisher_id(reference)
        if last != len(said):
            yield f"{reference} has said {len(said)} messages, the log knows it up to number {last}"
    stored = {one.reference: one for one in told.rows if one.reference is not None}
    for reference, most in notes.asked_to_store.items():
        least, one = notes.stored.get(reference, -1), stored.get(reference)
        offset = -1 if one is None or one.stored_offset is None else one.stored_offset
        if not least <= offset <= most or (one is not None and one.went_back):
            yield f"{reference} has stored {least} to {most}, `streams` answers {one}"
