"""Offsets that clients store, the last ids of publishers, and where a stream is, as clients on any node see them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from broker.errors import NotFound, ResourceExhausted
from broker.pending import Pending
from broker.queues.stream_contract import StreamContract, StreamFigures
from broker.records import QueueRecord
from raft.core.errors import RaftError, Unknown
from raft.core.messages import NodeId
from replicated.peer_letters import RefusedProposal
from replicated.reply_timeout import WAIT_MS
from stream.chunks.entries import ChunkEntry, StoredOffsets, decode
from stream.chunks.store_ops import Storing, encode_storing, read_storing
from stream.group.machine import StreamMachine, Written
from stream.group.stream_state import STORED_MAX
from stream.group.tail import NAMES_KEPT_MS, StreamTail
from stream.publishing.node_publishing import ALL_WAITING_BYTES_MAX, WAITING_BYTES_MAX
from stream.publishing.offset_stores import IN_FLIGHT_MAX, WAITING_MAX, OffsetStores
from stream.publishing.publish_entries import check_said
from stream.queue import StreamQueue
from tests.unit.stream.named_publisher import NamedPublisher, run_of
from tests.unit.stream.test_random_streams import StreamClients
from tests.unit.stream.test_stream_queue import world

OnResults = Callable[[Sequence[Any] | None, RaftError | None], None]


def queue_of(clients: StreamClients, node: int, record: QueueRecord) -> StreamQueue:
    queue: StreamQueue = clients.of(node, record)[1]
    return queue


class Answer:
    """To a question."""

    def __init__(self, pending: Pending[Any]) -> None:
        self.value: Any = "none yet"
        self.error: Exception | None = None
        pending.then(self._is, self._fails)

    def _is(self, value: Any) -> None:
        self.value = value

    def _fails(self, error: Exception) -> None:
        self.error = error


def asked(clients: StreamClients, node: int, record: QueueRecord, reference: str) -> Answer:
    return Answer(queue_of(clients, node, record).query_offset(reference, clients.now))


@pytest.mark.parametrize("node", [1, 2, 3, 4])
def test_any_node_sees_what_it_has_stored_before_also_in_the_same_turn(node: int) -> None:
    clients, record = world(4, (1, 2, 3))
    nothing = asked(clients, node, record, "r")
    clients.cluster.run(1)
    assert nothing.value is None
    for offset in (3, 9, 7):
        queue_of(clients, node, record).store_offset("r", offset, clients.now)
    queue_of(clients, node, record).store_offset("other", 0, clients.now)
    answers = [asked(clients, node, record, name) for name in ("r", "other", "unknown")]
    clients.cluster.run(1)
    assert [answer.value for answer in answers] == [7, 0, None]
    other = asked(clients, node % 4 + 1, record, "r")
    clients.cluster.run(1)
    assert other.value == 7


def test_what_one_turn_stores_is_one_entry() -> None:
    clients, record = world(1, (1,))
    queue = queue_of(clients, 1, record)
    assert queue.member is not None
    queue.store_offset("r0", 0, clients.now)
    clients.cluster.run(1)
    before = queue.member.machine.applied
    for number in range(100):
        queue.store_offset(f"r{number}", number, clients.now)
    clients.cluster.run(1)
    assert queue.member.machine.applied == before + 1 and len(queue.member.machine.state.stored) == 100


@pytest.mark.parametrize("lost", range(3))
def test_a_store_that_gets_lost_is_said_again(lost: int) -> None:
    clients, record = world()
    groups = clients.cluster.leader(record).groups
    propose, count = groups.propose, 0

    def lose_one(group: int, commands: Sequence[bytes], on_results: OnResults) -> None:
        nonlocal count
        count += 1
        if count == lost + 1:
            on_results(None, Unknown("it got lost"))
        else:
            propose(group, commands, on_results)

    groups.propose = lose_one
    for node in (1, 2, 3):
        queue_of(clients, node, record).store_offset(f"r{node}", node, clients.now)
        clients.cluster.run(0.01)
    clients.cluster.run(1)
    answers = [asked(clients, 1, record, f"r{node}") for node in (1, 2, 3)]
    clients.cluster.run(1)
    assert [answer.value for answer in answers] == [1, 2, 3]


def test_what_is_said_again_takes_no_reference_back() -> None:
    """A node whose answer was lost says its offset again when another node has stored more."""
    machine = StreamMachine()
    tail = StreamTail(machine, 1)
    said = [
        [Storing("r", 5)],
        [Storing("r", 9)],
        [Storing("r", 5, again=True)],
        [Storing("r", 4)],
        [Storing("r", 6, again=True)],
    ]
    stored = []
    for at, one in enumerate(said, 1):
        machine.apply(at, tail.seal_stored(read_storing(encode_storing(one)), at))
        stored.append(machine.state.stored["r"].offset)
    assert stored == [5, 9, 9, 4, 6]


def test_a_greater_offset_that_was_lost_is_stored_with_what_is_said_again() -> None:
    machine = StreamMachine()
    tail = StreamTail(machine, 1)
    tail.seal_stored([Storing("r", 9)], 0)  # never comes into the log
    machine.apply(1, tail.seal_stored([Storing("r", 5, again=True)], 0))
    assert machine.state.stored["r"].offset == 9


def test_stored_offsets_outlive_the_leader_and_a_restart_of_all() -> None:
    clients, record = world()
    queue_of(clients, 1, record).store_offset("r", 41, clients.now)
    publisher = NamedPublisher(clients, 1, record, "p")
    publisher.publish(run_of([8, 11], [b"a", b"b"]))
    clients.cluster.run(1)
    for node in (1, 2, 3):
        clients.cluster.nodes[node].kill()
    for node in (1, 2, 3):
        clients.cluster.restart(node)
    clients.cluster.run(3)
    answer = asked(clients, 2, record, "r")
    last = Answer(queue_of(clients, 2, record).publisher_sequence("p", clients.now))
    unknown = Answer(queue_of(clients, 2, record).publisher_sequence("q", clients.now))
    clients.cluster.run(1)
    assert (answer.value, last.value, unknown.value) == (41, 11, 0)


def test_without_a_leader_a_question_is_refused_in_time_and_what_is_stored_waits() -> None:
    clients, record = world()
    for node in (2, 3):
        clients.cluster.nodes[node].kill()
    clients.cluster.run(5)
    queue = queue_of(clients, 1, record)
    for number in range(WAITING_MAX + 5):
        queue.store_offset(f"r{number}", number, clients.now)
    answer = asked(clients, 1, record, "r1")
    clients.cluster.run(WAIT_MS / 1000 + 1)
    assert isinstance(answer.error, ResourceExhausted)
    for node in (2, 3):
        clients.cluster.restart(node)
    clients.cluster.run(5)
    assert queue.member is not None and len(queue.member.machine.state.stored) == WAITING_MAX


def test_a_question_about_a_stream_that_is_deleted_is_answered() -> None:
    clients, record = world()
    for node in (2, 3):
        clients.cluster.nodes[node].kill()
    clients.cluster.run(5)
    answer = asked(clients, 1, record, "r")
    node = clients.cluster.nodes[1]
    node.kind.delete(node.queue(record), clients.now)
    assert isinstance(answer.error, NotFound)


def test_a_leader_remembers_no_more_references_than_the_machine() -> None:
    """A client that stores offsets under ever new references let its memory grow for as long as it led."""
    machine = StreamMachine()
    tail = StreamTail(machine, 1)
    for at in range(1, 4):
        machine.apply(at, tail.seal_stored([Storing(f"{at}-{number}", 1) for number in range(STORED_MAX - 1)], 0))
        assert list(tail._stored) == list(machine.state.stored)
    assert len(tail._stored) == STORED_MAX


def test_so_many_references_are_kept_those_that_stored_last() -> None:
    machine = StreamMachine()
    tail = StreamTail(machine, 1)
    machine.apply(1, tail.seal_stored([Storing(f"r{number}", 1) for number in range(STORED_MAX)], 0))
    machine.apply(2, tail.seal_stored([Storing("r0", 2), Storing("new", 1)], 0))
    assert len(machine.state.stored) == STORED_MAX
    assert "r1" not in machine.state.stored and machine.state.stored["r0"].offset == 2


def test_an_offset_is_forgotten_only_when_its_messages_are_gone_too() -> None:
    tail = StreamTail(StreamMachine(), 1)
    tail.seal_stored([Storing("low", 3), Storing("high", 8)], 0)
    assert tail.seal_forgotten(NAMES_KEPT_MS, 5) is None
    entry = tail.seal_forgotten(NAMES_KEPT_MS + 1, 5)
    assert entry is not None
    forgotten = decode(entry)
    assert not isinstance(forgotten, ChunkEntry | StoredOffsets) and tuple(forgotten)[1:3] == ((), ("low",))


@pytest.mark.parametrize("cut", range(1, 18))
def test_what_another_node_stores_is_whole_or_refused(cut: int) -> None:
    whole = b"head" + encode_storing([Storing("ref", 5, again=True)])
    check_said(whole, 4, 1)
    with pytest.raises(RefusedProposal):
        check_said(whole[:-cut], 4, 1)
    with pytest.raises(RefusedProposal):
        check_said(whole + bytes(cut), 4, 1)


class Watcher:
    def __init__(self) -> None:
        self.moves = 0

    def stream_moved(self, queue: StreamContract) -> None:
        self.moves += 1


def test_places_are_known_on_every_node_and_watchers_are_told_when_another_leads() -> None:
    clients, record = world(4, (1, 2, 3))
    for node in (1, 4):
        queue_of(clients, node, record).places()
    clients.cluster.run(1.5)
    leader = clients.cluster.leader(record).number
    watchers = {}
    for node in (1, 2, 3, 4):
        places = queue_of(clients, node, record).places()
        assert (places.leader, places.members) == (str(leader), ("1", "2", "3"))
        watchers[node] = Watcher()
        queue_of(clients, node, record).watch(watchers[node])
    gone = Watcher()
    queue_of(clients, 4, record).watch(gone)
    queue_of(clients, 4, record).unwatch(gone)
    clients.cluster.run(2)
    assert not any(watcher.moves for watcher in watchers.values())
    clients.cluster.nodes[leader].kill()
    clients.cluster.run(8)
    left = [node for node in (1, 2, 3, 4) if node != leader]
    assert [watchers[node].moves for node in left] == [1, 1, 1] and not gone.moves
    now = clients.cluster.leader(record).number
    assert {queue_of(clients, node, record).places().leader for node in left} == {str(now)}
    node = clients.cluster.nodes[left[0]]
    node.kind.delete(node.queue(record), clients.now)
    assert watchers[left[0]].moves == 2


def test_figures_name_chunks_by_their_first_message() -> None:
    clients, record = world(1, (1,))
    publisher = NamedPublisher(clients, 1, record, "")
    assert publisher.queue.stream_figures() == StreamFigures(-1, -1, -1)
    publisher.publish(run_of([1, 2], [b"a", b"b"]))
    clients.cluster.run(1)
    publisher.publish(run_of([3, 4, 5], [b"a", b"b", b"c"]))
    clients.cluster.run(1)
    assert publisher.queue.stream_figures() == StreamFigures(0, 2, 4)


def test_many_streams_without_leaders_keep_no_more_than_they_may_together() -> None:
    clients, first = world(2, (1, 2))
    records = [first, *(clients.cluster.declare(f"s{number}", (1, 2)) for number in range(5))]
    clients.cluster.run(3)
    clients.cluster.nodes[2].kill()
    clients.cluster.run(5)
    publishers = [NamedPublisher(clients, 1, record, "") for record in records]
    size, taken = 1 << 22, 0
    with pytest.raises(ResourceExhausted, match="wait for leaders of streams already"):
        for number in range(ALL_WAITING_BYTES_MAX // size * 2):
            publishers[number % len(publishers)].publish(run_of([number], [bytes(size)]))
            taken += size
            clients.cluster.run(0.01)
    assert ALL_WAITING_BYTES_MAX <= taken < len(records) * WAITING_BYTES_MAX
    assert taken < ALL_WAITING_BYTES_MAX + (8 << 20)


def test_a_leader_that_is_cut_off_does_not_say_what_was_the_last_id_or_the_offset() -> None:
    """Others may have another leader already, and have told their clients of more."""
    clients, record = world(3, (1, 2, 3))
    leader = clients.cluster.leader(record).number
    others = sorted({1, 2, 3} - {leader})
    for other in others:
        clients.cluster.cut(leader, other)
    last_id = Answer(queue_of(clients, leader, record).publisher_sequence("p", clients.now))
    offset = asked(clients, leader, record, "r")
    publisher = NamedPublisher(clients, others[0], record, "p")
    publisher.publish(run_of([7], [b"x"]))
    queue_of(clients, others[0], record).store_offset("r", 8, clients.now)
    clients.cluster.run(3.0)
    assert publisher.owed == 0
    assert (last_id.value, offset.value) == ("none yet", "none yet")
    clients.cluster.heal()
    clients.cluster.run(3.0)
    assert (last_id.value, offset.value) == (7, 8)


class Route:
    """To the node that leads, if one does, which answers when the test says so. Has the stores that go there."""

    node = 1

    def __init__(self) -> None:
        self.leads: NodeId = 2
        self.said: list[tuple[dict[str, Storing], Callable[[Sequence[Any] | None], None]]] = []
        ports: Any = SimpleNamespace(node=1, groups=SimpleNamespace(trusts=lambda node: True))
        self.stores = OffsetStores(self, ports)  # type: ignore[arg-type]

    def leader(self) -> NodeId:
        return self.leads

    look_for = leader

    def propose(self, ops: Sequence[bytes], on_answer: Callable[[Sequence[Any] | None], None]) -> None:
        self.said.append(({one.reference: one for one in read_storing(b"".join(ops))}, on_answer))

    def store(self, **offsets: int) -> None:
        """In one turn."""
        for reference, offset in offsets.items():
            self.stores.store(reference, offset)
        self.stores.flush()

    def answer(self, at: int, results: Sequence[Any] | None = (Written.DONE,)) -> None:
        """To the batch that was said so many before. No results: nobody knows what became of it."""
        self.said[at][1](results)


def test_each_of_several_batches_that_get_lost_is_said_again() -> None:
    """The one before the last was forgotten when another reference was stored behind it."""
    route = Route()
    route.store(first=1)
    route.store(second=2)
    route.answer(0, None)
    route.answer(1, None)
    route.stores.flush()
    assert route.said[2:] != [] and route.said[2][0] == {
        "first": Storing("first", 1, again=True),
        "second": Storing("second", 2, again=True),
    }


def test_of_a_batch_that_gets_lost_nothing_is_said_again_that_was_stored_later() -> None:
    """On its way already, or waiting: an offset that is older does not come behind it."""
    route = Route()
    route.store(moved=1, waits=1, stays=1)
    route.store(moved=5)
    route.leads = 0
    route.store(waits=7)
    route.answer(0, None)
    route.leads = 2
    route.stores.flush()
    assert route.said[2][0] == {"stays": Storing("stays", 1, again=True), "waits": Storing("waits", 7, again=True)}


def test_what_was_stored_counts_as_done_when_all_before_it_is_too() -> None:
    """A question that is asked earlier may be answered with what was stored before."""
    route = Route()
    stores = route.stores
    stores.store("r", 1)
    assert stores.done == 0, "it has not left"
    stores.store("r", 2)
    assert stores.done == 0, "nor has the one before"
    stores.flush()
    assert stores.done == 0
    route.store(other=1)
    route.answer(1)
    assert stores.done == 0, "what came later is there, and what was first is not"
    stores.store("third", 1)
    route.answer(0, None)
    assert stores.done == 0, "it waits again, together with what was stored since"
    stores.flush()
    route.answer(2)
    assert stores.done == stores.stored == 4


def test_nothing_counts_as_done_behind_a_store_that_is_on_its_way_or_waits_again() -> None:
    route = Route()
    stores = route.stores
    for reference in ("first", "second"):
        route.store(**{reference: 1})
    stores.store("third", 1)
    assert stores.done == 0, "both are on their way, and the third waits"
    route.answer(0)
    assert stores.done == 1
    route = Route()
    stores = route.stores
    for reference in ("first", "second"):
        route.store(**{reference: 1})
    route.answer(0, None)
    route.answer(1, None)
    assert stores.done == 0, "both wait again"
    stores.flush()
    route.answer(2)
    assert stores.done == 2 and not stores._latest


def test_what_waits_for_a_leader_is_bounded_and_of_each_reference_the_latest() -> None:
    route = Route()
    route.leads = 0
    for number in range(WAITING_MAX + 1):
        route.stores.store(f"r{number}", 1)
    route.store(r0=9)
    route.leads = 2
    route.stores.flush()
    said = route.said[0][0]
    assert len(said) == WAITING_MAX and said["r0"].offset == 9


def test_so_many_batches_are_on_their_way_and_what_is_stored_then_waits_for_one_of_them() -> None:
    route = Route()
    for number in range(IN_FLIGHT_MAX + 3):
        route.store(r=number)
    assert len(route.said) == IN_FLIGHT_MAX
    route.answer(0)
    route.stores.flush()
    assert len(route.said) == IN_FLIGHT_MAX + 1
    assert route.said[-1][0] == {"r": Storing("r", IN_FLIGHT_MAX + 2, again=True)}, (
        "others may have stored more meanwhile"
    )


def test_what_was_said_to_a_leader_of_old_is_said_again_to_the_next_and_its_late_answer_counts_for_nothing() -> None:
    route = Route()
    route.store(r=5)
    assert route.stores.go_on() and len(route.said) == 1, "it is waited for"
    route.leads = 3
    assert route.stores.go_on() and route.said[1][0] == {"r": Storing("r", 5, again=True)}
    route.answer(0)
    assert route.stores.done == 0
    route.answer(1)
    assert route.stores.done == 1 and not route.stores.go_on()
