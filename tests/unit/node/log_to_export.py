"""A log with all that an export has to deal with, in a real directory; every content has SECRET in it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from broker.catalog.commands.catalog_commands import DeclareQueue, PutUser, encode_command
from broker.catalog.commands.metadata_entry import METADATA_GROUP, Origin, WhenAndWho, encode_entry
from broker.records import UserRecord
from classic.store.log_records import encode_published
from native import content
from node.exporting.log_listing import DurableEnd
from quorum.fifo.commands import SessionKey, encode_enqueue, entry_head
from raft.core import packs
from raft.core.messages import EntryKind
from storage.disk import Buffer
from storage.history.name_records import NameRow, encode_name
from storage.names import ARCHIVE_DIRECTORY, log_file
from storage.os_disk import OsDisk
from storage.record import Kind
from storage.wal.facts import load_or_create
from storage.wal.log_core import LogCore, LogEnd
from storage.wal.writer import LogWriter
from tests.sim.clock import SimLoop
from tests.unit.storage.log_world import LOG_ID

QUORUM_GROUP, STREAM_GROUP, UNNAMED_GROUP = 1 << 32, (1 << 32) + 1, (1 << 32) + 2
FILE_BYTES = 2_000
CONTENT = content.encode(b"\x20\x00\0\0\0\x0eSECRET HEADERS", b"SECRET body") * 3
QUORUM_ENTRY = entry_head(1_700_000_000_000) + b"".join(
    encode_enqueue(SessionKey(1, 9), 1, 3, 33, "SHOWN.exchange", "SHOWN.key", CONTENT)
)
ORIGIN = Origin(2, 9, 5, 4)
PUT_USER = encode_entry(
    ORIGIN, encode_command(PutUser(UserRecord("ann", "SECRET hash"))), WhenAndWho(1_700_000_000_000, 7)
)
DECLARE = encode_entry(ORIGIN, encode_command(DeclareQueue("/", "q")), WhenAndWho(1_700_000_000_000, 7))


class LogToExport:
    """A log that is written with commits when the test says so. `now_us` goes on by a second with each mark."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.disk = OsDisk(str(root))
        self.now_us = 1_700_000_000_000_000
        core = LogCore(LOG_ID, LogEnd(0, 0, 0), FILE_BYTES, self._wall_us)
        facts = load_or_create(self.disk, LOG_ID)
        self.log = LogWriter(core, self.disk, SimLoop(), facts, on_failed=pytest.fail, commit_inline_bytes_max=None)
        self.published = 0

    @property
    def durable(self) -> DurableEnd:
        return DurableEnd(*self.log.durable_end)

    def _wall_us(self) -> int:
        self.now_us += 1_000_000
        return self.now_us

    def write(
        self, kind: int, writer: int, index: int, payload: Sequence[Buffer], flags: int = 0, term: int = 0
    ) -> None:
        self.log.append(kind, writer, index, payload, flags, term)
        self.log.commit_now()

    def publish(self, count: int = 1) -> None:
        """To a classic queue."""
        for _ in range(count):
            head = encode_published([(7, self.published)], 0, 3, 33, None, "SHOWN.exchange", "SHOWN.key")
            self.published += 3
            self.write(Kind.CLASSIC_PUBLISH, 0, self.published, [head, CONTENT])

    def every_kind(self) -> None:
        self.publish()
        self.write(Kind.NAME, 0, QUORUM_GROUP, [encode_name(NameRow("quorum", "/", "q"))])
        self.write(Kind.NAME, 0, STREAM_GROUP, [encode_name(NameRow("stream", "/", "s"))])
        for group, entries in (
            (QUORUM_GROUP, [QUORUM_ENTRY, QUORUM_ENTRY]),
            (STREAM_GROUP, [b"SECRET chunk", b"SECRET"]),
            (UNNAMED_GROUP, [QUORUM_ENTRY]),
            (METADATA_GROUP, [PUT_USER, DECLARE]),
        ):
            self.write(Kind.RAFT_ENTRIES, group, 5, [packs.encode(entries)], EntryKind.COMMAND, 3)
        self.write(Kind.RAFT_ENTRIES, UNNAMED_GROUP, 6, [packs.encode([b"SHOWN who leads"])], EntryKind.NOOP, 3)
        self.write(200, 0, 0, [b"SECRET of a later build"])

    def archive(self, number: int) -> None:
        (self.root / ARCHIVE_DIRECTORY).mkdir(exist_ok=True)
        (self.root / log_file(number)).rename(self.root / ARCHIVE_DIRECTORY / Path(log_file(number)).name)
