"""The log of a node, for administrators: its files, and its records. docs/history.md says what they tell.

    listing = await node.log.listing()
    wanted = [WantedLogFile(file.name) for file in listing.files]
    async for part in node.log.export(wanted):      # of each file LogBegin, bytes ..., LogEnd
        ...

All of it is of the node that answers: with several addresses, compare `node` and `log_id` of the listing. `leveretctl wal
export` writes a directory, goes on after a broken connection, and verifies what came.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from leveret.records import LogFile, LogGap, LogListing, from_stub
from leveret.requests import NodeRequests
from leveret.v1 import admin_pb2 as pb

ADMIN = "admin"


@dataclass(slots=True, frozen=True)
class WantedLogFile:
    """Which file, and what of it is there already: the bytes before `offset`, of which this is the checksum."""

    name: str
    offset: int = 0
    sha256: bytes = b""


@dataclass(slots=True, frozen=True)
class LogBegin:
    """What follows are bytes of this file from this place on, which is the one asked for, or 0. The name is where it is now."""

    name: str
    offset: int


@dataclass(slots=True, frozen=True)
class LogEnd:
    """The file has come as far as the node has it durably. Size and checksum are of all of it."""

    size: int
    sha256: bytes
    open: bool  # the node writes to it


@dataclass(slots=True, frozen=True)
class LogUnread:
    """The file does not come, or no more of it."""

    name: str
    reason: str
    gone: bool  # the node has deleted it


LogPart: TypeAlias = LogBegin | bytes | LogEnd | LogUnread


class NodeLog:
    """`node.log`. Raises LeveretError."""

    def __init__(self, node: NodeRequests) -> None:
        self._node = node

    async def listing(self) -> LogListing:
        found: LogListing | None = None
        async with aclosing(self._node.answers(ADMIN, "ListLog", pb.ListLogRequest())) as answers:
            async for answer in answers:
                files = tuple(from_stub(LogFile, file) for file in answer.files)
                if found is None:
                    gaps = tuple(from_stub(LogGap, gap) for gap in answer.gaps)
                    found = LogListing(answer.node, answer.log_id.hex(), answer.first_us, gaps, files)
                else:
                    found = replace(found, files=found.files + files)
        assert found is not None, "a listing of a log without its first message"
        return found

    async def export(
        self, files: Iterable[WantedLogFile], *, without_bodies: bool = False, bytes_per_s_max: int = 0
    ) -> AsyncGenerator[LogPart, None]:
        """`bytes_per_s_max`: 0 is the node's own limit."""
        wanted = [pb.WantedLogFile(name=one.name, offset=one.offset, sha256=one.sha256) for one in files]
        request = pb.ExportLogRequest(files=wanted, without_bodies=without_bodies, bytes_per_second_max=bytes_per_s_max)
        async with aclosing(self._node.answers(ADMIN, "ExportLog", request)) as answers:
            async for answer in answers:
                yield _part(answer)

    async def rows(
        self, *, from_us: int = 0, queue: str = "", follow: bool = False
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Records, without the contents of messages; of one queue, or of all. With `follow` it never ends."""
        request = pb.DumpLogRequest(from_us=from_us, queue=queue, follow=follow)
        async with aclosing(self._node.answers(ADMIN, "DumpLog", request)) as answers:
            async for answer in answers:
                for row in answer.rows:
                    yield json.loads(row)


def _part(piece: pb.LogPiece) -> LogPart:
    match piece.WhichOneof("piece"):
        case "begin":
            return LogBegin(piece.begin.name, piece.begin.offset)
        case "end":
            return LogEnd(piece.end.bytes, piece.end.sha256, piece.end.open)
        case "unread":
            return LogUnread(piece.unread.name, piece.unread.reason, piece.unread.gone)
    return piece.data
