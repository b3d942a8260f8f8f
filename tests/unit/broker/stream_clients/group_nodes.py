"""Nodes with groups of consumers, whose links delay and lose what they say to each other; time is moved by the test."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from broker.stream_clients.consumer_groups import (
    GroupAnswer,
    GroupConsumer,
    GroupKey,
    GroupPart,
)
from broker.stream_clients.node_groups import NodeGroups

KEY = GroupKey("/", "s", "group")
TICK_MS = 500


class Member:
    """A consumer's client. Answers when the test says so."""

    def __init__(self, node: GroupNode, partition_index: int) -> None:
        self.node = node
        self.reads = False
        self.asked: deque[bool] = deque()  # and not answered
        self.consumer: GroupConsumer = node.groups.join(KEY, partition_index, self._tell)

    def _tell(self, active: bool) -> None:
        assert not self.asked, "asked while it has not answered"
        self.reads = False
        self.asked.append(active)

    def start(self) -> None:
        self.node.groups.started(KEY, self.consumer)

    def answer(self) -> None:
        self.reads = self.asked.popleft()
        self.node.groups.answered(KEY, self.consumer)

    def leave(self) -> None:
        self.reads = False
        self.asked.clear()
        self.node.groups.leave(KEY, self.consumer)


class GroupNode:
    """Fulfils GroupsElsewhere for its groups."""

    def __init__(self, world: GroupWorld, name: str) -> None:
        self.world = world
        self.name = name
        self._leader: str | None = "a"
        self._times_led = 1
        self.groups = NodeGroups(name, lambda key: self.leader, lambda key: self._leads(), lambda: world.now)
        self.groups.elsewhere = self

    @property
    def leader(self) -> str | None:
        """Of the stream, as this node knows it."""
        return self._leader

    @leader.setter
    def leader(self, leader: str | None) -> None:
        self._times_led += leader == self.name != self._leader
        self._leader = leader

    def _leads(self) -> int:
        return self._times_led if self._leader == self.name else 0

    def nodes(self) -> Sequence[str]:
        return [name for name in self.world.nodes if name != self.name and self.world.linked(self.name, name)]

    def announce(self, node: str, part: GroupPart, on_answer: Callable[[GroupAnswer | None], None]) -> None:
        other = self.world.nodes[node]
        said = copied(part)
        self.world.ask(self.name, node, lambda: other.groups.announced(self.name, said), on_answer)

    def ask_part(self, node: str, key: GroupKey, on_answer: Callable[[GroupPart | None], None]) -> None:
        other = self.world.nodes[node]
        self.world.ask(self.name, node, lambda: copied(other.groups.part_of(key, self.name)), on_answer)

    def look(self, node: str, key: GroupKey) -> None:
        self.world.say(self.name, node, partial(self.world.nodes[node].groups.look, key))


def copied(part: GroupPart) -> GroupPart:
    """As it is when it is said, not when it is heard."""
    return part._replace(consumers=tuple([GroupConsumer(*_fields(one)) for one in part.consumers]))


def _fields(one: GroupConsumer) -> tuple[Any, ...]:
    return one.number, one.came_at, one.started, one.told_active, one.answers


class GroupWorld:
    """Nodes a, b, c. What one says to another lies in `ways` until `deliver`, in order."""

    def __init__(self, *names: str) -> None:
        self.now = 1_000
        self.nodes: dict[str, GroupNode] = {}
        self.cuts: set[frozenset[str]] = set()
        self.ways: dict[tuple[str, str], deque[Callable[[], None]]] = {}
        self.waiting: dict[frozenset[str], dict[int, Callable[[Any], None]]] = {}  # for answers, by link
        self._numbers = 0
        for name in names or ("a", "b", "c"):
            self.nodes[name] = GroupNode(self, name)

    def number(self) -> int:
        self._numbers += 1
        return self._numbers

    def linked(self, one: str, other: str) -> bool:
        return frozenset((one, other)) not in self.cuts

    def say(self, sender: str, receiver: str, what: Callable[[], None]) -> None:
        if self.linked(sender, receiver):
            self.ways.setdefault((sender, receiver), deque()).append(what)

    def ask(self, asker: str, node: str, work: Callable[[], Any], on_answer: Callable[[Any], None]) -> None:
        link, number = frozenset((asker, node)), self.number()
        if not self.linked(asker, node):
            self.ways.setdefault((asker, asker), deque()).append(lambda: on_answer(None))
            return
        self.waiting.setdefault(link, {})[number] = on_answer

        def answer(value: Any) -> None:
            told = self.waiting.get(link, {}).pop(number, None)
            if told is not None:
                told(value)

        self.say(asker, node, lambda: self.say(node, asker, partial(answer, work())))

    def deliver(self, way: tuple[str, str]) -> None:
        self.ways[way].popleft()()

    def busy_ways(self) -> list[tuple[str, str]]:
        return [way for way, said in self.ways.items() if said]

    def cut(self, one: str, other: str) -> None:
        """What is under way is lost, and who waits for an answer is told."""
        link = frozenset((one, other))
        self.cuts.add(link)
        for way in ((one, other), (other, one)):
            self.ways.pop(way, None)
        for told in list(self.waiting.pop(link, {}).values()):
            told(None)
        self.nodes[one].groups.link_went(other)
        self.nodes[other].groups.link_went(one)

    def heal(self) -> None:
        self.cuts.clear()

    def lead(self, node: str) -> None:
        """All nodes know it at once."""
        for one in self.nodes.values():
            one.leader = node

    def pass_ms(self, milliseconds: int) -> None:
        """As clocks do: in small steps."""
        for _ in range(milliseconds // TICK_MS):
            self.now += TICK_MS
            for node in self.nodes.values():
                node.groups.tick(self.now)

    def settle(self, members: Sequence[Member], seconds: int = 5) -> None:
        """Everything arrives, everybody answers."""
        for _ in range(seconds):
            self.pass_ms(1_000)
            while (ways := self.busy_ways()) or any(one.asked for one in members):
                for way in ways:
                    self.deliver(way)
                for one in members:
                    if one.asked:
                        one.answer()
