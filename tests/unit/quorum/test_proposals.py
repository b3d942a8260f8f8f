"""What another node may have proposed to a queue's group: all that a session says, and nothing that a machine cannot carry."""

from __future__ import annotations

import random

import pytest

from broker.queues.queue_type import Outcome
from native.content import encode, skip
from quorum.bodies import body_of
from quorum.fifo import commands
from quorum.fifo.commands import (
    ID_END,
    OP_HEAD,
    SETTLE_HEAD,
    TAG_BYTES_MAX,
    Cancel,
    CommandKind,
    Consume,
    ConsumerKey,
    DeadSettled,
    Get,
    NodeDown,
    NodeUp,
    Op,
    Origins,
    Policy,
    Producer,
    Purge,
    PurgeOnce,
    SessionGone,
    SessionKey,
    Tick,
    Upgrade,
    Who,
    Window,
    Withdraw,
    encode_enqueue,
    encode_settle,
)
from quorum.fifo.effects import Deliver
from quorum.fifo.machine import QueueMachine
from quorum.fifo.origins import DeathPlace, OriginPart
from quorum.fifo.results import ResultCode
from quorum.fifo.rules import Rules
from quorum.fifo.snapshot import decode_snapshot, encode_snapshot
from quorum.fifo.versions import VERSION_NEWEST, VERSION_OLDEST
from quorum.letters import QUORUM_TOPIC
from quorum.proposals import LEADER_KINDS, SESSION_KINDS, check
from raft.core.messages import Entry
from replicated.letters import AnswerStatus, GroupLetter, decode_answer, propose, refused
from replicated.peer_letters import RefusedProposal
from tests.unit.quorum.clients import Clients, Publisher, Taker

ME = SessionKey(2, 5)
KEY = ConsumerKey(2, 5, 1)
CONTENT = encode(b"\0\0", b"one") + encode(b"\0\0", b"three")


def enqueue(key: SessionKey = ME, messages: int = 2, body_bytes: int = 8, sequence: int = 1, **more: object) -> bytes:
    return b"".join(encode_enqueue(key, sequence, messages, body_bytes, "x", "key", CONTENT, **more))  # type: ignore[arg-type]


SAID = (
    enqueue(),
    b"".join(encode_enqueue(ME, 1, 1, 3, "x", "k", encode(b"\0\0", b"one"), producer=Producer(b"p", 7))),
    encode_settle(KEY, Outcome.RELEASED, [(1, 2), (9, 1)]),
    commands.encode(Consume(KEY, "t" * TAG_BYTES_MAX, 10)),
    commands.encode(Cancel(KEY)),
    commands.encode(Get(KEY)),
    commands.encode(Purge()),
    commands.encode(PurgeOnce(KEY, 1)),
    commands.encode(Withdraw(KEY, 1, 5, 9, 0)),
    commands.encode(Window(KEY, 0)),
    commands.encode(Who(KEY, 9)),
    commands.encode(Origins([OriginPart(9, 1, 2, True), OriginPart(0, 0, 1, died_in=DeathPlace(1, 2, 3, 4, 0))])),
    commands.encode(Tick()),
)


def test_of_every_op_it_is_known_who_may_say_it() -> None:
    """One that is in neither set would be let through unchecked."""
    assert LEADER_KINDS | SESSION_KINDS | {CommandKind.ENQUEUE, CommandKind.SETTLE} == set(CommandKind)
    assert not LEADER_KINDS & SESSION_KINDS


def test_all_that_a_session_says_may_be_proposed() -> None:
    check(b"".join(SAID), 0, 2)
    check(b"letter" + SAID[0], 6, 2)


@pytest.mark.parametrize(
    "op",
    [Upgrade(99), Upgrade(2), Policy(Rules()), NodeDown(ME), NodeUp(ME), SessionGone(ME), DeadSettled([(1, 1)])],
    ids=lambda op: type(op).__name__,
)
def test_what_only_the_leader_says_is_refused(op: Op) -> None:
    with pytest.raises(RefusedProposal, match="is not for other nodes to say"):
        check(enqueue() + commands.encode(op), 0, 2)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\1\2", "the op at 0 is cut off: 2 bytes"),
        (SAID[0][:-1], "the op at 0 has"),
        (OP_HEAD.pack(1, 3) + b"abc", "the ENQUEUE at 0 is cut off: 8 bytes"),
        (OP_HEAD.pack(2, 3) + b"abc", "its ranges are cut off"),
        (OP_HEAD.pack(5, 3) + b"abc", "no whole op at 0"),
        (enqueue(messages=3), "damaged content|says 3 messages"),
        (enqueue(messages=1), "says 1 messages"),
        (enqueue(messages=0), "an ENQUEUE of 0 messages"),
        (enqueue(body_bytes=1 << 63), "says 2 messages with 9223372036854775808 bytes"),
        (enqueue(sequence=ID_END - 1), "an ENQUEUE of 2 messages from"),
        (enqueue(answered=2), "answered below 2"),
        (enqueue(SessionKey(3, 5)), "node 2 speaks for a session of node 3"),
        (encode_settle(ConsumerKey(1, 5, 1), Outcome.ACKNOWLEDGED, []), "node 2 speaks for a session of node 1"),
        (encode_settle(KEY, Outcome.ACKNOWLEDGED, [(ID_END, 1)]), "a SETTLE of 1 messages from"),
        (commands.encode(Window(ConsumerKey(3, 5, 1), 5)), "node 2 speaks for a session of node 3"),
        (commands.encode(Who(ConsumerKey(3, 5, 1), 5)), "node 2 speaks for a session of node 3"),
        (OP_HEAD.pack(17, 3) + b"abc", "no whole op at 0"),
        (OP_HEAD.pack(17, 18) + commands.encode(Origins([OriginPart(9, 1, 2)]))[5:] + b"a", "no whole op at 0"),
        (commands.encode(Get(ConsumerKey(3, 5, 1))), "node 2 speaks for a session of node 3"),
        (commands.encode(Consume(KEY, "t" * (TAG_BYTES_MAX + 1))), "a CONSUME with a tag of 65536 characters"),
    ],
)
def test_what_no_member_could_carry_is_refused_with_the_reason(data: bytes, why: str) -> None:
    with pytest.raises(RefusedProposal, match=why):
        check(data, 0, 2)


def test_no_node_has_anything_done_in_the_name_of_another_one_s_session() -> None:
    other = ConsumerKey(3, 5, 1)
    for op in (Consume(other, "t"), Cancel(other), Get(other), PurgeOnce(other, 1), Withdraw(other, 1, 5, 9, 0)):
        with pytest.raises(RefusedProposal, match="node 2 speaks for a session of node 3"):
            check(commands.encode(op), 0, 2)


def test_an_op_of_a_kind_that_is_unknown_here_is_let_through_and_does_nothing() -> None:
    """A later version asks with it whether the queue's machine knows it."""
    op = OP_HEAD.pack(200, 3) + b"new"
    check(op, 0, 2)
    machine = QueueMachine()
    assert machine.apply([Entry(1, 1, 0, commands.entry_head(5) + op)]) == [[ResultCode.UNKNOWN]]


@pytest.mark.parametrize("version", range(VERSION_OLDEST, VERSION_NEWEST + 1))
@pytest.mark.parametrize("outcome", [5, 255])
def test_an_outcome_that_is_unknown_here_is_let_through_and_gives_the_messages_back(version: int, outcome: int) -> None:
    """It was refused, and whoever said it said it again for ever."""

    def entry(index: int, *ops: bytes) -> Entry:
        return Entry(index, 1, 0, commands.entry_head(index) + b"".join(ops))

    def state_after(settle: bytes) -> bytes:
        machine = QueueMachine()
        machine.apply([entry(1, commands.encode(Upgrade(version)), commands.encode(Consume(KEY, "c")), enqueue())])
        assert machine.state.consumers.all[KEY].checked_out
        assert machine.apply([entry(2, settle)]) == [[None]]
        machine.state.digest = 0  # of the bytes of the entries, too
        return b"".join(encode_snapshot(machine.state))

    returned = encode_settle(KEY, Outcome.RETURNED, [(0, 4)])
    unknown = bytearray(returned)
    unknown[SETTLE_HEAD.size - 1] = outcome
    check(bytes(unknown), 0, 2)
    assert state_after(bytes(unknown)) == state_after(returned)
    assert state_after(returned) != state_after(encode_settle(KEY, Outcome.ACKNOWLEDGED, [(0, 4)]))


def test_whatever_passes_can_be_applied_kept_and_delivered() -> None:
    """Bytes of real ops with some of them changed. What is refused harms nobody; the rest is carried by machine, snapshot and
    consumer."""
    random_ = random.Random(5)
    passed = 0
    for _ in range(4_000):
        data = bytearray(b"".join(random_.choices(SAID, k=3)))
        for _ in range(random_.randint(0, 3)):
            data[random_.randrange(len(data))] = random_.choice((0, 1, 0x7F, 0xFF, random_.randrange(256)))
        try:
            check(bytes(data), 0, 2)
        except RefusedProposal:
            continue
        passed += 1
        machine = QueueMachine()
        machine.apply([Entry(1, 1, 0, commands.entry_head(5) + commands.encode(Consume(KEY, "c")))])
        entry = commands.entry_head(6) + bytes(data)
        machine.apply([Entry(2, 1, 0, entry)])
        decode_snapshot(b"".join(encode_snapshot(machine.state)))
        for effect in machine.take_effects():
            if isinstance(effect, Deliver):
                body = body_of(entry, effect.piece)
                skip(body.content, body.position, effect.piece.length)
    assert passed > 500


def test_a_node_that_is_refused_is_told_why_and_keeps_its_link() -> None:
    """`Upgrade(99)` of another node was committed, and stopped every node at each start."""
    clients = Clients()
    cluster = clients.cluster
    record = cluster.declare("q", [1, 2, 3], home=1)
    leader = cluster.leader(record)
    other = next(node for node in cluster.alive() if node is not leader)
    answers: list[bytes | None] = []
    letter = propose(leader.queue(record).group, [commands.encode(Upgrade(99))])
    other.calls.ask(leader.number, QUORUM_TOPIC, letter, answers.append)
    cluster.run(1)
    assert answers[0] is not None
    answer = decode_answer(answers[0])
    assert (answer.status, answer.refusal) == (AnswerStatus.REFUSED, "UPGRADE is not for other nodes to say")
    assert cluster.refused == [
        (leader.number, f"what node {other.number} has to say is not proposed: UPGRADE is not for other nodes to say")
    ]
    assert leader.kind.refusals == 1
    assert other.calls.connected(leader.number)
    publisher, taker = Publisher(clients, other.number, record), Taker(clients, other.number, record)
    publisher.publish(3)
    cluster.run(1)
    assert taker.bodies == publisher.confirmed == publisher.all


def test_who_is_refused_says_so_too_and_says_it_again() -> None:
    clients = Clients()
    cluster = clients.cluster
    record = cluster.declare("q", [1, 2, 3], home=1)
    leader = cluster.leader(record)
    other = next(node for node in cluster.alive() if node is not leader)
    peer_letters = leader.kind._parts.letters
    real = peer_letters._asked

    def refuses(kind: GroupLetter, *more: object) -> None:
        if kind is GroupLetter.PROPOSE:
            more[-1](refused(leader.number, "it is no good"))  # type: ignore[operator]
        else:
            real(kind, *more)  # type: ignore[arg-type]

    peer_letters._asked = refuses  # type: ignore[assignment]
    publisher = Publisher(clients, other.number, record)
    publisher.publish(1)
    cluster.run(0.5)
    assert publisher.confirmed == []
    text = f"node {leader.number} does not take what this node has to say: it is no good"
    assert (other.number, text) in cluster.refused
    peer_letters._asked = real  # type: ignore[method-assign]
    cluster.run(1)
    assert publisher.confirmed == publisher.all
