"""What a queue of a history promises. The judge holds each queue to its own rules, and to nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.histories.records import Message

NEWS_S = 5.0


@dataclass(frozen=True, slots=True)
class QueueRules:
    """One queue. `fed_by`: names of publishers, or what they begin with before a slash ("p1" feeds as "p1/1", "p1/2")."""

    name: str
    fed_by: frozenset[str] = frozenset()
    dead_letters_to: str | None = None
    at_least_once: bool = (
        False  # a dead letter is in its source until its target has it; else it may be lost on the way
    )
    delivery_limit: int | None = None
    expires_s: float | None = None
    may_hold_twice: bool = False  # fed by an at-least-once source, which may have to send a dead letter again
    keeps_confirmed: bool = True  # False: of what was confirmed some may be lost, as on a node whose disk was wiped
    keeps_transient: bool = True  # False: its node was started again, which only persistent messages outlive
    drops: bool = False  # what is too much for its limit of length
    holds: frozenset[Message] | None = None  # all that ever came here, where somebody knows; None: what is sent here
    keeps_order: bool = True
    drains: bool = True


@dataclass(frozen=True, slots=True)
class Rules:
    """All queues of a history."""

    queues: tuple[QueueRules, ...]
    news_s: float = NEWS_S  # that a consumer is gone its queue hears so much before it or after it, at most
    knows_what_went_back: bool = False  # every message that went back unseen has its record
    clocks_keep_time: bool = True  # False: they were set, so a time to live may have been shorter than it was told
    by_name: dict[str, QueueRules] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_name", {queue.name: queue for queue in self.queues})
        assert len(self.by_name) == len(self.queues), "two queues of one name"
        for queue in self.queues:
            target = queue.dead_letters_to
            assert target is None or target in self.by_name, (
                f"{queue.name} dead-letters to {target}, which has no rules"
            )

    def sources_of(self, name: str) -> Iterable[QueueRules]:
        """The queues that dead-letter to this one."""
        return (queue for queue in self.queues if queue.dead_letters_to == name)

    def feeds(self, message: Message, queue: QueueRules) -> bool:
        """Whether it may come to the queue, directly or as a dead letter."""
        if queue.holds is not None and message not in queue.holds:
            return False
        publisher = message[0]
        names = (publisher, publisher.partition("/")[0])
        seen: set[str] = set()
        waiting = [queue]
        while waiting:
            one = waiting.pop()
            if one.name in seen:
                continue
            seen.add(one.name)
            if any(name in one.fed_by for name in names):
                return True
            waiting += self.sources_of(one.name)
        return False

    def is_fed_directly(self, message: Message, queue: QueueRules) -> bool:
        if queue.holds is not None and message not in queue.holds:
            return False
        publisher = message[0]
        return publisher in queue.fed_by or publisher.partition("/")[0] in queue.fed_by
