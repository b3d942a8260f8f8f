"""Who published what is in a quorum queue: the log says it, and members that do not know the word come to the same state."""

from __future__ import annotations

from typing import Any

from broker.actors import ActorKind, LogActor
from broker.messages.confirms import NOBODY, Receipt
from broker.messages.message import DiedIn, Run
from broker.queues.queue_type import DeathReason, Outcome
from native.content import encode
from quorum.fifo import commands
from quorum.fifo.commands import (
    ENTRY_HEAD,
    CommandKind,
    Consume,
    ConsumerKey,
    Enqueue,
    Origins,
    SessionKey,
    decode_entry,
    encode_enqueue,
    entry_head,
)
from quorum.fifo.machine import QueueMachine
from quorum.fifo.origins import DeathPlace, OriginPart
from quorum.fifo.results import Result, ResultCode
from quorum.session import JOINED_BYTES_MAX, QueueSession
from raft.core.messages import Entry, EntryKind
from replicated.portions import PORTION_BYTES_MAX
from tests.unit.quorum.clients import Clients, Publisher
from tests.unit.quorum.queue_world import START, restored
from tests.unit.quorum.test_session import Line

ANN, BOB = (LogActor(ActorKind.CHANNEL, LogActor(ActorKind.CONNECTION, user=user)) for user in ("ann", "bob"))
NUMBERS = {ANN: 7, BOB: 9}


class SayingLine(Line):
    """Of a node whose log names actors."""

    def __init__(self) -> None:
        super().__init__()
        self.session = QueueSession(SessionKey(3, 7), self, lambda actor: NUMBERS[actor])

    def publish_by(
        self,
        actor: LogActor | None,
        number: int,
        *,
        key: str = "k",
        waited_for: bool = True,
        died_in: DiedIn | None = None,
    ) -> None:
        count = len(died_in.positions) if died_in is not None else 1
        content = encode(b"\0\0", b"m") * count
        run = Run("", key, content, count, count, publisher=actor, number=number, died_in=died_in)
        self.session.enqueue(run, Receipt(NOBODY, number, number, 1) if waited_for else None, joined=True)

    def said(self) -> list[Any]:
        self.session.flush()
        return self.ops()


def test_runs_of_several_channels_are_joined_and_each_has_its_part() -> None:
    line = SayingLine()
    for actor, number in ((ANN, 5), (ANN, 6), (BOB, 1), (ANN, 7), (ANN, 9)):
        line.publish_by(actor, number)
    line.publish_by(ANN, 10, waited_for=False)
    origins, enqueue = line.said()
    assert enqueue.messages == 6
    assert origins == Origins([
        OriginPart(7, 5, 2, True), OriginPart(9, 1, 1, True), OriginPart(7, 7, 1, True), OriginPart(7, 9, 1, True),
        OriginPart(7, 10, 1),
    ])  # fmt: skip


def test_one_operation_says_it_of_all_that_is_published_in_a_turn() -> None:
    line = SayingLine()
    line.publish_by(ANN, 1, key="a")
    line.publish_by(ANN, 2, key="b")
    line.session.say(commands.Tick())
    origins, *others = line.said()
    assert [type(op) for op in others] == [Enqueue, Enqueue, commands.Tick]
    assert origins == Origins([OriginPart(7, 1, 1, True), OriginPart(7, 2, 1, True)])
    line.answer(0, None, ResultCode.ACCEPTED, ResultCode.ACCEPTED, None)
    assert line.session.idle


def test_a_dead_letter_says_where_it_died_and_nobody_published_it() -> None:
    line = SayingLine()
    line.publish_by(None, 0, waited_for=False, died_in=DiedIn(70, (30, 9, 1), DeathReason.MAXLEN))
    line.publish_by(None, 0, waited_for=False, died_in=DiedIn(70, (31, 9, 1), DeathReason.MAXLEN))
    origins, enqueue = line.said()
    assert enqueue.messages == 2
    assert [part.died_in for part in origins.parts] == [DeathPlace(70, at, 9, 1, DeathReason.MAXLEN) for at in (30, 31)]
    assert {part.actor for part in origins.parts} == {0}


def test_messages_of_a_run_that_died_in_places_of_their_own_say_so_each() -> None:
    line = SayingLine()
    died_in = DiedIn(70, (30, 9, 1), DeathReason.EXPIRED, ((31, 9, 1), (32, 9, 1)))
    line.publish_by(None, 0, waited_for=False, died_in=died_in)
    origins, enqueue = line.said()
    assert enqueue.messages == 3
    places = [DeathPlace(70, at, 9, 1, DeathReason.EXPIRED) for at in (30, 31, 32)]
    assert [(part.messages, part.died_in) for part in origins.parts] == [(1, place) for place in places]


def test_what_is_not_published_and_a_log_that_names_nobody_say_nothing_of_it() -> None:
    line = SayingLine()
    line.session.say(commands.Tick())
    assert line.said() == [commands.Tick()]
    silent = Line()
    silent.publish(b"a")
    silent.session.flush()
    assert [type(op) for op in silent.ops()] == [Enqueue]


def test_the_log_says_who_published_wherever_the_client_is_connected() -> None:
    clients = Clients()
    clients.cluster.nodes[3].actor_number = NUMBERS.__getitem__
    record = clients.cluster.declare("q", [1, 2])
    Publisher(clients, 3, record).publish(2, publisher=ANN, number=40)
    clients.cluster.run(1)
    node = clients.cluster.nodes[1]
    store = node.store.group(node.queue(record).group)
    entries = store.entries(store.first_index(), store.last_index() + 1, 1 << 30)
    ops = [op for entry in entries if entry.kind == EntryKind.COMMAND for _, op in decode_entry(entry.data)[1]]
    assert [op for op in ops if isinstance(op, Origins)] == [Origins([OriginPart(7, 40, 2, True)])]
    assert not clients.cluster.refused


class OlderMachine(QueueMachine):
    """One that does not know ORIGINS."""

    def _apply(self, index: int, data: bytes) -> list[Result]:
        at = ENTRY_HEAD.size
        if data[at] != CommandKind.ORIGINS:
            return super()._apply(index, data)
        unknown = bytearray(data)
        unknown[at] = 99
        return super()._apply(index, bytes(unknown))


def test_a_member_that_does_not_know_the_word_comes_to_the_same_state() -> None:
    """Digests cover the bytes of entries, which are the same on all members: here they differ, so states are compared."""
    newer, older = QueueMachine(), OlderMachine()
    consumer = ConsumerKey(1, 1, 1)
    enqueue = [b"".join(encode_enqueue(SessionKey(1, 1), at, 2, 9, "", "q", b"")) for at in (1, 3)]
    origins = commands.encode(Origins([OriginPart(7, 1, 2, True)]))
    said = (
        origins + enqueue[0],
        commands.encode(Consume(consumer, "tag", prefetch=3)),
        origins + enqueue[1] + commands.encode(commands.Settle(consumer, Outcome.ACKNOWLEDGED, [(1, 1)])),
    )
    results = []
    for index, data in enumerate(said, 1):
        entry = Entry(index, 1, EntryKind.COMMAND, entry_head(START) + data)
        results = [machine.apply([entry]) for machine in (newer, older)]
        assert newer.take_effects() == older.take_effects()
    assert results == [[[None, ResultCode.ACCEPTED, None]], [[ResultCode.UNKNOWN, ResultCode.ACCEPTED, None]]]
    assert newer.figures() == older.figures()
    assert restored(newer).figures() == restored(older).figures()


def test_what_is_cut_off_says_nothing_and_harms_nobody() -> None:
    op = commands.encode(Origins([OriginPart(7, 1, 2, True, DeathPlace(1, 2, 3, 4, 0))]))
    machine = QueueMachine()
    cut = commands.OP_HEAD.pack(CommandKind.ORIGINS, len(op) - 6) + op[5:-1]
    for index, data in enumerate((cut, op), 1):
        assert machine.apply([Entry(index, 1, EntryKind.COMMAND, entry_head(START) + data)]) == [[None]]


def test_a_leader_that_does_not_know_the_word_answers_all_that_is_asked() -> None:
    line = SayingLine()
    line.publish_by(ANN, 1)
    line.said()
    line.answer(0, ResultCode.UNKNOWN, ResultCode.ACCEPTED)
    assert line.session.idle
    assert line.lost == 0


def test_what_says_who_published_counts_to_the_size_of_what_waits() -> None:
    """Of small dead letters the places where they died are most of it."""
    line = SayingLine()
    for at in range(40_000):
        line.publish_by(None, 0, waited_for=False, died_in=DiedIn(70, (at, 0, 0), DeathReason.EXPIRED))
    waiting = line.session.waiting_bytes
    line.session.flush()
    for number, (portion, _) in enumerate(line.sent):  # an answer lets more be sent
        line.answer(number, None, *[ResultCode.ACCEPTED] * (len(portion.askers) - 1))
    assert line.session.idle
    sizes = [sum(map(len, portion.ops)) for portion, _ in line.sent]
    assert max(sizes) < PORTION_BYTES_MAX + JOINED_BYTES_MAX
    assert sum(sizes) * 0.99 < waiting <= sum(sizes)
    assert line.session.waiting_bytes == 0
