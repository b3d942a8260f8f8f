"""Plays the scenarios of this folder: what is said to a quorum queue's machine, and what it asks for.

Messages and consumers have names. A consumer `alice` is on node 1 unless it says `on=2`. Time begins at 0 ms.

rules KEY=VALUE...             fields of quorum/fifo/rules.py, `none` for no limit; the others keep their defaults
publish MESSAGE... [priority=N] [ttl=MS] [size=BYTES] [node=N] [answered=N] [by=NAME:NUMBER]
                               one run; `publish again` says the last one again
consume NAME [prefetch=N] [priority=N] [timeout=MS] [on=NODE] [no_ack] [exclusive]
                               `consume again NAME` says what it said once more
settle NAME ack|requeue|release|reject|return MESSAGE...|ID..ID       messages that it holds, or ids whatever they are
cancel NAME [requeued|returned]                               get NAME [no_ack] [on=NODE]
purge                          as it was said before version 4; since then:
purge once NAME [answered=NAME]     and that one, and all before it, need not be remembered; `purge again NAME`
down NODE / up NODE / gone NODE        what the failure detector says of it
wait MS                        time passes; ticks come at the machine's deadlines
late MS                        time passes, and no tick comes until something is said
tick                           one comes now
arrived ID..ID                 dead letters that were held have arrived
upgrade VERSION                the machine begins with the oldest one
move on                        the machine ends, and another one goes on from its snapshot
state                          how things stand; live entries are named by their messages
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.queues.queue_type import Outcome
from quorum.fifo.commands import (
    PRIORITY_DEFAULT,
    Cancel,
    Consume,
    ConsumerKey,
    DeadSettled,
    Get,
    NodeDown,
    NodeUp,
    Policy,
    Producer,
    Purge,
    PurgeOnce,
    SessionGone,
    SessionKey,
    Settle,
    Tick,
    Upgrade,
    UponCancel,
    Window,
    encode_enqueue,
)
from quorum.fifo.effects import ActiveChanged, DeadHeld, DeadLetter, Deliver, Effect, TimedOut, Unused
from quorum.fifo.results import Gap, Purged, Result, ResultCode, TakenMessage
from quorum.fifo.rules import DeadLetters, Retry, Rules
from tests.scenarios.runner import check
from tests.unit.quorum.queue_world import START, QueueWorld

SCENARIOS = sorted(Path(__file__).parent.glob("*.txt"))
OUTCOMES = {
    "ack": Outcome.ACKNOWLEDGED,
    "requeue": Outcome.REQUEUED,
    "reject": Outcome.REJECTED,
    "return": Outcome.RETURNED,
    "release": Outcome.RELEASED,
}
WORDS: dict[str, Any] = {"none": None, "yes": True, "no": False}
for kind in (Retry, DeadLetters):
    WORDS |= {f"{kind.__name__}.{one.name.lower()}": one for one in kind}


class Player:
    """One scenario."""

    def __init__(self) -> None:
        self.world = QueueWorld()
        self.messages: list[str] = []  # by the number in which they were published
        self.keys: dict[str, ConsumerKey] = {}
        self.consumed: dict[str, Consume] = {}
        self.numbers: dict[int, int] = {}
        self.incarnations: dict[int, int] = {}
        self.sequences: dict[SessionKey, int] = {}
        self.said: list[str] = []
        self.last: tuple[Any, ...] = ()

    def run(self, line: str) -> list[str]:
        words = line.split()
        self.said = []
        plain = [word for word in words[1:] if "=" not in word]
        options = dict(word.split("=") for word in words[1:] if "=" in word)
        command: Callable[..., None] = getattr(self, f"do_{words[0]}")
        command(*plain, **options)
        return self.said

    def tell(self, *ops: Any) -> None:
        for result in self.world.say(*ops):
            self.said += self.told(result)
        self.perform()

    def perform(self) -> None:
        self.said += [self.shown(effect) for effect in self.world.take()]

    # Commands

    def do_rules(self, **fields: str) -> None:
        self.tell(Policy(Rules(**{key: value(key, text) for key, text in fields.items()})))

    def do_publish(self, *names: str, **options: str) -> None:
        if names == ("again",):
            self.tell(self.last)
            return
        session = self.session(int(options.get("node", 1)))
        sequence = self.sequences.get(session, 1)
        self.sequences[session] = sequence + len(names)
        self.last = encode_enqueue(
            session,
            sequence,
            len(names),
            int(options.get("size", 10)) * len(names),
            "",
            "q",
            b"",
            answered=int(options.get("answered", 0)),
            expiration_ms=int(options["ttl"]) if "ttl" in options else None,
            priority=int(options.get("priority", PRIORITY_DEFAULT)),
            producer=producer(options["by"]) if "by" in options else None,
        )
        world = self.world
        world.names[world.index + 1, 9] = len(self.messages)
        self.messages += names
        self.tell(self.last)

    def do_consume(self, name: str, *flags: str, **options: str) -> None:
        if name == "again":
            self.tell(self.consumed[flags[0]])
            return
        key = self.keys[name] = self.new_key(int(options.get("on", 1)))
        op = self.consumed[name] = Consume(
            key,
            name,
            int(options.get("prefetch", 0)),
            "no_ack" in flags,
            "exclusive" in flags,
            int(options.get("priority", 0)),
            int(options["timeout"]) if "timeout" in options else None,
        )
        self.tell(op)

    def do_settle(self, name: str, outcome: str, *what: str) -> None:
        ranges = [ids(one) for one in what] if ".." in what[0] else self.ids_of(self.keys[name], what)
        self.tell(Settle(self.keys[name], OUTCOMES[outcome], ranges))

    def do_cancel(self, name: str, held: str = "stays") -> None:
        self.tell(Cancel(self.keys[name], UponCancel[held.upper()]))

    def do_window(self, name: str, messages: str) -> None:
        self.tell(Window(self.keys[name], int(messages)))

    def do_get(self, name: str, *flags: str, on: str = "1") -> None:
        if name not in self.keys:
            self.keys[name] = self.new_key(int(on))
        self.tell(Get(self.keys[name], "no_ack" in flags))

    def do_purge(self, how: str = "", name: str = "", answered: str = "") -> None:
        if not how:
            self.tell(Purge())
            return
        if how == "once":
            self.keys[name] = self.new_key(1)
        key = self.keys[name]
        self.tell(PurgeOnce(key, self.keys[answered].number + 1 if answered else 0))

    def do_down(self, node: str) -> None:
        self.tell(NodeDown(self.session(int(node))))

    def do_up(self, node: str) -> None:
        self.tell(NodeUp(self.session(int(node))))

    def do_gone(self, node: str) -> None:
        """It comes back with a new incarnation."""
        self.tell(SessionGone(self.session(int(node))))
        self.incarnations[int(node)] = self.session(int(node)).incarnation + 1

    def do_wait(self, ms: str) -> None:
        world = self.world
        end = world.now + int(ms)
        while (deadline := world.machine.deadline) is not None and deadline <= end:
            world.now = max(world.now, deadline)
            self.said.append(f"at {world.now - START} ms")
            self.tell(Tick())
            if self.said[-1].startswith("at "):
                self.said.pop()
        world.now = end

    def do_late(self, ms: str) -> None:
        self.world.now += int(ms)

    def do_tick(self) -> None:
        self.tell(Tick())

    def do_arrived(self, what: str) -> None:
        self.tell(DeadSettled([ids(what)]))

    def do_upgrade(self, version: str) -> None:
        self.tell(Upgrade(int(version)))

    def do_move(self, on: str) -> None:
        before = self.world.machine
        self.world.machine = self.world.restored()
        assert self.world.machine.state_digest() == before.state_digest()

    def do_state(self) -> None:
        machine = self.world.machine
        figures = machine.figures()
        self.said.append(f"ready {self.names_of(machine.browse(0, 1 << 30)) or 'nothing'}")
        for key in machine.state.consumers.all:
            held = self.names_of(machine.checked_out(key)) or "nothing"
            status = [one for one in machine.consumer_figures() if one.key == key]
            shown = (
                f"{status[0].status}{', active' if status[0].active else ''}" if status else "only for what it holds"
            )
            self.said.append(f"{self.name_of(key)} holds {held}; {shown}")
        if machine.suspected():
            self.said.append(f"suspected {' '.join(f'node {key.node}' for key in sorted(machine.suspected()))}")
        if figures.delayed:
            self.said.append(f"delayed {figures.delayed}")
        if figures.dead:
            dead = machine.dead_letters(1, 1000)
            self.said.append(
                "dead " + ", ".join(f"{one.first_id}:{self.names_of([one])} {reason(one)}" for one in dead)
            )
        self.said.append(f"live entries {' '.join(map(str, machine.live_entries())) or 'none'}")

    # Names

    def session(self, node: int) -> SessionKey:
        return SessionKey(node, self.incarnations.get(node, 1))

    def new_key(self, node: int) -> ConsumerKey:
        self.numbers[node] = self.numbers.get(node, 0) + 1
        return ConsumerKey(node, self.session(node).incarnation, self.numbers[node])

    def name_of(self, key: ConsumerKey) -> str:
        return next(name for name, one in self.keys.items() if one == key)

    def names_of(self, effects: list[Any]) -> str:
        return " ".join(self.messages[number] for effect in effects for number in self.world.messages(effect))

    def ids_of(self, key: ConsumerKey, names: tuple[str, ...]) -> list[tuple[int, int]]:
        held = self.world.held(key.number, SessionKey(key.node, key.incarnation))
        by_name = {self.messages[number]: message_id for message_id, number in held.items()}
        return [(by_name[name], 1) for name in names]

    def told(self, result: Result) -> list[str]:
        match result:
            case None | ResultCode.ACCEPTED:
                return []
            case Gap(expected):
                return [f"something is missing before it, from {expected} on"]
            case Purged(count):
                return [f"{count} purged"]
            case TakenMessage(_, piece, failed, acquired, remaining):
                name = self.messages[self.world.name(piece.entry, piece.offset, piece.first)]
                return [f"got {name}{counted(failed, acquired)}, {remaining} remain"]
            case _:
                return [result.name.lower().replace("_", " ")]

    def shown(self, effect: Effect) -> str:
        match effect:
            case Deliver(key, first_id, _, failed, acquired):
                return f"{self.name_of(key)} gets {self.names_of([effect])} as {first_id}{counted(failed, acquired)}"
            case DeadLetter(_, _, failed, acquired):
                return f"dead: {self.names_of([effect])} {reason(effect)}{counted(failed, acquired)}"
            case TimedOut(key):
                return f"{self.name_of(key)} has timed out"
            case ActiveChanged(active):
                return f"{self.name_of(active)} is active" if active is not None else "nobody is active"
            case DeadHeld():
                return "dead letters are held"
            case Unused():
                return "the queue is unused"


def value(key: str, text: str) -> Any:
    names = {"retry": "Retry.", "dead_letters": "DeadLetters."}
    word = names.get(key, "") + text
    return WORDS[word] if word in WORDS else int(text)


def producer(text: str) -> Producer:
    name, _, number = text.partition(":")
    return Producer(name.encode(), int(number))


def ids(text: str) -> tuple[int, int]:
    first, _, last = text.partition("..")
    return int(first), int(last) - int(first) + 1


def reason(effect: Any) -> str:
    return str(effect.reason.name.lower().replace("_", " "))


def counted(failed: int, acquired: int) -> str:
    """Nothing for what nobody has had before."""
    return f" (had {acquired} times, {failed} failed)" if acquired or failed else ""


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenario(path: Path, rewrite: bool) -> None:
    assert path.read_text().startswith("# "), f"{path.name} does not begin with its story"
    check(path, Player().run, rewrite=rewrite)
