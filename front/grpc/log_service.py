"""The part of leveret.v1.Admin that is about the log of the node: its files, with or without contents, and its records."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

from broker.errors import NotSupported
from broker.operations.operator import ADMINISTRATOR
from front.grpc.call import Context, Front, answers_errors
from front.grpc.caller import operator
from leveret.v1 import admin_pb2 as pb

LISTED_AT_ONCE = 500  # files in one message: 2 ms of a turn


class LogSource(NamedTuple):
    """Whose log it is."""

    node: str
    log_id: bytes


class LogFileView(NamedTuple):
    """A file of the log, or a snapshot. See admin.proto."""

    name: str
    size: int
    first_us: int
    last_us: int
    open: bool


@dataclass(slots=True, frozen=True)
class LogView:
    """What the node has."""

    source: LogSource
    first_us: int
    gaps: Sequence[tuple[int, int]]
    files: Sequence[LogFileView]


class WantedFile(NamedTuple):
    """A file of an export, and how much of it is there already."""

    name: str
    offset: int = 0
    sha256: bytes = b""


class LogBegin(NamedTuple):
    """What follows are bytes of this file, from this place on."""

    name: str
    offset: int


class LogWhole(NamedTuple):
    """The file has come, up to its durable end."""

    size: int
    sha256: bytes
    open: bool


class LogUnread(NamedTuple):
    """The file does not come, or no more of it."""

    name: str
    reason: str
    gone: bool = False


LogPart: TypeAlias = LogBegin | bytes | LogWhole | LogUnread


class LogPort(Protocol):
    """What the service needs of the node; node/exporting/log_export.py fulfils it. Raises ResourceExhausted."""

    async def listing(self) -> LogView: ...

    def parts(
        self, wanted: Sequence[WantedFile], *, without_bodies: bool, bytes_per_s_max: int
    ) -> AsyncGenerator[LogPart, None]:
        """`bytes_per_s_max`: 0 is the node's own limit."""

    def rows(self, *, from_us: int, queue: str, follow: bool) -> AsyncGenerator[Sequence[str], None]:
        """Records as JSON objects; `queue`: of all queues if it is empty."""


class LogMethods:
    """Mixed into AdminService."""

    front: Front
    log: LogPort | None

    def _log_port(self) -> LogPort:
        operator().require_tag(ADMINISTRATOR)
        if self.log is None:
            raise NotSupported("this node has no log")
        return self.log

    @answers_errors
    async def ListLog(self, request: pb.ListLogRequest, context: Context) -> None:
        view = await self._log_port().listing()
        for at in range(0, max(1, len(view.files)), LISTED_AT_ONCE):
            listed = pb.LogListing(
                node=view.source.node,
                log_id=view.source.log_id,
                files=map(_file, view.files[at : at + LISTED_AT_ONCE]),
            )
            if not at:
                listed.first_us = view.first_us
                listed.gaps.extend(pb.LogGap(first=first, last=last) for first, last in view.gaps)
            await context.write(listed)

    @answers_errors
    async def ExportLog(self, request: pb.ExportLogRequest, context: Context) -> None:
        port = self._log_port()
        wanted = [WantedFile(one.name, one.offset, one.sha256) for one in request.files]
        parts = port.parts(wanted, without_bodies=request.without_bodies, bytes_per_s_max=request.bytes_per_second_max)
        async with aclosing(parts):
            async for part in parts:
                await context.write(_piece(part))

    @answers_errors
    async def DumpLog(self, request: pb.DumpLogRequest, context: Context) -> None:
        found = self._log_port().rows(from_us=request.from_us, queue=request.queue, follow=request.follow)
        async with aclosing(found):
            async for rows in found:
                await context.write(pb.LogRows(rows=rows))


def _file(file: LogFileView) -> pb.LogFile:
    return pb.LogFile(name=file.name, bytes=file.size, first_us=file.first_us, last_us=file.last_us, open=file.open)


def _piece(part: LogPart) -> pb.LogPiece:
    match part:
        case LogBegin():
            return pb.LogPiece(begin=pb.LogFileBegin(**part._asdict()))
        case LogWhole():
            return pb.LogPiece(end=pb.LogFileEnd(bytes=part.size, sha256=part.sha256, open=part.open))
        case LogUnread():
            return pb.LogPiece(unread=pb.LogFileUnread(**part._asdict()))
    return pb.LogPiece(data=part)
