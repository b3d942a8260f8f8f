"""Who consumes, and whose turn it is: the highest priority with room, among equals each in turn; with a single active
consumer only that one.

A consumer is in the line of its priority while it could be given something: it is up, its node is not suspected, it
has room, and it is the active one if there can be only one.

Single active consumer. The active one is the one of the highest priority, and among equals the one that came first. When one
of a higher priority comes, the active one is *quiescing*: it is given nothing more, keeps what it holds, and the next one
becomes active once that is settled. When it is cancelled, timed out or suspected the next one becomes active at once.
Consumers of a node that is back come back one after the other, as they came: who was quiescing for a later one is so again.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Iterator
from enum import IntEnum

from native.sequence_set import SequenceSet
from quorum.fifo.checked_out import CheckedOut, CheckedOutTotal
from quorum.fifo.commands import FIRST_ID, ConsumerKey

UNLIMITED_WINDOW = 2000  # messages that a consumer without prefetch, or without acknowledgements, may hold


class ConsumerState(IntEnum):
    """What a consumer may expect. Whether its node is suspected is beside that: `MachineConsumer.suspected_at`."""

    UP = 0
    QUIESCING = 1  # was the active one, and holds what the next one must not overtake
    CANCELLED = 2  # here only as long as it holds something
    TIMED_OUT = 3  # given nothing until it has settled what was overdue
    GET = 4  # no consumer: it holds what a GET took


class MachineConsumer:
    """One consumer, or a get that has not been settled."""

    __slots__ = (
        "checked_out", "exclusive", "in_line", "key", "next_id", "no_ack", "overdue", "prefetch", "priority", "state",
        "suspected_at", "tag", "timeout_ms", "window",
    )  # fmt: skip

    def __init__(
        self,
        key: ConsumerKey,
        tag: str = "",
        prefetch: int = 0,
        no_ack: bool = False,
        exclusive: bool = False,
        priority: int = 0,
        timeout_ms: int | None = None,
        state: ConsumerState = ConsumerState.UP,
    ) -> None:
        self.key = key
        self.tag = tag
        self.prefetch = prefetch
        # What it may hold: as many as it came with, until WINDOW changes it.
        self.window = UNLIMITED_WINDOW if no_ack or not prefetch else prefetch
        self.no_ack = no_ack
        self.exclusive = exclusive
        self.priority = priority
        self.timeout_ms = timeout_ms  # None: as the queue's rules say; 0: never
        self.state = state
        self.suspected_at: int | None = None  # since when its node seems to be down
        self.next_id = FIRST_ID
        self.checked_out = CheckedOut()
        self.overdue = SequenceSet()  # ids that were taken away from it and that it has not settled
        self.in_line = False

    @property
    def is_subscribed(self) -> bool:
        """Not here only for what it holds."""
        return self.state is not ConsumerState.CANCELLED and self.state is not ConsumerState.GET


class MachineConsumers:
    """See the module."""

    __slots__ = ("_lines", "_priorities", "active", "all", "count", "held", "quiescing", "single_active")

    def __init__(self) -> None:
        self.count = 0  # without those that are here only for what they hold
        self.held = CheckedOutTotal()
        self.single_active = False
        self.all: dict[ConsumerKey, MachineConsumer] = {}  # in the order in which they came
        self.active: MachineConsumer | None = None  # the single active one
        self.quiescing: MachineConsumer | None = None  # no other becomes active while it holds something
        self._lines: dict[int, deque[MachineConsumer]] = {}
        self._priorities: list[int] = []  # of lines that are not empty, ascending

    def subscribed(self) -> Iterator[MachineConsumer]:
        return (one for one in self.all.values() if one.is_subscribed)

    @property
    def exclusive(self) -> bool:
        """Whether there is an exclusive one. It is alone."""
        first = next(self.subscribed(), None)
        return first is not None and first.exclusive

    def accepts(self, exclusive: bool) -> bool:
        """Whether one more can be added."""
        if exclusive and self.single_active:
            return False
        return not self.count or not (exclusive or self.exclusive)

    def add(self, consumer: MachineConsumer) -> None:
        assert consumer.key not in self.all, f"consumer {consumer.key} is added twice"
        self.restore(consumer)
        self.update(consumer)

    def restore(self, consumer: MachineConsumer) -> None:
        """As a snapshot has it. Who is active and who is in line is in the snapshot, too."""
        self.all[consumer.key] = consumer
        self.count += consumer.is_subscribed
        consumer.checked_out.belong_to(self.held)

    def remove(self, consumer: MachineConsumer) -> None:
        """It is given nothing any more, and forgotten when it holds nothing."""
        if consumer.is_subscribed:
            self.count -= 1
            consumer.state = ConsumerState.CANCELLED
        consumer.overdue.clear()
        self.update(consumer)

    def update(self, consumer: MachineConsumer) -> None:
        """Its state, or what it holds, has changed."""
        if not consumer.checked_out.count and consumer.state in (ConsumerState.CANCELLED, ConsumerState.GET):
            self.all.pop(consumer.key, None)
        if self.single_active and not (consumer is self.active and self.may_receive(consumer)):
            self._elect()  # what the active one settles changes nothing for the others
        self._line_up(consumer)

    def change_window(self, consumer: MachineConsumer, window: int) -> None:
        """What it holds beyond it stays with it."""
        consumer.window = window
        self._line_up(consumer)

    def elect_only_one(self, single_active: bool) -> None:
        """The queue's rule from now on."""
        self.single_active = single_active
        if single_active:
            self._elect()
        else:
            if self.quiescing is not None:
                self.quiescing.state = ConsumerState.UP
            self.active = self.quiescing = None
        for consumer in self.all.values():
            self._line_up(consumer)

    def next(self, ready: int) -> tuple[MachineConsumer, int] | None:
        """Whose turn it is, and how many of `ready` messages it may have now. Equals that have room share what is ready.
        None when no consumer has room. `served` is to be called then."""
        if not self._priorities:
            return None
        line = self._lines[self._priorities[-1]]
        consumer = line[0]
        room = consumer.window - consumer.checked_out.count
        sharing = len(line)
        if sharing == 1 or room == 1:
            return consumer, room
        return consumer, min(room, -(-ready // sharing))

    def served(self, consumer: MachineConsumer) -> None:
        """It goes behind its equals, or out of the line when it has no room left."""
        line = self._lines[consumer.priority]
        if consumer.checked_out.count < consumer.window:
            if len(line) > 1:
                line.rotate(-1)
            return
        line.popleft()
        consumer.in_line = False
        if not line:
            self._priorities.pop()

    def room(self, enough: int) -> int:
        """How many messages would be handed out at once; counted no further than `enough`."""
        room = 0
        for priority in self._priorities:
            for consumer in self._lines[priority]:
                room += consumer.window - consumer.checked_out.count
                if room >= enough:
                    return enough
        return room

    @property
    def have_room(self) -> bool:
        """Whether something that is ready would be handed out."""
        return bool(self._priorities)

    @property
    def waiting_priority(self) -> int | None:
        """The highest of those that have room; None: nobody has."""
        return self._priorities[-1] if self._priorities else None

    def may_receive(self, consumer: MachineConsumer) -> bool:
        """Whether it is given messages as long as it has room."""
        return (
            consumer.state is ConsumerState.UP
            and consumer.suspected_at is None
            and (not self.single_active or consumer is self.active)
        )

    def in_turn(self) -> Iterator[MachineConsumer]:
        """Those that stand in a line, each line in its order."""
        for priority in self._priorities:
            yield from self._lines[priority]

    def line_up(self, consumers: list[MachineConsumer]) -> None:
        """As `in_turn` had them when a snapshot was taken."""
        for consumer in consumers:
            self._line_up(consumer)

    def _line_up(self, consumer: MachineConsumer) -> None:
        """Into the line, or out of it."""
        stands = consumer.checked_out.count < consumer.window and self.may_receive(consumer)
        if stands == consumer.in_line:
            return
        consumer.in_line = stands
        line = self._lines.setdefault(consumer.priority, deque())
        if stands:
            if not line:
                insort(self._priorities, consumer.priority)
            line.append(consumer)
        else:
            line.remove(consumer)
            if not line:
                self._priorities.remove(consumer.priority)

    def _elect(self) -> None:
        quiescing = self.quiescing
        if quiescing is not None:
            if (
                quiescing.state is ConsumerState.QUIESCING
                and quiescing.suspected_at is None
                and quiescing.checked_out.count
            ):
                return
            if quiescing.state is ConsumerState.QUIESCING:
                quiescing.state = ConsumerState.UP
            self.quiescing = None
        active, best = self.active, self._best()
        if active is not None and (active.state is not ConsumerState.UP or active.suspected_at is not None):
            active = self.active = None
        if active is None:
            self._activate(best)
        elif best is not None and best.priority > active.priority:
            if active.checked_out.count:
                active.state = ConsumerState.QUIESCING
                self.quiescing, self.active = active, None
                self._line_up(active)
            else:
                self._activate(best)

    def _best(self) -> MachineConsumer | None:
        """Who should be active."""
        best: MachineConsumer | None = None
        for one in self.all.values():
            if (
                one.state is ConsumerState.UP
                and one.suspected_at is None
                and (best is None or one.priority > best.priority)
            ):
                best = one
        return best

    def _activate(self, consumer: MachineConsumer | None) -> None:
        before, self.active = self.active, consumer
        for one in (before, consumer):
            if one is not None:
                self._line_up(one)
