"""What clients of this node publish to one stream: taken or refused here, brought to the leader, answered when it is stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from broker.errors import ResourceExhausted
from broker.messages.confirms import Receipt
from replicated.leader_route import LeaderRoute
from replicated.portions import Asker, Owner, Portion
from stream.chunks.published_parts import PublishedPart
from stream.group.machine import Written
from stream.publishing.session import StreamSession

WAITING_BYTES_MAX = 32 << 20  # of one stream without a leader
ALL_WAITING_BYTES_MAX = 128 << 20  # of all of them together
# An entry must fit raft/core/settings.py, entry_bytes_max, with what stands beside the run in it.
RUN_BYTES_MAX = 31 << 20


class WithoutLeader:
    """What waits for leaders of all streams of this node that have none."""

    __slots__ = ("waiting_bytes",)

    def __init__(self) -> None:
        self.waiting_bytes = 0  # as counted some tenths of a second ago, and what came since


class NodePublishing(Owner):
    """Of one stream, whether this node has a member or not."""

    def __init__(
        self,
        node: int,
        incarnation: int,
        filter_bytes: int,
        *,
        route: LeaderRoute,
        without_leader: WithoutLeader,
        keep_asking: Callable[[], None],
        look_for_leader: Callable[[], None],
    ) -> None:
        """`keep_asking` has `go_on` called some ten times a second while it says so; `look_for_leader` has
        `leader_may_be_there` called."""
        self.session = StreamSession(node, incarnation, self, filter_bytes)
        self.published = 0  # messages
        self._route = route
        self._without_leader = without_leader
        self._keep_asking = keep_asking
        self._look_for_leader = look_for_leader

    def publish(self, parts: Sequence[PublishedPart], receipt: Receipt | None, label: str) -> None:
        """Raises ResourceExhausted when too much waits already, or no entry holds it."""
        size = sum([len(part.items) for part in parts])
        if why := self._no_room(parts, size):
            raise ResourceExhausted(f"{label} {why}")
        if not self.session.open:
            self._without_leader.waiting_bytes += size
        self.published += sum([part.message_count for part in parts])
        self.session.publish(parts, receipt)

    def _no_room(self, parts: Sequence[PublishedPart], size: int) -> str:
        """Empty: there is some."""
        if size > RUN_BYTES_MAX:
            largest = max([len(part.items) for part in parts])
            if largest > RUN_BYTES_MAX:
                return f"takes messages of up to {RUN_BYTES_MAX} bytes, this one has {largest}"
        if self.session.open:
            return ""
        waiting, of_all = self.session.waiting_bytes, self._without_leader.waiting_bytes
        if waiting > WAITING_BYTES_MAX:
            return f"has no leader, and {waiting} bytes wait for one already"
        if of_all > ALL_WAITING_BYTES_MAX:
            return f"has no leader, and {of_all} bytes wait for leaders of streams already"
        return ""

    def leader_may_be_there(self) -> None:
        if not self.session.open:
            self.session.open = True
            self.session.flush()

    def go_on(self) -> bool:
        """What was said to a leader of old is said again to the next one."""
        if self.session.sent and self._route.leader_moved():
            self.session.failed(self.session.attempt)
        return bool(self.session.sent)

    def close(self) -> None:
        """The stream is deleted. What was published to it counts as confirmed."""
        for asker in self.session.close():
            _answer(asker, accepted=True)

    # Owner, of the session

    def send(self, portion: Portion, attempt: int) -> None:
        self._keep_asking()
        self._route.propose(portion.ops, partial(self._proposed, portion, attempt))

    def _proposed(self, portion: Portion, attempt: int, results: Sequence[Any] | None) -> None:
        if results is None:
            self.session.failed(attempt)
        else:
            self.session.answered(portion, attempt, results)

    def enqueued(self, receipts: list[Receipt], result: Any) -> None:
        _answer(receipts, accepted=result is Written.DONE or result is Written.KNOWN)

    def lost_touch(self) -> None:
        self._look_for_leader()


def _answer(asker: Asker, *, accepted: bool) -> None:
    assert isinstance(asker, list), f"{asker!r} waits for a stream"
    for receipt in asker:
        if accepted:
            receipt.accepted()
        else:
            receipt.refused()
