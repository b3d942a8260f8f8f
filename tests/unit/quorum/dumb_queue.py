"""The twin of quorum/fifo/machine.py that is too simple to be wrong: a list of messages, each looked at one by one.

It does everything in the obvious way, however slow, and shares nothing with the machine but the commands. What it tells is
what the machine tells, message by message: see `events`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from broker.queues.queue_type import Outcome
from quorum.fifo.commands import (
    Cancel,
    Consume,
    ConsumerKey,
    DeadSettled,
    Enqueue,
    Get,
    NodeDown,
    NodeUp,
    Op,
    Origins,
    Piece,
    Policy,
    Purge,
    PurgeOnce,
    Ranges,
    SessionGone,
    SessionKey,
    Settle,
    Upgrade,
    UponCancel,
    Who,
    Window,
    Withdraw,
    decode_entry,
)
from quorum.fifo.effects import ActiveChanged, DeadLetter, Deliver, Effect, TimedOut, Unused
from quorum.fifo.results import Gap, Purged, Result, ResultCode, TakenMessage
from quorum.fifo.rules import DeadLetters, Retry, Rules

Event = tuple[Any, ...]


@dataclass(eq=False)
class Message:
    """One. Two that look alike are two, so lists find it by what it is."""

    where: tuple[int, int, int]  # entry, offset of the op, place in the run
    size: int
    priority: int
    expires_at: float
    failures: int = 0
    acquired: int = 0
    came_back: int | None = None  # the how manieth that came back; None: it is fresh
    in_line: bool = False  # it came back and goes before all others
    ready_at: int = 0  # of a delayed one

    @property
    def piece(self) -> Piece:
        return Piece(*self.where, 1)


@dataclass(eq=False)
class Out:
    message_id: int
    message: Message
    since: int


@dataclass
class Client:
    op: Consume
    next_id: int = 1
    out: list[Out] = field(default_factory=list)
    overdue: set[int] = field(default_factory=set)
    status: str = "up"
    suspected_at: int | None = None
    told_window: int | None = None  # instead of what it came with

    @property
    def window(self) -> int:
        if self.told_window is not None:
            return self.told_window
        return 2000 if self.op.no_ack or not self.op.prefetch else self.op.prefetch


@dataclass
class Told:
    """What a session has said."""

    next_sequence: int = 1
    rejected: set[int] = field(default_factory=set)
    numbers: set[int] = field(default_factory=set)
    purges: dict[int, int] = field(default_factory=dict)
    suspected: bool = False


class DumbQueue:
    def __init__(self) -> None:
        self.now = 0
        self.version = 1
        self.rules = Rules()
        self.ready: list[Message] = []
        self.delayed: list[Message] = []
        self.dead: dict[int, tuple[int, Message]] = {}
        self.clients: dict[ConsumerKey, Client] = {}
        self.line: list[ConsumerKey] = []
        self.active: ConsumerKey | None = None
        self.quiescing: ConsumerKey | None = None
        self.told: dict[SessionKey, Told] = {}
        self.gone: dict[int, int] = {}
        self.said: dict[bytes, set[int]] = {}  # numbers of producers
        self.actors: dict[ConsumerKey, int] = {}
        self.used_at = 0
        self.events: list[Event] = []
        self._dead_ids = 0
        self._returns = 0

    # Entries.

    def apply(self, index: int, data: bytes) -> list[Result]:
        time_ms, ops = decode_entry(data)
        if not self.now:
            self.used_at = time_ms
        self.now = max(self.now, time_ms)
        self.look_at_the_clock()
        results = []
        for offset, op in ops:
            results.append(self.do(index, offset, op))
            self.hand_out()
        return results

    def do(self, index: int, offset: int, op: Op) -> Result:
        match op:
            case Enqueue():
                return self.enqueue(index, offset, op)
            case Settle(key, outcome, ranges):
                return self.settle(key, outcome, self.known_ids(key, ranges))
            case Consume():
                return self.consume(op)
            case Cancel(key, held):
                if key in self.clients and self.clients[key].status != "get":
                    if held is not UponCancel.STAYS:
                        self.give_back(self.take_all(key), held is UponCancel.REQUEUED, held is UponCancel.REQUEUED)
                    self.remove(key)
            case Get(key, no_ack):
                return self.get(key, no_ack)
            case Purge():
                return Purged(self.purge())
            case PurgeOnce(key, answered):
                return self.purge_once(key, answered)
            case Withdraw(key, answered):
                return self.withdraw(key, answered, (op.entry, op.offset, op.message))
            case Policy(rules):
                self.change_rules(rules)
            case NodeDown(session):
                if session in self.told and not self.told[session].suspected:
                    self.suspect(session, True)
            case NodeUp(session):
                if session in self.told and self.told[session].suspected:
                    self.suspect(session, False)
            case SessionGone(session):
                self.end(session)
            case DeadSettled(ranges):
                for first, count in ranges:
                    for dead_id in range(first, first + count):
                        self.dead.pop(dead_id, None)
            case Upgrade(version):
                self.version = max(self.version, version)
            case Who(key, actor):
                self.actors[key] = actor
            case Origins():
                pass
            case Window(key, messages):
                if self.version < 6:
                    return ResultCode.UNKNOWN
                if key in self.clients and self.clients[key].status != "get":
                    self.clients[key].told_window = messages
        return None

    def enqueue(self, index: int, offset: int, op: Enqueue) -> Result:
        told = self.session(op.key)
        if told is None:
            return ResultCode.GONE
        told.rejected = {one for one in told.rejected if one >= op.answered}
        if op.sequence > told.next_sequence or op.sequence < told.next_sequence < op.sequence + op.messages:
            return Gap(told.next_sequence)
        if op.sequence < told.next_sequence:
            return ResultCode.REJECTED if op.sequence in told.rejected else ResultCode.DUPLICATE
        if op.producer is not None and max(self.said.get(op.producer.name, ()), default=-1) >= op.producer.number:
            told.next_sequence += 1
            return ResultCode.DUPLICATE
        sequences = range(op.sequence, op.sequence + op.messages)
        told.next_sequence = sequences.stop
        if self.rules.reject_publish and self.is_full_for(op.messages, op.body_bytes):
            told.rejected |= set(sequences)
            return ResultCode.REJECTED
        if op.producer is not None:
            self.said.setdefault(op.producer.name, set()).add(op.producer.number)
        lives = [ttl for ttl in (op.expiration_ms, self.rules.message_ttl_ms) if ttl is not None]
        for at in range(op.messages):
            size = op.body_bytes * (at + 1) // op.messages - op.body_bytes * at // op.messages
            expires_at = self.now + min(lives) if lives else float("inf")
            self.ready.append(Message((index, offset, at), size, op.priority, expires_at))
        return ResultCode.ACCEPTED

    def is_full_for(self, count: int, size: int) -> bool:
        room = 0 if self.ready else sum(self.room(key) for key in self.line)
        left = max(0, count - room)
        if not left:
            return False
        if self.rules.max_length is not None and len(self.ready) + len(self.dead) + left > self.rules.max_length:
            return True
        there = sum(one.size for one in self.ready) + sum(one.size for _, one in self.dead.values())
        limit = self.rules.max_length_bytes
        return limit is not None and there + size * left // count > limit

    def known_ids(self, key: ConsumerKey, ranges: Ranges) -> list[int]:
        """In order. A range may name more than there ever was."""
        client = self.clients.get(key)
        known = sorted({out.message_id for out in client.out} | client.overdue) if client is not None else []
        return [one for first, count in ranges for one in known if first <= one < first + count]

    def settle(self, key: ConsumerKey, outcome: Outcome, ids: list[int]) -> Result:
        """In this order: what is settled first comes back first."""
        client = self.clients.get(key)
        if client is None:
            return None
        held = {out.message_id: out.message for out in client.out}
        taken = [held.pop(message_id) for message_id in ids if message_id in held]
        client.out = [out for out in client.out if out.message_id not in ids]
        client.overdue -= set(ids)
        if outcome == Outcome.REQUEUED:
            self.give_back(taken, failed=True)
        elif outcome == Outcome.REJECTED:
            for message in taken:
                message.failures += self.version >= 2
                message.acquired += self.version >= 2
                self.die(0, message)
        elif outcome == Outcome.RELEASED:
            self.give_back(taken, failed=self.version < 2)
        elif outcome == Outcome.RETURNED:
            self.give_back(taken, seen=False)
        if client.status == "late" and not client.overdue:
            client.status = "up"
        return None

    def consume(self, op: Consume) -> Result:
        told = self.session(SessionKey(*op.consumer[:2]))
        if told is None:
            return ResultCode.GONE
        if op.consumer.number in told.numbers:
            return None if self.version < 3 or op.consumer in self.clients else ResultCode.IN_USE
        told.numbers.add(op.consumer.number)
        others = [one for one in self.clients.values() if one.status not in ("get", "cancelled")]
        alone = op.exclusive and (others or self.rules.single_active)
        if alone or any(one.op.exclusive for one in others):
            return ResultCode.IN_USE
        self.clients[op.consumer] = Client(op, suspected_at=self.now if told.suspected else None)
        self.used_at = self.now
        return None

    def get(self, key: ConsumerKey, no_ack: bool) -> Result:
        told = self.session(SessionKey(*key[:2]))
        if told is None:
            return ResultCode.GONE
        if key.number in told.numbers:
            for out in self.clients[key].out if key in self.clients and self.clients[key].status == "get" else []:
                return TakenMessage(
                    out.message_id, out.message.piece, out.message.failures, out.message.acquired, len(self.ready)
                )
            return None
        told.numbers.add(key.number)
        if self.rules.single_active:
            return ResultCode.NOT_ACTIVE
        self.used_at = self.now
        if not self.ready:
            return None
        message = self.next_message()
        if not no_ack:
            self.clients[key] = Client(Consume(key, ""), 2, [Out(1, message, self.now)], status="get")
            self.clients[key].suspected_at = self.now if told.suspected else None
        return TakenMessage(1, message.piece, message.failures, message.acquired, len(self.ready))

    def purge(self) -> int:
        count = len(self.ready) + len(self.delayed)
        self.ready, self.delayed = [], []
        return count

    def purge_once(self, key: ConsumerKey, answered: int) -> Result:
        if self.version < 4:
            return ResultCode.UNKNOWN
        return self.once(key, answered, self.purge)

    def withdraw(self, key: ConsumerKey, answered: int, where: tuple[int, int, int]) -> Result:
        if self.version < 10:
            return ResultCode.UNKNOWN
        return self.once(key, answered, lambda: self.take_out(where))

    def take_out(self, where: tuple[int, int, int]) -> int:
        there = [one for one in self.ready if one.where == where and one.came_back is None]
        self.ready = [one for one in self.ready if one not in there]
        return len(there)

    def once(self, key: ConsumerKey, answered: int, purge: Callable[[], int]) -> Result:
        told = self.session(SessionKey(*key[:2]))
        if told is None:
            return ResultCode.GONE
        told.purges = {number: count for number, count in told.purges.items() if number >= answered}
        if key.number not in told.numbers:
            told.numbers.add(key.number)
            told.purges[key.number] = purge()
        return Purged(told.purges[key.number]) if key.number in told.purges else None

    def change_rules(self, rules: Rules) -> None:
        in_order = sorted((one for one in self.ready if one.came_back is not None), key=self.place)
        if rules.requeue_in_place != self.rules.requeue_in_place:
            for at, message in enumerate(in_order):
                message.came_back = at
                if not rules.requeue_in_place or self.version < 8:
                    message.in_line = not rules.requeue_in_place
            self._returns = max(self._returns, len(in_order))
        if rules.single_active != self.rules.single_active:
            if self.quiescing is not None and self.quiescing in self.clients:
                self.clients[self.quiescing].status = "up"
            self.active = self.quiescing = None
        self.rules = rules
        self.line_up()
        self.look_at_the_clock()

    def end(self, session: SessionKey) -> None:
        self.gone[session.node] = max(session.incarnation, self.gone.get(session.node, 0))
        for key in list(self.clients):
            if key.node == session.node and key.incarnation <= self.gone[session.node]:
                self.give_back(self.take_all(key))
                self.remove(key)
        self.told = {
            key: told
            for key, told in self.told.items()
            if key.node != session.node or key.incarnation > self.gone[session.node]
        }

    # Messages.

    def place(self, message: Message) -> Event:
        if message.in_line:
            return (-100, message.came_back)
        return (-message.priority, message.where)

    def next_message(self) -> Message:
        first = min(self.ready, key=self.place)
        self.ready.remove(first)
        return first

    def give_back(self, messages: list[Message], failed: bool = False, seen: bool = True) -> None:
        rules = self.rules
        for message in messages:
            message.failures += failed and seen
            message.acquired += seen
            if failed and rules.delivery_limit is not None and message.failures > rules.delivery_limit:
                self.die(3, message)
            elif message.expires_at <= self.now:
                self.die(1, message)
            elif delay := self.delay(message, failed):
                message.ready_at = self.now + delay
                self.delayed.append(message)
            else:
                self.make_ready(message, seen)

    def make_ready(self, message: Message, seen: bool = True) -> None:
        self._returns += 1
        message.came_back = self._returns
        message.in_line = not self.rules.requeue_in_place and (seen or self.version < 9)
        self.ready.append(message)

    def delay(self, message: Message, failed: bool) -> int:
        if self.rules.retry not in (Retry.ALL, Retry.FAILED if failed else Retry.RETURNED):
            return 0
        delay = self.rules.retry_min_ms * max(1, message.failures)
        return min(delay, delay if self.rules.retry_max_ms is None else self.rules.retry_max_ms)

    def die(self, reason: int, message: Message) -> None:
        if self.rules.dead_letters is DeadLetters.AT_MOST_ONCE:
            self.events.append(("dead", reason, message.where, message.failures, message.acquired))
        elif self.rules.dead_letters is DeadLetters.AT_LEAST_ONCE:
            self._dead_ids += 1
            self.dead[self._dead_ids] = (reason, message)

    def hand_out(self) -> None:
        self.line_up()
        while self.ready and self.line:
            highest = max(self.clients[key].op.priority for key in self.line)
            equals = [key for key in self.line if self.clients[key].op.priority == highest]
            key = equals[0]
            client = self.clients[key]
            for _ in range(min(self.room(key), -(-len(self.ready) // len(equals)))):
                message = self.next_message()
                client.out.append(Out(client.next_id, message, self.now))
                self.events.append(("deliver", key, client.next_id, message.where, message.failures, message.acquired))
                client.next_id += 1
            self.line.remove(key)
            if self.room(key):
                self.line.append(key)
        for message in self.expired(self.ready):
            self.die(1, message)
        rules = self.rules
        while not rules.reject_publish and (
            (rules.max_length is not None and len(self.ready) > rules.max_length)
            or (rules.max_length_bytes is not None and sum(one.size for one in self.ready) > rules.max_length_bytes)
        ):
            self.die(2, self.next_message())

    def expired(self, messages: list[Message]) -> list[Message]:
        """Take them out."""
        found = [one for one in messages if one.expires_at <= self.now]
        if found:
            found.sort(key=lambda one: (one.came_back is None, self.place(one)))
            messages[:] = [one for one in messages if one.expires_at > self.now]
        return found

    # Consumers.

    def session(self, key: SessionKey) -> Told | None:
        if key.incarnation <= self.gone.get(key.node, -1):
            return None
        return self.told.setdefault(key, Told())

    def suspect(self, session: SessionKey, suspected: bool) -> None:
        self.told[session].suspected = suspected
        for key, client in self.clients.items():
            if key[:2] == session:
                client.suspected_at = self.now if suspected else None
                if self.rules.single_active:
                    self.elect()

    def room(self, key: ConsumerKey) -> int:
        return self.clients[key].window - len(self.clients[key].out)

    def take_all(self, key: ConsumerKey) -> list[Message]:
        taken = [out.message for out in self.clients[key].out]
        self.clients[key].out = []
        return taken

    def remove(self, key: ConsumerKey) -> None:
        client = self.clients[key]
        if client.status != "get":
            client.status = "cancelled"
        client.overdue = set()
        if (
            all(one.status in ("cancelled", "get") for one in self.clients.values())
            and self.rules.expires_ms is not None
        ):
            self.used_at = self.now

    def is_idle(self) -> bool:
        return all(one.status in ("cancelled", "get") for one in self.clients.values())

    def line_up(self) -> None:
        self.clients = {
            key: one for key, one in self.clients.items() if one.out or one.status not in ("cancelled", "get")
        }
        if self.rules.single_active:
            self.elect()
        for key, client in self.clients.items():
            stands = client.status == "up" and client.suspected_at is None and self.room(key) > 0
            if self.rules.single_active:
                stands = stands and key == self.active
            if stands and key not in self.line:
                self.line.append(key)
            elif not stands and key in self.line:
                self.line.remove(key)
        self.line = [key for key in self.line if key in self.clients]

    def elect(self) -> None:
        waits_for = self.clients.get(self.quiescing) if self.quiescing is not None else None
        if waits_for is not None and waits_for.status == "quiescing":
            if waits_for.out and waits_for.suspected_at is None:
                return
            waits_for.status = "up"
        self.quiescing = None
        able = [key for key, one in self.clients.items() if one.status == "up" and one.suspected_at is None]
        best = max(able, key=lambda key: self.clients[key].op.priority, default=None)
        if self.active not in able:
            self.active = best
        elif best is not None and self.active is not None:
            active = self.clients[self.active]
            if self.clients[best].op.priority > active.op.priority:
                if active.out:
                    active.status, self.quiescing, self.active = "quiescing", self.active, None
                else:
                    self.active = best

    # Time.

    def look_at_the_clock(self) -> None:
        for message in self.expired(self.ready):
            self.die(1, message)
        for message in sorted(self.delayed, key=lambda one: (min(one.ready_at, one.expires_at), one.where)):
            if message.expires_at <= self.now:
                self.delayed.remove(message)
                self.die(1, message)
            elif message.ready_at <= self.now:
                self.delayed.remove(message)
                self.make_ready(message)
        for key, client in self.clients.items():
            timeout = self.rules.consumer_timeout_ms if client.op.timeout_ms is None else client.op.timeout_ms
            late = [out for out in client.out if timeout and out.since + timeout <= self.now]
            if late:
                client.out = [out for out in client.out if out not in late]
                self.give_back([out.message for out in late])
                if client.status not in ("get", "cancelled"):
                    client.overdue |= {out.message_id for out in late}
                    client.status = "late"
                    self.events.append(("late", key))
            suspected_at = float("inf") if client.suspected_at is None else client.suspected_at
            if suspected_at + self.rules.disconnected_timeout_ms <= self.now:
                self.give_back(self.take_all(key))
        if self.rules.expires_ms is not None and self.is_idle() and self.used_at + self.rules.expires_ms <= self.now:
            self.used_at = self.now
            self.events.append(("unused",))
        self.hand_out()

    def due(self) -> float:
        """The next time at which something happens by itself."""
        times = [one.expires_at for one in self.ready]
        times += [min(one.ready_at, one.expires_at) for one in self.delayed]
        for client in self.clients.values():
            timeout = self.rules.consumer_timeout_ms if client.op.timeout_ms is None else client.op.timeout_ms
            if client.out and timeout:
                times.append(client.out[0].since + timeout)
            if client.out and client.suspected_at is not None:
                times.append(client.suspected_at + self.rules.disconnected_timeout_ms)
        if self.rules.expires_ms is not None and self.is_idle():
            times.append(self.used_at + self.rules.expires_ms)
        return min(times, default=float("inf"))


def events(effects: list[Effect]) -> list[Event]:
    """The machine's effects, message by message, as the dumb queue tells them. Who is active it tells otherwise."""
    found: list[Event] = []
    for effect in effects:
        match effect:
            case Deliver(key, first_id, (entry, offset, first, length), failures, acquired):
                found += [
                    ("deliver", key, first_id + at, (entry, offset, first + at), failures, acquired)
                    for at in range(length)
                ]
            case DeadLetter(reason, (entry, offset, first, length), failures, acquired):
                found += [
                    ("dead", int(reason), (entry, offset, first + at), failures, acquired) for at in range(length)
                ]
            case TimedOut(key):
                found.append(("late", key))
            case Unused():
                found.append(("unused",))
            case ActiveChanged():
                pass
    return found
