"""Decides for the groups whose streams are led from this node: it knows the consumers of all nodes.

Nothing of it is durable. Each node announces its part of a group when it changes; a node that has just become the leader's asks
all others for theirs before it decides anything, also if it led before: they may have announced to another one meanwhile. A
step is given to a node as the answer to its announcement, one at a time; a node that should come for one is told to look.

A node that is out of reach keeps its place, and with it the active consumer that it may have, for KEPT_GONE_MS. When it is back
it is asked like all others in the beginning. So is one that has not said its part again for ASKED_AGAIN_MS: it does so every
AGAIN_MS while it has one, so the last of it may have gone with what it told a leader of old.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from broker.stream_clients.consumer_groups import (
    AGAIN_MS,
    GroupAnswer,
    GroupConsumer,
    GroupKey,
    GroupPart,
    GroupsElsewhere,
    GroupStep,
    next_step,
)

KEPT_GONE_MS = 60_000  # RabbitMQ's time for consumers whose node has gone
ASKED_AGAIN_MS = 2 * AGAIN_MS


@dataclass(slots=True)
class _NodePart:
    consumers: tuple[GroupConsumer, ...]
    said_at: int
    gone_at: int | None = None  # its node is out of reach since


@dataclass(slots=True)
class _Coordinated:
    partition_index: int
    leading: int  # how many times this node had begun to lead the stream, with this one
    parts: dict[str, _NodePart] = field(default_factory=dict)  # by node
    known: set[str] = field(default_factory=set)  # nodes that have said their part, or were asked for it
    unheard: set[str] = field(default_factory=set)  # those of them that have not answered yet


class GroupCoordinator:
    """See the module. `check` it about once a second."""

    def __init__(
        self,
        node: str,
        times_led: Callable[[GroupKey], int],
        elsewhere: Callable[[], GroupsElsewhere],
        part_here: Callable[[GroupKey, str], GroupPart],
        look_here: Callable[[GroupKey], None],
        now: Callable[[], int],
    ) -> None:
        """`now`: never goes back, and grows by no more than what lies between two checks."""
        self._node = node
        self._times_led = times_led
        self._elsewhere = elsewhere
        self._part_here = part_here
        self._look_here = look_here
        self._now = now
        self._groups: dict[GroupKey, _Coordinated] = {}

    def announced(self, node: str, part: GroupPart) -> GroupAnswer:
        """What the node has now, and what it is to do."""
        key = part.key
        leading = self._times_led(key)
        if not leading:
            self._groups.pop(key, None)
            return GroupAnswer(coordinates=False)
        group = self._groups.get(key)
        if group is None or group.leading != leading:
            group = self._begin(key, node, part.partition_index, leading)
        group.known.add(node)
        group.unheard.discard(node)
        self._put(group, node, part.consumers)
        if not group.parts and not group.unheard:
            del self._groups[key]
        return GroupAnswer(coordinates=True, step=self._decide(key, group, node))

    def _begin(self, key: GroupKey, announcer: str, partition_index: int, leading: int) -> _Coordinated:
        """`announcer`: whose part is known. Empty: nobody's."""
        group = self._groups[key] = _Coordinated(partition_index, leading, known={announcer})
        self._ask(key, group)
        return group

    def _ask(self, key: GroupKey, group: _Coordinated) -> None:
        """All whose part is not known, as far as they can be reached. Until they have answered nothing is decided."""
        if self._node not in group.known:
            group.known.add(self._node)
            self._put(group, self._node, self._part_here(key, self._node).consumers)
        asked = [node for node in self._elsewhere().nodes() if node not in group.known]
        group.known.update(asked)
        group.unheard.update(asked)
        for node in asked:
            self._elsewhere().ask_part(node, key, partial(self._heard, key, node))

    def _heard(self, key: GroupKey, node: str, part: GroupPart | None) -> None:
        """Of a node that was asked; None: it is out of reach. What it has announced before is older, what comes later newer,
        also where this node has begun anew meanwhile."""
        group = self._groups.get(key)
        if group is None:
            return
        group.unheard.discard(node)
        if part is not None:
            self._put(group, node, part.consumers)
        self._decide(key, group, "")

    def _put(self, group: _Coordinated, node: str, consumers: tuple[GroupConsumer, ...]) -> None:
        if consumers:
            group.parts[node] = _NodePart(tuple([replace(one) for one in consumers]), self._now())
        else:
            group.parts.pop(node, None)

    def _decide(self, key: GroupKey, group: _Coordinated, asker: str) -> GroupStep | None:
        """What the asker is to do. When it is another node's turn, that one is told to look."""
        if group.unheard or group.leading != self._times_led(key):
            return None
        placed = [(one.came_at, node, one.number, one) for node, part in group.parts.items() for one in part.consumers]
        placed.sort(key=lambda place: place[:3])
        step = next_step([one for *_, one in placed], group.partition_index)
        if step is None:
            return None
        node = next(node for _, node, _, one in placed if one is step.consumer)
        if node == asker:
            step.consumer.told_active, step.consumer.answers = step.active, False
            return GroupStep(step.consumer.number, step.active)
        if node == self._node:
            self._look_here(key)
        else:
            self._elsewhere().look(node, key)
        return None

    def link_went(self, node: str) -> None:
        for key, group in list(self._groups.items()):
            group.known.discard(node)
            if node in group.parts:
                group.parts[node].gone_at = self._now()
            if node in group.unheard:
                group.unheard.discard(node)
                self._decide(key, group, "")

    def check(self) -> None:
        """Nodes that have gone for long are forgotten, and what was not heard is said again."""
        for key, group in list(self._groups.items()):
            self._look_through(group)
            leading = self._times_led(key)
            if not leading or not (group.parts or group.unheard):
                del self._groups[key]
            elif leading != group.leading:
                self._begin(key, "", group.partition_index, leading)
            else:
                self._ask(key, group)
                self._decide(key, group, "")

    def _look_through(self, group: _Coordinated) -> None:
        for node, part in list(group.parts.items()):
            if part.gone_at is not None and part.gone_at + KEPT_GONE_MS <= self._now():
                del group.parts[node]
            elif part.said_at + ASKED_AGAIN_MS <= self._now():
                group.known.discard(node)
