"""The groups of single active consumers among the clients of this node, and what their coordinators make of them.

For each group the node of its stream's leader decides (group_coordinator.py), perhaps this one. This node announces its part of
a group whenever it changes, does the step that is the answer, and announces again when its client has done it. One announcement
is under way at a time; what was not answered, or is for another leader by now, is announced again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from broker.errors import PreconditionFailed
from broker.names import labelled
from broker.stream_clients.consumer_groups import (
    AGAIN_MS,
    NO_PARTITION,
    GroupAnswer,
    GroupConsumer,
    GroupKey,
    GroupPart,
    GroupsElsewhere,
    GroupStep,
)
from broker.stream_clients.group_coordinator import GroupCoordinator

CHECK_MS = 1_000

Tell = Callable[[bool], None]  # asks a client to begin or to stop


class _NoOtherNodes:
    """Fulfils GroupsElsewhere, for a node that is alone."""

    def nodes(self) -> Sequence[str]:
        return ()

    def announce(self, node: str, part: GroupPart, on_answer: Callable[[GroupAnswer | None], None]) -> None:
        on_answer(None)

    def ask_part(self, node: str, key: GroupKey, on_answer: Callable[[GroupPart | None], None]) -> None:
        on_answer(None)

    def look(self, node: str, key: GroupKey) -> None: ...


@dataclass(slots=True, eq=False)
class _NodeGroup:
    partition_index: int
    consumers: dict[GroupConsumer, Tell] = field(default_factory=dict)
    coordinator: str = ""  # the node that knows this part, or is being told
    asked: bool = False  # its answer has not come yet
    announced_at: int = 0
    attempts: int = 0  # announcements: answers to earlier ones are ignored
    changed: bool = False  # since it was announced


class NodeGroups:
    """See the module."""

    def __init__(
        self,
        node: str,
        leader_of: Callable[[GroupKey], str | None],
        times_led: Callable[[GroupKey], int],
        now: Callable[[], int],
    ) -> None:
        """`leader_of`: the node that leads the stream, empty while none is known, None when there is no such stream.
        `times_led`: how many times this node has begun to lead it, 0 while it does not."""
        self.elsewhere: GroupsElsewhere = _NoOtherNodes()  # set by who knows other nodes
        self._coordinator = GroupCoordinator(
            node,
            times_led=times_led,
            elsewhere=lambda: self.elsewhere,
            part_here=self.part_of,
            look_here=self.look,
            now=lambda: self._checked_ms,
        )
        self._node = node
        self._leader_of = leader_of
        self._now = now
        self._groups: dict[GroupKey, _NodeGroup] = {}
        self._numbers = 0
        self._next_check = 0
        # Grows with every check. What has to wait for some time goes by it: wall clocks jump.
        self._checked_ms = 0

    # ------------------------------------------------------------------------- what clients of this node do

    def join(self, key: GroupKey, partition_index: int, tell: Tell) -> GroupConsumer:
        """It is told nothing before `started`. Raises PreconditionFailed when the group is of another partition."""
        group = self._groups.setdefault(key, _NodeGroup(partition_index))
        if not group.consumers:
            group.partition_index = partition_index
        if group.partition_index != partition_index:
            raise PreconditionFailed(
                f"group '{key.name}' of {labelled('stream', key.stream, key.vhost)} is of partition "
                f"{group.partition_index}, not {partition_index}"
            )
        self._numbers += 1
        consumer = GroupConsumer(self._numbers, self._now())
        group.consumers[consumer] = tell
        self._announce(key, group)
        return consumer

    def started(self, key: GroupKey, consumer: GroupConsumer) -> None:
        consumer.started = True
        self._announce(key, self._groups[key])

    def answered(self, key: GroupKey, consumer: GroupConsumer) -> None:
        """Its client has done what it was told last."""
        consumer.answers = True
        self._announce(key, self._groups[key])

    def leave(self, key: GroupKey, consumer: GroupConsumer) -> None:
        group = self._groups[key]
        del group.consumers[consumer]
        self._announce(key, group)

    # ------------------------------------------------------------------------- what coordinators hear and say

    def _announce(self, key: GroupKey, group: _NodeGroup) -> None:
        leader = self._leader_of(key)
        if group.asked or not leader:
            group.changed = True
            return
        group.changed = False
        group.coordinator = leader
        group.announced_at = self._checked_ms
        group.attempts += 1
        part = GroupPart(key, group.partition_index, tuple(group.consumers))
        if leader == self._node:
            self._answer(key, group, group.attempts, self.announced(self._node, part))
        else:
            group.asked = True
            self.elsewhere.announce(leader, part, partial(self._answer, key, group, group.attempts))

    def _answer(self, key: GroupKey, group: _NodeGroup, attempt: int, answer: GroupAnswer | None) -> None:
        if attempt != group.attempts or self._groups.get(key) is not group:
            return
        group.asked = False
        if answer is None or not answer.coordinates:
            group.changed = True  # and announced with the next check
            return
        if answer.step is not None:
            self._do(group, answer.step)
        if group.changed:
            self._announce(key, group)

    @staticmethod
    def _do(group: _NodeGroup, step: GroupStep) -> None:
        for consumer, tell in group.consumers.items():
            if consumer.number == step.number and consumer.answers and consumer.told_active != step.active:
                consumer.told_active, consumer.answers = step.active, False
                tell(step.active)
                return

    def announced(self, node: str, part: GroupPart) -> GroupAnswer:
        """What the node has of a group for which this one decides, or is believed to."""
        return self._coordinator.announced(node, part)

    def part_of(self, key: GroupKey, coordinator: str) -> GroupPart:
        """For the node that coordinates the group from now on: what was asked of an earlier one, or of it, counts no more."""
        group = self._groups.get(key)
        if group is None:
            return GroupPart(key, NO_PARTITION, ())
        group.attempts += 1
        group.asked = group.changed = False
        group.coordinator = coordinator
        return GroupPart(key, group.partition_index, tuple([replace(one) for one in group.consumers]))

    def look(self, key: GroupKey) -> None:
        """The coordinator has something for this node."""
        group = self._groups.get(key)
        if group is not None:
            self._announce(key, group)

    def link_went(self, node: str) -> None:
        """Answers of the node are given as None beside this."""
        self._coordinator.link_went(node)

    # ------------------------------------------------------------------------- now and then

    def tick(self, now: int) -> None:
        """Some times a second. Where the clock jumps, a check comes early, and none comes late."""
        if not self._next_check - CHECK_MS <= now < self._next_check:
            self._next_check = now + CHECK_MS
            self.check()

    def check(self) -> None:
        self._checked_ms += CHECK_MS
        for key, group in list(self._groups.items()):
            self._check(key, group)
        self._coordinator.check()

    def _check(self, key: GroupKey, group: _NodeGroup) -> None:
        leader = self._leader_of(key)
        if leader is None and not group.consumers:
            del self._groups[key]
        elif leader and leader != group.coordinator:
            group.asked = False
            self._announce(key, group)
        elif group.changed:
            self._announce(key, group)
        elif group.announced_at + AGAIN_MS <= self._checked_ms:
            self._announce_again(key, group)

    def _announce_again(self, key: GroupKey, group: _NodeGroup) -> None:
        """What is empty is kept so long, for it may have been a leader of old that was told, and then forgotten."""
        if group.consumers or group.asked:
            self._announce(key, group)
        else:
            del self._groups[key]
