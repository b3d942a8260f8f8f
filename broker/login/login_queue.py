"""Which password is checked next: a queue that is fair between sources, and between the users that each source asks for.

Checking a password is slow on purpose, so whoever sends many can keep everybody waiting. Here sources take turns, and within a
source users do, so a flood from one address, or against one user, delays others by one check at a time. A source whose checks
keep failing is slowed down: beyond `failures_free` it gets one check in `spacing_s`. After a wrong password nothing is checked
for as long as that check took, so that guessing costs half of one core at most, however many sources do it.

What waits is bounded. When the whole queue is full, the source that waits for most gives up its newest entry.

No clock and no threads: the caller passes the time, in seconds.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")

SOURCES_MAX = 10_000  # whose failures are remembered; the ones that failed least recently are forgotten


@dataclass(slots=True, frozen=True)
class LoginLimits:
    waiting: int = 4_096
    waiting_per_source: int = 1_024  # everybody behind one address, reconnecting at once
    # Different passwords for one user from one source. Equal ones are checked once, so an application has one or two.
    waiting_per_user: int = 16
    failures_free: int = 10  # typing errors, and a deployment with an old password
    failure_forgiven_s: float = 6.0
    spacing_s: float = 0.5


class Full(Exception):
    """The source, its user, or the whole queue has as much waiting as it may; the text says which."""


@dataclass(slots=True)
class _SourceQueue(Generic[T]):
    """What waits of one source, by user; the user whose turn it is comes first."""

    users: OrderedDict[str, deque[T]] = field(default_factory=OrderedDict)
    count: int = 0

    def put(self, user: str, item: T) -> None:
        self.users.setdefault(user, deque()).append(item)
        self.count += 1

    def take(self) -> T:
        user, waiting = self.users.popitem(last=False)
        self.count -= 1
        item = waiting.popleft()
        if waiting:
            self.users[user] = waiting
        return item

    def give_up(self) -> T:
        """The newest one of the user that waits for most."""
        user = max(self.users, key=lambda name: len(self.users[name]))
        self.count -= 1
        item = self.users[user].pop()
        if not self.users[user]:
            del self.users[user]
        return item


@dataclass(slots=True)
class _Failures:
    count: float  # less what was forgiven since
    at: float
    next_at: float = 0.0  # no check of this source before


class LoginQueue(Generic[T]):
    """Checks that wait. `offer`, then `take` and `checked` for each."""

    def __init__(self, limits: LoginLimits | None = None) -> None:
        self.limits = limits or LoginLimits()
        self._sources: OrderedDict[str, _SourceQueue[T]] = OrderedDict()  # by source; whose turn it is comes first
        self._count = 0
        self._failures: OrderedDict[str, _Failures] = OrderedDict()
        self._rests_until = 0.0

    def __len__(self) -> int:
        return self._count

    def offer(self, source: str, user: str, item: T) -> T | None:
        """Returns what had to give up its place. Raises Full."""
        limits = self.limits
        waiting = self._sources.get(source)
        if waiting is not None and len(waiting.users.get(user, ())) >= limits.waiting_per_user:
            raise Full(f"{limits.waiting_per_user} passwords for one user from one address are waiting to be checked")
        if waiting is not None and waiting.count >= limits.waiting_per_source:
            raise Full(f"{limits.waiting_per_source} logins from one address are waiting to be checked")
        displaced = (
            self._make_room(waiting.count if waiting is not None else 0) if self._count >= limits.waiting else None
        )
        self._sources.setdefault(source, _SourceQueue()).put(user, item)
        self._count += 1
        return displaced

    def _make_room(self, mine: int) -> T:
        greediest = max(self._sources, key=lambda source: self._sources[source].count)
        if self._sources[greediest].count <= mine + 1:
            raise Full(f"{self._count} logins are waiting to be checked")
        return self._taken(greediest, self._sources[greediest].give_up())

    def take(self, now: float) -> tuple[str, T] | None:
        """The source and what is to be checked for it; None: nothing, or nothing before `next_at`."""
        if now < self._rests_until:
            return None
        for source, waiting in self._sources.items():
            if self._next_at(source) <= now:
                item = self._taken(source, waiting.take())
                if source in self._sources:
                    self._sources.move_to_end(source)
                return source, item
        return None

    def next_at(self) -> float | None:
        """When something can be taken; None: nothing waits."""
        if not self._sources:
            return None
        return max(self._rests_until, min(map(self._next_at, self._sources)))

    def checked(self, source: str, right: bool, began: float, now: float) -> None:
        """A check that was taken is over."""
        if right:
            return
        self._rests_until = now + (now - began)
        limits = self.limits
        failures = self._failures.pop(source, None) or _Failures(0.0, now)
        failures.count = max(0.0, failures.count - (now - failures.at) / limits.failure_forgiven_s) + 1.0
        failures.at = now
        if failures.count > limits.failures_free:
            failures.next_at = now + limits.spacing_s
        self._failures[source] = failures
        if len(self._failures) > SOURCES_MAX:
            self._failures.popitem(last=False)

    def _next_at(self, source: str) -> float:
        failures = self._failures.get(source)
        return failures.next_at if failures is not None else 0.0

    def _taken(self, source: str, item: T) -> T:
        self._count -= 1
        if not self._sources[source].count:
            del self._sources[source]
        return item
