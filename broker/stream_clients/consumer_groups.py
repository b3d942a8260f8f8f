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
from typing import NamedTuple, Protocol

NO_PARTITION = -1  # the stream is read by itself, not as a partition
AGAIN_MS = 10_000  # what a node knows is announced again: a leader may have been another one for a moment


class GroupKey(NamedTuple):
    """A group is one of its stream: a name may be used again on another one."""

    vhost: str
    stream: str
    name: str


@dataclass(slots=True, eq=False)
class GroupConsumer:
    """One consumer, as it stands."""

    number: int  # given by its node
    came_at: int  # wall-clock time, by which all nodes order them
    started: bool = False  # its client knows that it is subscribed, and may be told something
    told_active: bool = False  # what it was told last
    answers: bool = True  # its client has answered to that


class GroupPart(NamedTuple):
    """The consumers of one node."""

    key: GroupKey
    partition_index: int
    consumers: tuple[GroupConsumer, ...]


class GroupStep(NamedTuple):
    """What a node is to tell one of its consumers."""

    number: int
    active: bool


class GroupAnswer(NamedTuple):
    """To a node that has announced its part."""

    coordinates: bool  # False: the node that was asked does not decide for this group
    step: GroupStep | None = None


class GroupsElsewhere(Protocol):
    """The other nodes of the cluster, by name. Answers come once, None when the link to the node has gone."""

    def nodes(self) -> Sequence[str]:
        """Those that can be reached now."""

    def announce(self, node: str, part: GroupPart, on_answer: Callable[[GroupAnswer | None], None]) -> None: ...

    def ask_part(self, node: str, key: GroupKey, on_answer: Callable[[GroupPart | None], None]) -> None:
        """This node coordinates the group: what does the other one have of it?"""

    def look(self, node: str, key: GroupKey) -> None:
        """There is something to be done: it should announce its part again. May be lost."""


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
