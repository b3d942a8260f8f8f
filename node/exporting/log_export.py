"""The driver of exports: reads the files of the log beside the event loop, for as many clients as may read at a time.

All work on files is done in one thread, a small piece at a time, and all readers together keep to one rate: what is read
takes disk, and the interpreter, from those who publish.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from broker.errors import ConnectionForced, ResourceExhausted
from broker.login.audit import Audit
from front.grpc.log_service import LogFileView, LogPart, LogSource, LogView, LogWhole, WantedFile
from node.background import Background
from node.exporting.file_feed import WITHHELD_PIECE_BYTES
from node.exporting.log_listing import DurableEnd, ListedFile, LogInventory, list_log
from node.exporting.log_rows import LogDirectory, Row, iso_time
from node.exporting.pace import Pace
from node.exporting.queue_rows import QueueRows
from node.exporting.transfer import transfer
from storage.errors import StorageError
from storage.names import LOG_SUFFIX, number_of
from storage.os_disk import OsDisk

READERS_MAX = 4
ROWS_AT_ONCE = 100  # made in one go: 2 ms
ROW_PRICE_BYTES = 4_096  # for the rate: a row takes as much of the interpreter as so many bytes that are sealed anew
FOLLOW_PAUSE_S = 0.2

T = TypeVar("T")


@dataclass(slots=True)
class ExportFigures:
    """For metrics."""

    readers: int = 0
    files: int = 0
    bytes: int = 0


class LogExports:
    """Fulfils front.grpc.log_service.LogPort. All of it belongs to the event loop's thread."""

    def __init__(
        self,
        disk: OsDisk,
        thread: Background,
        source: LogSource,
        audit: Audit,
        *,
        durable_end: Callable[[], tuple[int, int]],
        bytes_per_s_max: int,
        monotonic: Callable[[], float],
    ) -> None:
        """`disk`: of the node's directory, for reading only."""
        self.figures = ExportFigures()
        self._disk = disk
        self._thread = thread
        self._source = source
        self._audit = audit
        self._durable_end = durable_end
        self._pace = Pace(bytes_per_s_max)
        self._monotonic = monotonic
        self._is_stopping = False

    def stop(self) -> None:
        """The node stops: readers are to go on elsewhere or later, and not to be waited for."""
        self._is_stopping = True

    async def listing(self) -> LogView:
        """Raises ResourceExhausted."""
        found = await self._listed()
        files = [LogFileView(*file) for file in (*found.snapshots, *found.log)]
        return LogView(self._source, found.first_us, found.gaps, files)

    async def parts(
        self, wanted: Sequence[WantedFile], *, without_bodies: bool, bytes_per_s_max: int
    ) -> AsyncGenerator[LogPart, None]:
        """Raises ResourceExhausted."""
        contents = "without contents" if without_bodies else "with the contents of messages"
        with self._reader("ExportLog", f"export {len(wanted)} files of the log {contents}"):
            own = Pace(bytes_per_s_max) if bytes_per_s_max else None
            for file in wanted:
                async with aclosing(self._transfer(file, without_bodies, own)) as parts:
                    async for part in parts:
                        yield part

    async def rows(self, *, from_us: int, queue: str, follow: bool) -> AsyncGenerator[Sequence[str], None]:
        """Records as JSON objects. Raises ResourceExhausted."""
        about = f"of queue '{queue}' " if queue else ""
        with self._reader("DumpLog", f"dump records {about}of the log"):
            files = (await self._listed()).log
            log = LogDirectory(self._disk, first_file(files, from_us), WITHHELD_PIECE_BYTES)
            chosen, earliest = QueueRows(queue) if queue else None, iso_time(from_us) if from_us > 0 else None
            while True:
                made = log.new_rows(is_followed=follow)
                while rows := await self._read(partial(_some_of, made)):
                    await self._pause(ROW_PRICE_BYTES * len(rows))
                    said = [json.dumps(row, default=str) for row in rows if _is_asked_for(row, chosen, earliest)]
                    if said:
                        yield said
                if not follow:
                    return
                await self._pause(0)
                await asyncio.sleep(FOLLOW_PAUSE_S)

    async def _listed(self) -> LogInventory:
        durable = DurableEnd(*self._durable_end())
        return await self._read(lambda: list_log(self._disk, durable))

    async def _read(self, work: Callable[[], T]) -> T:
        try:
            return await self._beside(work)
        except StorageError as error:
            raise ResourceExhausted(f"the log cannot be read now: {error}") from error

    @contextmanager
    def _reader(self, kind: str, what: str) -> Iterator[None]:
        """One of those who may read at a time."""
        if self.figures.readers >= READERS_MAX:
            error = ResourceExhausted(f"{READERS_MAX} exports of this node's log are under way: try again later")
            self._audit.changed(kind, what, error)
            raise error
        self._audit.changed(kind, what)
        self.figures.readers += 1
        try:
            yield
        finally:
            self.figures.readers -= 1

    async def _transfer(
        self, file: WantedFile, without_bodies: bool, own: Pace | None
    ) -> AsyncGenerator[LogPart, None]:
        durable = DurableEnd(*self._durable_end())
        steps = transfer(self._disk, file, durable, without_bodies=without_bodies)
        while step := await self._beside(lambda: next(steps, None)):
            await self._pause(step.read_bytes, own)
            if isinstance(step.part, bytes):
                self.figures.bytes += len(step.part)
            if isinstance(step.part, LogWhole):
                self.figures.files += 1
            if step.part is not None:
                yield step.part

    async def _beside(self, work: Callable[[], T]) -> T:
        """Do it in the thread. Raises what it raises."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def done(value: Any, error: Exception | None) -> None:
            if future.done():
                return  # nobody waits any more
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(value)

        self._thread.run(work, done)
        result: T = await future
        return result

    async def _pause(self, size: int, own: Pace | None = None) -> None:
        """So many bytes were read: wait until the next ones may be. Raises ConnectionForced."""
        if self._is_stopping:
            raise ConnectionForced(f"node {self._source.node} is stopping")
        now = self._monotonic()
        pauses = [pace.take(size, now) for pace in (self._pace, own) if pace is not None]
        if (pause := max(pauses)) > 0:
            await asyncio.sleep(pause)


def _some_of(rows: Iterator[Row]) -> list[Row]:
    return list(islice(rows, ROWS_AT_ONCE))


def first_file(files: Sequence[ListedFile], from_us: int) -> int:
    """The number of the first file that has anything of this time or later."""
    wanted = (file for file in files if file.open or not file.last_us or file.last_us >= from_us)
    found = next(wanted, None)
    return (number_of(found.name, LOG_SUFFIX) or 0) if found is not None else 0


def _is_asked_for(row: Row, chosen: QueueRows | None, earliest: str | None) -> bool:
    about_it = chosen is None or chosen.has(row)
    return about_it and (earliest is None or "finding" in row or (row["time"] or "") >= earliest)
