"""Which consumer of a group is the active one: a function of the group, evaluated after each change and never remembered.

    a group of a plain stream        the consumer that came first; when it goes, the next in order
    a group of a super stream        of each partition another one: number `partition index` of the consumers in order of their
                                     coming, counted round, so that partitions spread over consumers

A change has two steps, each of which the client answers: the old one is told to stop, and only when it has answered, or gone,
the new one is told to begin. So never two of them read. While an answer is outstanding nothing else is asked; as all that is
decided here follows from the consumers that are there now, nothing can be forgotten meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

NO_PARTITION = -1  # the stream is read by itself, not as a partition


@dataclass(slots=True, eq=False)
class GroupConsumer:
    """One consumer as its group sees it."""

    tell: Callable[[bool], None]  # asks its client to begin or to stop
    started: bool = False  # its client knows that it is subscribed, and may be told something
    told_active: bool = False  # what it was told last
    answers: bool = True  # its client has answered to that


class NextStep(NamedTuple):
    consumer: GroupConsumer
    active: bool


def next_step(consumers: Sequence[GroupConsumer], partition_index: int) -> NextStep | None:
    """`consumers` in order of their coming. None: all is as it should be, or an answer has to come first."""
    if not consumers or not all(one.answers for one in consumers):
        return None
    wanted = consumers[partition_index % len(consumers) if partition_index != NO_PARTITION else 0]
    for one in consumers:
        if one.told_active and one is not wanted:
            return NextStep(one, active=False)
    if wanted.started and not wanted.told_active:
        return NextStep(wanted, active=True)
    return None
