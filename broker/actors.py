"""Who publishes, consumes and settles, as the log names them: a connection, its channels, their consumers, another node.

An actor has no number until a record is about to name it (storage/history/file_names.py gives it one), so those that come and
go without doing anything cost nothing. What is said of it is in storage/history/name_records.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol


class ActorKind(IntEnum):
    CONNECTION = 1
    CHANNEL = 2
    CONSUMER = 3
    NODE = 4  # on behalf of its clients; its address is its number in the cluster


class GoneReason(IntEnum):
    """Why an actor is gone."""

    CLOSED = 1  # its client closed or cancelled it
    CONNECTION_LOST = 2  # without a word
    FORCED = 3  # by an operator, or because its user or virtual host went
    QUEUE_GONE = 4  # a consumer's queue was deleted, or may not be read any more
    TIMED_OUT = 5  # a consumer did not settle in time


class NamedBy(Protocol):
    """Who gave an actor its number."""

    def gone(self, actor: LogActor, reason: int) -> None: ...


@dataclass(slots=True, eq=False)
class LogActor:
    """See the module."""

    kind: ActorKind
    parent: LogActor | None = None
    user: str = ""
    vhost: str = ""
    address: str = ""
    connection_name: str = ""
    product: str = ""
    tag: str = ""
    queue: str = ""
    prefetch: int = 0
    no_ack: bool = False
    number: int = 0  # 0: no record has named it
    named_in: int = 0  # the last file of the log that says who it is
    named_by: NamedBy | None = None

    def named(self, by: NamedBy, number: int) -> None:
        """It is about to be named for the first time."""
        self.named_by, self.number = by, number

    def gone(self, reason: GoneReason) -> None:
        """To be said of those that were named, once."""
        named_by, self.named_by = self.named_by, None
        if named_by is not None:
            named_by.gone(self, reason)


_submitter: ContextVar[LogActor | None] = ContextVar("submitter", default=None)


def submitter() -> LogActor | None:
    """For whom a command is being submitted; None: nobody but this node, or somebody whom nobody has named."""
    return _submitter.get()


def submits_from_here_on(actor: LogActor) -> None:
    """Commands of this task are this client's."""
    _submitter.set(actor)


@contextmanager
def submitting(actor: LogActor | None) -> Iterator[None]:
    """What is submitted within is this client's; without one it is whose it was."""
    if actor is None:
        yield
        return
    before = _submitter.set(actor)
    try:
        yield
    finally:
        _submitter.reset(before)
