"""Who and what the records of each log file name: written when a file names them first, before the record that does.

The file that the next record goes to is known, so a record and the names it needs are in one commit of one file. These
records hold no file of the log back: once nobody needs a file for what it was written for, the names go with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from storage.disk import Buffer
from storage.history.name_records import ActorRow, NameRow, encode_actor, encode_gone, encode_name
from storage.record import Kind
from storage.wal.log_core import Location

NO_WRITER = 0


class NamingLog(Protocol):
    """What is needed of the log: storage/wal/writer.py."""

    @property
    def failed(self) -> str | None: ...

    @property
    def gathering_file(self) -> int:
        """The file that the next record goes to."""

    def append_lazy(self, kind: int, writer: int, index: int, parts: Sequence[Buffer]) -> Location: ...


class NamedActor(Protocol):
    """Somebody whom records name: broker/actors.py."""

    user: str
    vhost: str
    address: str
    connection_name: str
    product: str
    tag: str
    queue: str
    prefetch: int
    no_ack: bool
    number: int
    named_in: int

    @property
    def kind(self) -> int: ...

    @property
    def parent(self) -> NamedActor | None: ...

    def named(self, by: FileNames, number: int) -> None: ...


class NamedQueue(Protocol):
    """A queue that records name by its id."""

    @property
    def id(self) -> int: ...

    @property
    def kind(self) -> str: ...

    @property
    def vhost(self) -> str: ...

    @property
    def name(self) -> str: ...


class FileNames:
    """See the module. Of one process."""

    def __init__(self, log: NamingLog, incarnation: int) -> None:
        self._log = log
        self._incarnation = incarnation
        self._next_number = 1
        self._file = 0  # that `_named` is about
        # A number may be that of a classic queue and of another log: the catalog's is that of the first queue.
        self._named: set[tuple[bool, int]] = set()  # whether it is a replicated log, and its number

    def number_of(self, actor: NamedActor) -> int:
        """The actor's number, which the file that is being filled says the name of."""
        if actor.named_in != self._log.gathering_file:
            self._introduce(actor)
        return actor.number

    def gone(self, actor: NamedActor, reason: int) -> None:
        """An actor that has a number."""
        if self._log.failed is None:
            number = self.number_of(actor)
            self._log.append_lazy(Kind.ACTOR_GONE, NO_WRITER, number, [encode_gone(reason)])

    def queue(self, queue: NamedQueue) -> None:
        if self._is_new(False, queue.id):
            self._say_name(False, queue.id, NameRow(queue.kind, queue.vhost, queue.name))

    def group(self, group: int, kind: str, name: str) -> None:
        """A replicated log, of a queue or of what is declared. No queue of the catalog is looked up by its number: that of the
        catalog's own log is the id of the first queue."""
        if (True, group) in self._named and self._log.gathering_file == self._file:
            return
        if self._is_new(True, group):
            self._say_name(True, group, NameRow(kind, "", name))

    def _introduce(self, actor: NamedActor) -> None:
        parent = 0 if actor.parent is None else self.number_of(actor.parent)
        if not actor.number:
            actor.named(self, self._next_number)
            self._next_number += 1
        if self._log.failed is not None:
            return  # whoever writes the record is told
        row = ActorRow(
            actor.kind, self._incarnation, parent, actor.user, actor.vhost, actor.address, actor.connection_name,
            actor.product, actor.tag, actor.queue, actor.prefetch, actor.no_ack,
        )  # fmt: skip
        place = self._log.append_lazy(Kind.ACTOR, NO_WRITER, actor.number, [encode_actor(row)])
        actor.named_in = place.file_number

    def _is_new(self, is_log: bool, number: int) -> bool:
        file = self._log.gathering_file
        if file != self._file:
            self._file = file
            self._named.clear()
        return (is_log, number) not in self._named

    def _say_name(self, is_log: bool, number: int, row: NameRow) -> None:
        if self._log.failed is None:
            self._log.append_lazy(Kind.NAME, NO_WRITER, number, [encode_name(row)])
            self._named.add((is_log, number))
