"""What a queue must be by its log: the dumb twin of its machine (tests/unit/quorum/dumb_queue.py), told of every committed
entry, and beside it the fate of every message that was ever enqueued.

The twin says what each entry results in, so every member is compared with it (machines.py). The ledger counts where messages
are and where they went, and looks at what must be so whatever the rules of the machine are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from broker.queues.queue_type import DeathReason, Outcome
from native.content import messages
from quorum.fifo import versions
from quorum.fifo.commands import ConsumerKey, DeadSettled, Enqueue, Get, NodeDown, Op
from quorum.fifo.machine import QueueMachine
from quorum.fifo.movement import UNBOUNDED
from quorum.fifo.results import Result, ResultCode, TakenMessage
from quorum.fifo.rules import Retry
from raft.core.messages import Entry
from storage.disk import Buffer
from tests.raft_node.register import ReadEntry
from tests.sim.brokers import invariants
from tests.sim.brokers.active_consumers import ActiveConsumers
from tests.sim.brokers.invariants import About
from tests.sim.brokers.plan import ALL_PROFILES
from tests.unit.quorum.dumb_queue import DumbQueue, Event, Message
from wire.amqp.tables import decode_properties

# Fates of messages that no client has to acknowledge.
UNACKNOWLEDGED, PURGED, EXPIRED, DROPPED = (
    "handed out without acknowledgement",
    "purged",
    "dead, expired",
    "dead, maxlen",
)
Where = tuple[int, int, int]  # entry, offset of the op, place in the run
Said = tuple[ConsumerKey, int]  # a consumer, and the number of a message that it was given


@dataclass(slots=True)
class Known:
    """One message that was enqueued."""

    where: Where
    body: bytes
    priority: int
    fate: str = ""  # empty: it is still there
    deaths: tuple[str, ...] = ()  # the queues that it died in
    was_handed_out: bool = False


@dataclass(slots=True)
class Hold:
    """A message that is checked out, or was, between two entries."""

    known: Known
    failures: int
    acquired: int
    since: int
    until: int = 0  # the entry that ended it; 0: it lasts

    def is_over_at(self, applied: int) -> bool:
        """As far as a member knows that has applied so many entries. One that is new, and not there yet, knows nothing against
        what the leader's node has brought."""
        return 0 < self.until <= applied


@dataclass
class Asked:
    """What clients have to do with a queue, as they know it themselves."""

    acknowledged: dict[Said, int] = field(default_factory=dict)  # what somebody has said to be done with: its delivery
    careless: dict[tuple[int, int], bool] = field(default_factory=dict)  # sessions whose gets acknowledge nothing
    unwatched: dict[ConsumerKey, bool] = field(default_factory=dict)  # consumers that need not acknowledge


class Twin(DumbQueue):
    """Tells the ledger where messages go."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__()
        self.followed = 0  # events of this entry that the ledger knows
        self._ledger = ledger

    def do(self, index: int, offset: int, op: Op) -> Result:
        ledger = self._ledger
        before = len(self.ready)
        dead = dict(self.dead) if isinstance(op, DeadSettled) else {}
        out = self._out() if isinstance(op, Get) else []
        result = super().do(index, offset, op)
        if isinstance(op, NodeDown):
            ledger.active_consumers.doubt(op.key)
        if isinstance(op, Enqueue) and result is ResultCode.ACCEPTED:
            ledger.enqueued(op, self.ready[before:])
        elif isinstance(op, Enqueue) and result is ResultCode.REJECTED:
            ledger.rejected(op)
        elif isinstance(op, DeadSettled):
            ledger.dead_settled([message for number, (_, message) in dead.items() if number not in self.dead])
        elif isinstance(op, Get) and isinstance(result, TakenMessage):
            where = (result.piece.entry, result.piece.offset, result.piece.first)
            if op.no_ack:
                assert out == self._out(), "a get without acknowledgement checks something out"
                ledger.got(where)
            else:
                ledger.hand_out((op.consumer, result.message_id), where, result.delivery_count, result.acquired_count)
        return result

    def purge(self) -> int:
        self._ledger.go([*self.ready, *self.delayed], PURGED)
        count = super().purge()
        self._ledger.purged.append(count)
        return count

    def hand_out(self) -> None:
        super().hand_out()
        for event in self.events[self.followed :]:
            if event[0] == "deliver":
                _, key, number, where, failures, acquired = event
                self._ledger.hand_out((key, number), where, failures, acquired)
                if self.rules.single_active:
                    invariants.one_consumer_is_active(self._ledger.about, self.active, key)
            elif event[0] == "late":
                self._ledger.active_consumers.excuse(event[1])
        self.followed = len(self.events)

    def _out(self) -> list[Where]:
        return [one.message.where for client in self.clients.values() for one in client.out]

    def settle(self, key: ConsumerKey, outcome: Outcome, ids: list[int]) -> Result:
        client = self.clients.get(key)
        if client is not None and outcome == Outcome.ACKNOWLEDGED:
            for one in client.out:
                if one.message_id in ids:
                    self._ledger.acknowledged(key, one.message_id, one.message)
        return super().settle(key, outcome, ids)

    def die(self, reason: int, message: Message) -> None:
        before = len(self.dead)
        super().die(reason, message)
        if reason == DeathReason.EXPIRED:
            invariants.nothing_expires_early(self._ledger.about, message.expires_at, self.now)
        if len(self.dead) == before:
            self._ledger.go([message], f"dead, {DeathReason(reason).name.lower()}")


class UnboundedMachine(QueueMachine):
    """Each entry does whatever there is to do, as with the twin, which knows no rows. What becomes of the rest where an entry
    moves only so many of them is told by tests/unit/quorum/test_bounded_entries.py."""

    __slots__ = ()

    def _bound(self) -> None:
        super()._bound()
        self._rows = UNBOUNDED


def deaths_of(props: bytes) -> list[tuple[str, str]]:
    """Where and why a message with these properties died, by its history."""
    headers = decode_properties(props).get("headers") or {}
    return [(death["queue"], death["reason"]) for death in headers.get("x-death", ())]


def may_come_again(source: str) -> bool:
    """Whether a dead letter of this queue may be published twice: at least once, or by a classic queue after a crash."""
    arguments = ALL_PROFILES.get(source)
    return arguments is None or arguments.get("x-dead-letter-strategy") == "at-least-once"


class Ledger:
    """One queue's. Fulfils tests.sim.references.Reference."""

    def __init__(
        self,
        name: str,
        about: About,
        has_arrived: Callable[[Ledger, bytes], bool],
        on_acknowledged: Callable[[int], None],
        on_unseen: Callable[[bytes], None],
        is_committed: Callable[[bytes], bool],
        on_dead_refused: Callable[[str], None],
    ) -> None:
        """`has_arrived`: whether what this queue gives up as a dead letter is somewhere else. `on_acknowledged` is told the
        number of each delivery that the queue has taken note of; `on_unseen` the body of what nobody saw who was given it.
        `is_committed`: whether the publisher of this body has published it for good. `on_dead_refused` is told the source of a
        dead letter that is not taken."""
        self.name = name
        self.about = about
        self.twin = Twin(self)
        self.asked = Asked()
        self.results: dict[int, list[Result]] = {}
        self.events: dict[int, list[Event]] = {}
        self.figures: dict[int, tuple[Any, ...]] = {}
        self.known: dict[Where, Known] = {}
        self.bodies: dict[bytes, list[Known]] = {}
        self.holds: dict[Said, Hold] = {}
        self.gone: dict[str, int] = {}
        self.purged: list[int] = []  # messages of each purge that nobody has been told of
        self.last = 0  # entry
        self._has_arrived = has_arrived
        self._on_acknowledged = on_acknowledged
        self._on_unseen = on_unseen
        self._is_committed = is_committed
        self._on_dead_refused = on_dead_refused
        self._data = b""
        self._lasting: dict[Said, Hold] = {}
        self._lanes: dict[tuple[bytes, int], int] = {}
        self.active_consumers = ActiveConsumers(about)
        self._numbers: dict[bytes, dict[int, bytes]] = {}  # of producers: the body of each message that has one

    # Reference

    def apply(self, entry: Entry) -> str | None:
        self._data, self.last = entry.data, entry.index
        if entry.data[:1] != b"\1":
            self.results[entry.index], self.events[entry.index] = [ResultCode.UNKNOWN], []
            return None
        twin = self.twin
        results = twin.apply(entry.index, entry.data)
        events, twin.events, twin.followed = twin.events, [], 0
        self.results[entry.index], self.events[entry.index] = results, events
        self._end_holds(entry.index)
        self._look()
        self.figures[entry.index] = self._figures()
        return None

    def digest(self) -> str | None:
        return UnboundedMachine().state_digest()

    def stands_on(self, index: int, state: Sequence[Buffer]) -> int:
        return index

    def of_snapshot(self, version: int, state: Sequence[Buffer]) -> str:
        return hashlib.blake2b(b"".join(state), digest_size=16).hexdigest()

    def replayed(self, snapshot: tuple[bytes, int] | None, entries: Sequence[Entry], read_entry: ReadEntry) -> str:
        machine = UnboundedMachine()
        if snapshot is not None:
            machine.restore(*snapshot)
        machine.apply(entries)
        return machine.state_digest()

    # What the twin tells

    def enqueued(self, op: Enqueue, stored: Sequence[Message]) -> None:
        start, end = op.content
        found = list(messages(self._data[start:end], 0, op.messages))
        bodies = [body for _, body in found]
        for message, (props, body) in zip(stored, found, strict=True):
            known = self.known[message.where] = Known(message.where, body, message.priority)
            before = self.bodies.setdefault(body, [])
            if self.is_target:
                known.deaths = tuple(queue for queue, _ in deaths_of(props))
                again = [other for other in before if other.deaths == known.deaths]
                if not may_come_again(known.deaths[0]):
                    invariants.at_most_once_is_not_twice(self.about, body, known.deaths[0], len(again))
            else:
                invariants.stored_once_in_a_queue(self.about, body, len(before))
                invariants.uncommitted_is_nowhere(self.about, body, self._is_committed(body))
            before.append(known)
        if op.producer is not None:
            numbers = self._numbers.setdefault(op.producer.name, {})
            invariants.producers_numbers_are_stored_once(self.about, op.producer.name, op.producer.number, numbers)
            numbers[op.producer.number] = bodies[0]

    def rejected(self, op: Enqueue) -> None:
        if self.is_target:
            start, end = op.content
            for props, _ in messages(self._data[start:end], 0, op.messages):
                self._on_dead_refused(deaths_of(props)[0][0])

    def acknowledged(self, key: ConsumerKey, number: int, message: Message) -> None:
        known, asked = self.known[message.where], self.asked
        delivery = asked.acknowledged.get((key, number))
        is_get = self.twin.clients[key].status == "get"
        was_said = delivery is not None or key in asked.unwatched or (is_get and key[:2] in asked.careless)
        invariants.only_what_was_acknowledged_is_gone(self.about, known.body, was_said)
        self.go([message], "acknowledged" if delivery is not None else UNACKNOWLEDGED)
        if delivery is not None:
            self._on_acknowledged(delivery)

    def got(self, where: Where) -> None:
        self._go(self.known[where], UNACKNOWLEDGED)
        self._handed_out(self.known[where])

    def dead_settled(self, stored: Sequence[Message]) -> None:
        for message in stored:
            body = self.known[message.where].body
            invariants.dead_letters_leave_when_they_have_arrived(self.about, body, self._has_arrived(self, body))
        self.go(stored, "dead, arrived")

    def go(self, stored: Sequence[Message], fate: str) -> None:
        for message in stored:
            self._go(self.known[message.where], fate)

    def _go(self, known: Known, fate: str) -> None:
        assert not known.fate, f"{known.body[:40]!r} went as {known.fate}, and goes as {fate}"
        known.fate = fate
        self.gone[fate] = self.gone.get(fate, 0) + 1

    def may_be_nowhere(self, *, drops: bool, holds_dead: bool) -> dict[bytes, str]:
        """What no client may ever acknowledge, and why. `holds_dead`: the dead stay here, for their target is away."""
        fates = (UNACKNOWLEDGED, PURGED, EXPIRED, *((DROPPED,) if drops else ()))
        gone = {known.body: known.fate for known in self.known.values() if known.fate in fates}
        if holds_dead:
            gone.update(
                {self.known[message.where].body: "its target is away" for _, message in self.twin.dead.values()}
            )
        return gone

    # After each entry

    def _end_holds(self, index: int) -> None:
        twin = self.twin
        if self._lasting:
            out = {(key, one.message_id) for key, client in twin.clients.items() for one in client.out}
            for said in [said for said in self._lasting if said not in out]:
                self._lasting.pop(said).until = index

    def hand_out(self, said: Said, where: Where, failures: int, acquired: int) -> None:
        """To this consumer, as its message of this number. A get that is heard again is given what it has."""
        if said not in self.holds:
            known = self.known[where]
            if known.was_handed_out and not acquired:
                self._on_unseen(known.body)
            self._watch_active(said[0], known, acquired)
            self.holds[said] = self._lasting[said] = Hold(known, failures, acquired, self.last)
            self._handed_out(known)

    def _watch_active(self, consumer: ConsumerKey, known: Known, acquired: int) -> None:
        twin, watched = self.twin, self.active_consumers
        if not twin.rules.single_active or twin.rules.retry is not Retry.DISABLED or self.is_target:
            watched.forget()
            return
        if twin.version < versions.WINDOWS_CHANGE:
            watched.excuse(consumer)
        publisher, _, rest = known.body.partition(b":")
        number = int(rest.partition(b":")[0] or 0)
        unseen = known.was_handed_out and not acquired
        watched.hand_out(known.where, (publisher, known.priority), number, consumer, unseen=unseen)

    def _handed_out(self, known: Known) -> None:
        """Each publisher's messages of one priority come out in the order in which they went in."""
        if known.was_handed_out or self.holds_copies:
            return
        known.was_handed_out = True
        publisher, _, rest = known.body.partition(b":")
        number = int(rest.partition(b":")[0] or 0)
        lane = (publisher, known.priority)
        if self.twin.rules.dead_letters or number:
            before = self._lanes.get(lane, -1)
            if not self.is_target:
                invariants.first_deliveries_are_in_order(self.about, lane, before, number)
            self._lanes[lane] = number

    is_target = False  # of dead letters, which come in any order
    holds_copies = False  # of a queue that is still in its place: that these are out is no delivery

    def takes_over(self, came: Set[bytes], lanes: Mapping[tuple[bytes, int], int]) -> None:
        """The place of the queue whose copies it has. `came`: what that one has handed out, or what may come late; `lanes`: the
        newest that it has handed out of each publisher and priority."""
        self.holds_copies = False
        self._lanes.update(lanes)
        for known in self.known.values():
            known.was_handed_out = known.body in came

    def _look(self) -> None:
        twin, rules = self.twin, self.twin.rules
        out = [one.message for client in twin.clients.values() for one in client.out]
        present = len(twin.ready) + len(twin.delayed) + len(twin.dead) + len(out)
        invariants.every_message_is_somewhere(self.about, len(self.known), present, self.gone)
        if rules.delivery_limit is not None and out:
            failures = max(message.failures for message in out)
            invariants.limit_of_deliveries_holds(self.about, failures, rules.delivery_limit)
        if rules.max_length is not None and not rules.reject_publish:
            invariants.limit_of_length_holds(self.about, len(twin.ready), rules.max_length)

    def _figures(self) -> tuple[Any, ...]:
        twin = self.twin
        out = sum(len(client.out) for client in twin.clients.values())
        return (
            len(twin.ready),
            out,
            len(twin.delayed),
            len(twin.dead),
            twin.active if twin.rules.single_active else None,
        )

    # What clients ask for

    def numbered(self, producer: bytes, number: int) -> bytes | None:
        """A producer's message of this number, as it was stored, however it was sent."""
        return self._numbers.get(producer, {}).get(number)
