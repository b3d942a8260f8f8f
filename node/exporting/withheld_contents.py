"""Records of the log without the contents of messages, for readers who may know of messages, not what they say. A core.

Contents become zeros where they are, and the record is sealed anew. So every length, offset and mark stays true, and what
reads the log reads this as well: only the contents are unknown.

    CLASSIC_PUBLISH            zeros in place of the properties and the body of each message; how long they are stays
    RAFT_ENTRIES of a quorum   the same in each ENQUEUE op
      queue
    RAFT_ENTRIES of the        zeros in place of each command that holds a password's hash or the value of a parameter
      catalog
    other RAFT_ENTRIES         zeros in place of each command: streams, and groups that the file does not name

Whatever is not known to be without contents is withheld as a whole: records of kinds that are not listed here, and bytes
that are no record. One file is to be given from its beginning on, for what its groups are is said there.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

from broker.catalog.commands import catalog_commands as commands
from broker.catalog.commands.catalog_commands import UnknownVersion
from broker.catalog.commands.metadata_entry import METADATA_GROUP, decode_whole, head_bytes
from native.columns import Column, row_of, values
from native.log_columns import publishes
from native.log_tables import PUBLISHES, RECORDS
from native.message_columns import MESSAGES, messages
from raft.core.byte_reader import ByteReader
from raft.core.errors import BadBytes
from raft.core.messages import EntryKind
from raft.store.group_records import read_identity
from storage.history.column_reader import ColumnPiece
from storage.history.name_records import decode_name
from storage.record import HEADER, HEADER_BYTES, Kind, seal

QUORUM = "quorum"  # as groups of quorum queues call their machine

# Kinds whose payload is known to hold nothing of a message.
WITHOUT_CONTENTS = frozenset(
    {
        Kind.MARK, Kind.ROLL, Kind.CLASSIC_SETTLE, Kind.CLASSIC_PURGE, Kind.CLASSIC_QUEUE_DELETED, Kind.CLASSIC_DONE,
        Kind.CLASSIC_BACK, Kind.CLASSIC_OUT, Kind.CLASSIC_CHECKPOINT, Kind.RAFT_FACTS, Kind.RAFT_GROUP, Kind.RAFT_GROUP_REMOVED,
        Kind.RAFT_RENUMBERED, Kind.RAFT_SNAPSHOT, Kind.RAFT_PLACE, Kind.RAFT_COMMIT, Kind.ACTOR, Kind.ACTOR_GONE, Kind.NAME,
        Kind.COUNTS, Kind.STREAM_READERS,
    }
)  # fmt: skip


def _any_of(kinds: frozenset[Kind], *, other: bool = False) -> re.Pattern[bytes]:
    return re.compile(
        b"[%s%s]" % (b"^" if other else b"", b"".join(re.escape(bytes([kind])) for kind in sorted(kinds))), re.S
    )


_WITH_CONTENTS = _any_of(WITHOUT_CONTENTS, other=True)
_NAMES = _any_of(frozenset({Kind.NAME, Kind.RAFT_GROUP}))
_OFFSET = next(at for at, one in enumerate(RECORDS) if one.name == "offset")
_RUN = [
    next(at for at, one in enumerate(PUBLISHES) if one.name == name)
    for name in ("offset", "content_at", "stored_bytes", "count")
]
_MESSAGE = [
    next(at for at, one in enumerate(MESSAGES) if one.name == name)
    for name in ("run", "props_at", "body_at", "body_bytes")
]
_COUNT = struct.Struct("<I")

Span = tuple[int, int]  # where it begins in the buffer, and where it ends


class WithheldContents:
    """Of one file. See the module."""

    def __init__(self) -> None:
        self._quorum_groups: set[int] = set()  # as far as was read

    def of(self, piece: ColumnPiece) -> bytes:
        """The whole records of the next piece."""
        kinds = piece.kinds()
        self._learn(piece, kinds)
        last = row_of(RECORDS, piece.records, piece.records[0] - 1)
        made = bytearray(piece.buffer[: last["offset"] - piece.base + HEADER_BYTES + last["size"]])
        rows = [found.start() for found in _WITH_CONTENTS.finditer(kinds)]
        if rows:
            offsets = values(RECORDS[_OFFSET], piece.records[0], piece.records[1][_OFFSET])
            contents = self._contents(piece)
            for row in rows:
                self._withhold(made, offsets[row] - piece.base, contents)
        return bytes(made)

    def _learn(self, piece: ColumnPiece, kinds: bytes) -> None:
        """Which groups are quorum queues."""
        for found in _NAMES.finditer(kinds):
            record = row_of(RECORDS, piece.records, found.start())
            start = record["offset"] - piece.base + HEADER_BYTES
            payload = piece.buffer[start : start + record["size"]]
            try:
                if record["kind"] == Kind.NAME:
                    group, machine = record["index"], decode_name(payload).kind
                else:
                    group, machine = record["writer"], read_identity(record["writer"], ByteReader(payload)).machine
            except (ValueError, IndexError, BadBytes, struct.error):
                continue
            if machine == QUORUM:
                self._quorum_groups.add(group)

    def _contents(self, piece: ColumnPiece) -> dict[int, list[Span]]:
        """Where properties and bodies lie, by the place of their record, both in the buffer."""
        groups = b"".join(group.to_bytes(8, "little") for group in sorted(self._quorum_groups))
        rows, columns = publishes(piece.buffer, piece.base, piece.records, groups)
        offsets, starts, sizes, counts = (columns[at] for at in _RUN)
        of_record = values(PUBLISHES[_RUN[0]], rows, offsets)
        found: dict[int, list[Span]] = {}
        framed = set()
        made, parts = messages(piece.buffer, piece.base, _numbers(starts), _numbers(sizes), _numbers(counts))
        for run, begin, body, size in zip(*(values(MESSAGES[at], made, parts[at]) for at in _MESSAGE), strict=True):
            framed.add(run)
            found.setdefault(of_record[run] - piece.base, []).append((begin - piece.base, body + size - piece.base))
        whole = zip(of_record, *(values(PUBLISHES[at], rows, columns[at]) for at in _RUN[1:3]), strict=True)
        for run, (offset, start, size) in enumerate(whole):
            if run not in framed:  # its lengths are not those of messages
                found.setdefault(offset - piece.base, []).append((start - piece.base, start - piece.base + size))
        return found

    def _withhold(self, made: bytearray, at: int, contents: dict[int, list[Span]]) -> None:
        _, size, kind, version, flags, term, writer, index = HEADER.unpack_from(made, at)
        start = at + HEADER_BYTES
        payload = (start, start + size)
        if kind == Kind.RAFT_ENTRIES:
            if flags != EntryKind.COMMAND:
                return  # who leads, who votes
            if writer in self._quorum_groups:
                spans = contents.get(at, [])
            else:
                spans = list(_commands(made, payload, all_of_them=writer != METADATA_GROUP))
        else:
            spans = contents.get(at) or [payload]  # a publish without its content is one that was not understood
        for begin, end in spans:
            made[begin:end] = bytes(end - begin)
        if spans:
            sealed = [memoryview(made)[start : start + size]]
            header = seal(sealed, kind, flags, term, writer, index, version)
            sealed[0].release()
            made[at:start] = header


def _numbers(column: Column) -> bytes:
    numbers = column[1]
    assert numbers is not None, "a column without values"
    return numbers


def _commands(made: bytearray, payload: Span, *, all_of_them: bool) -> Iterator[Span]:
    """What is withheld of a pack of commands (raft/core/packs.py): those of the catalog that hold secrets, or all."""
    start, end = payload
    count = _COUNT.unpack_from(made, start)[0] if end - start >= _COUNT.size else 0
    at = start + _COUNT.size * (1 + count)
    lengths = struct.unpack_from(f"<{count}I", made, start + _COUNT.size) if at <= end else ()
    if at + sum(lengths) != end or all_of_them:
        yield (min(at, end), end) if at <= end else payload
        return
    for length in lengths:
        entry = bytes(made[at : at + length])
        if _is_secret(entry):
            yield at + min(head_bytes(entry), length), at + length
        at += length


def _is_secret(entry: bytes) -> bool:
    try:
        command = decode_whole(entry)[2]
    except UnknownVersion:
        return True
    return isinstance(command, (commands.PutUser, commands.SetParameter))
