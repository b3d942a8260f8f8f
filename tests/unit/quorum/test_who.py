"""Who the consumers of quorum queues are: the log says it, and members that do not know the word come to the same state."""

from __future__ import annotations

from typing import Any

from broker.actors import ActorKind, LogActor
from quorum.fifo.commands import (
    CommandKind,
    Consume,
    ConsumerKey,
    Get,
    PurgeOnce,
    SessionKey,
    Who,
    decode_entry,
    encode,
    encode_enqueue,
    entry_head,
)
from quorum.fifo.machine import QueueMachine
from quorum.fifo.results import Result, ResultCode
from raft.core.messages import Entry, EntryKind
from tests.unit.quorum.clients import Clients, Taker
from tests.unit.quorum.queue_world import START, restored

CONSUMER = ConsumerKey(1, 1, 1)
ANN = LogActor(ActorKind.CONSUMER, tag="c3")


class OlderMachine(QueueMachine):
    """One that does not know WHO."""

    def _apply_rare(self, data: bytes, at: int) -> Result:
        return ResultCode.UNKNOWN if data[at] == CommandKind.WHO else super()._apply_rare(data, at)


def said(clients: Clients, record: Any) -> list[Any]:
    """What the log of the queue says of consumers, as a node with a member has it."""
    node = clients.cluster.nodes[1]
    store = node.store.group(node.queue(record).group)
    entries = store.entries(store.first_index(), store.last_index() + 1, 1 << 30)
    ops = [op for entry in entries if entry.kind == EntryKind.COMMAND for _, op in decode_entry(entry.data)[1]]
    return [op for op in ops if isinstance(op, Consume | Get | PurgeOnce | Who)]


def test_the_log_says_which_actor_a_consumer_is_wherever_its_client_is_connected() -> None:
    clients = Clients()
    clients.cluster.nodes[3].actor_number = lambda actor: 7 if actor is ANN else 0
    record = clients.cluster.declare("q", [1, 2])
    Taker(clients, 3, record, actor=ANN)
    Taker(clients, 2, record, actor=LogActor(ActorKind.CONSUMER, tag="c2"))  # on a node that says nothing of actors
    clients.cluster.run(1)
    ops = said(clients, record)
    consumes = {op.consumer: op.tag for op in ops if isinstance(op, Consume)}
    (who,) = [op for op in ops if isinstance(op, Who)]
    assert (consumes[who.consumer], who.actor) == ("c3", 7)
    assert sorted(consumes.values()) == ["c2", "c3"]
    assert not clients.cluster.refused


def test_the_log_says_who_got_a_message_without_consuming_and_who_purged_the_queue() -> None:
    clients = Clients()
    clients.cluster.nodes[3].actor_number = lambda actor: 7 if actor is ANN else 0
    record = clients.cluster.declare("q", [1, 2])
    _, queue = clients.of(3, record)
    queue.get(True, clients.now, ANN)
    queue.purge(clients.now, ANN)
    queue.purge(clients.now)
    clients.cluster.run(1)
    first, got, second, purged, by_nobody = said(clients, record)
    assert (first, second) == (Who(got.consumer, 7), Who(purged.asker, 7))
    assert (type(got), type(purged), type(by_nobody)) == (Get, PurgeOnce, PurgeOnce)
    assert not clients.cluster.refused


def test_a_member_that_does_not_know_who_a_consumer_is_comes_to_the_same_state() -> None:
    newer, older = QueueMachine(), OlderMachine()
    ops = (
        encode(Consume(CONSUMER, "tag", prefetch=2)) + encode(Who(CONSUMER, 9)),
        b"".join(encode_enqueue(SessionKey(1, 1), 1, 5, 50, "", "q", b"")),
        encode(Who(ConsumerKey(4, 4, 4), 1)),
    )
    for index, data in enumerate(ops, 1):
        entry = Entry(index, 1, EntryKind.COMMAND, entry_head(START) + data)
        results = [machine.apply([entry]) for machine in (newer, older)]
        assert newer.take_effects() == older.take_effects()
        assert newer.digest == older.digest
    assert results == [[[None]], [[ResultCode.UNKNOWN]]]
    assert newer.state_digest() == older.state_digest() == restored(older).state_digest()
