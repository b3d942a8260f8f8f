"""Who is durable: the tickets of a log's commits. A core: it decides, and does nothing.

While one commit is on its way to the disk the next one gathers. So a commit is whatever arrived during the last write and
fsync, and nothing ever waits to make one bigger. A large one may be sealed to follow the one on its way: it is written when
that is fsynced. Each has a number, its ticket: who appended something remembers `gathering`, and is durable as soon as
`durable` has reached it.
"""

from __future__ import annotations

from collections.abc import Callable

from storage.errors import DiskFailed

Subscriber = Callable[[int], None]
IN_FLIGHT_MAX = 2


class GroupCommit:
    """Hands out tickets in order, and tells subscribers which are durable."""

    gathering: int  # the ticket of what is appended now
    durable: int  # highest ticket that is fsynced; durable < gathering
    is_idle: bool  # nothing is in flight
    failed: str | None  # why nothing is written any more

    def __init__(self, first: int) -> None:
        self.gathering = first
        self.durable = first - 1
        self.failed = None
        self.is_idle = True
        self._subscribers: list[Subscriber] = []

    @property
    def in_flight(self) -> range:
        """The tickets that are being written, or follow."""
        return range(self.durable + 1, self.gathering)

    def when_durable(self, subscriber: Subscriber) -> None:
        """Call with the durable ticket after each commit, subscribers in the order they came."""
        self._subscribers.append(subscriber)

    def must_work(self) -> None:
        """Raises DiskFailed when the log has failed."""
        if self.failed is not None:
            raise DiskFailed(f"the log takes nothing any more: {self.failed}")

    def seal(self) -> int:
        """What gathered goes to the disk now; the next ticket gathers from here on."""
        if self.failed is not None:
            self.must_work()
        assert self.gathering - self.durable <= IN_FLIGHT_MAX, (
            f"commit {self.gathering} sealed while {self.in_flight} are written"
        )
        self.gathering += 1
        self.is_idle = False
        return self.gathering - 1

    def done(self, ticket: int) -> None:
        """The first commit in flight is fsynced. Notifies no caller: `announce` does, when positions are in order too."""
        assert ticket == self.durable + 1, f"commit {ticket} is done after {self.durable}"
        assert ticket < self.gathering, f"commit {ticket} is done, and was not sealed"
        self.durable = ticket
        self.is_idle = ticket + 1 == self.gathering

    def announce(self) -> None:
        """Tell the subscribers."""
        ticket = self.durable
        for subscriber in self._subscribers:
            subscriber(ticket)

    def fail(self, reason: str) -> None:
        """What is in flight may or may not be on the disk, and no caller is ever told that it is."""
        if self.failed is None:
            self.failed = reason
