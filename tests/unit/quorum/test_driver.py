"""Quorum queues in clusters where nodes die, links break and leaders change: what clients were promised holds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.errors import BrokerError, PreconditionFailed, ResourceExhausted, ResourceLocked
from broker.messages.message import Run
from broker.queues.queue_type import EXPIRES_RETRY_MS, DeathReason, Outcome
from broker.records import QueueRecord
from native.content import encode
from quorum import queue as queues
from quorum.bodies import Body
from quorum.fifo import movement
from quorum.fifo.commands import NodeDown, Piece, Policy, SessionGone
from quorum.fifo.versions import PURGED_ONCE, REFUSED_AGAIN, VERSION_NEWEST
from raft.core.errors import Damaged
from raft.core.messages import member_id, node_of
from raft.driver import SnapshotRules
from raft.store.store_limits import StoreLimits
from replicated.busy_queues import LOOK_S
from replicated.reply_timeout import WAIT_MS
from storage.errors import DiskFull
from tests.sim.disk import SimDisk
from tests.unit.quorum.clients import NO_PROPERTIES, Clients, Publisher, Taker
from tests.unit.quorum.nodes import DISK_ID, QuorumNode


def numbered(count: int, first: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


def led_by_node_1(version: int = VERSION_NEWEST) -> tuple[Clients, QueueRecord]:
    """A queue with members on nodes 1, 2 and 3 whose group goes no further than to this version."""
    clients = Clients()
    for node in clients.cluster.alive():
        node.kind.machine_version = version
    record = clients.cluster.declare("q", [1, 2, 3], home=1)
    assert clients.cluster.leader(record).number == 1
    return clients, record


def test_the_node_where_a_queue_was_declared_usually_leads_it_soon() -> None:
    clients = Clients()
    records = [clients.cluster.declare(f"q{number}", [1, 2, 3], home=2) for number in range(10)]
    clients.cluster.run(0.2)
    assert sum(clients.cluster.leader(record).number == 2 for record in records) >= 8


@pytest.mark.parametrize("node", [1, 2, 3])
def test_any_node_takes_and_delivers_messages(node: int) -> None:
    clients = Clients()
    record = clients.cluster.declare("q", [1, 2])
    publisher, taker = Publisher(clients, node, record), Taker(clients, 4 - node, record)
    for _ in range(5):
        publisher.publish(10)
        clients.cluster.run(0.05)
    clients.cluster.run(1)
    assert publisher.confirmed == numbered(50)
    assert taker.bodies == numbered(50)


def test_a_lone_message_does_not_wait_for_the_next_one_where_a_follower_delivers_it() -> None:
    """A follower hears of a commit with the next entries. Where it has something to deliver it must hear of it at once."""
    clients = Clients()
    record = clients.cluster.declare("q", [1, 2, 3], home=1)
    leader = clients.cluster.leader(record).number
    for consumer_at in (1, 2, 3):
        taker = Taker(clients, consumer_at, record)
        clients.cluster.run(0.3)
        body = Publisher(clients, leader, record, f"p{consumer_at}").publish()
        clients.cluster.run(0.006)  # to a majority, back, and the news: each takes a millisecond
        assert taker.bodies == body, f"on node {consumer_at}, {leader} leads"
        taker.settle_all()
        taker.cancel()
        clients.cluster.run(0.3)


@pytest.mark.parametrize("publisher_at", [2, 3])
def test_when_the_leader_is_killed_nothing_confirmed_is_lost_doubled_or_out_of_order(publisher_at: int) -> None:
    clients, record = led_by_node_1()
    cluster = clients.cluster
    publisher, taker = Publisher(clients, publisher_at, record), Taker(clients, 5 - publisher_at, record)
    for turn in range(40):
        publisher.publish(3)
        if turn == 20:
            cluster.nodes[1].kill()
        cluster.run(0.004)
    cluster.run(2)
    assert publisher.confirmed == numbered(120)
    assert taker.bodies == numbered(120)
    assert [redelivered for _, redelivered in taker.got] == [False] * 120


def test_a_publisher_on_a_node_that_is_cut_off_is_answered_once_it_is_back() -> None:
    clients = Clients()
    cluster = clients.cluster
    record = cluster.declare("q", [1, 2, 3], home=1)
    cluster.leader(record)
    publisher = Publisher(clients, 1, record)
    publisher.publish(5)
    cluster.run(0.1)
    cluster.cut(1, 2)
    cluster.cut(1, 3)
    for _ in range(10):
        publisher.publish(5)
        cluster.run(0.1)
    assert publisher.confirmed == numbered(5), "the old leader has no majority"
    other = Publisher(clients, 2, record, name="other-")
    other.publish(5)
    cluster.run(5)
    assert len(other.confirmed) == 5
    cluster.heal()
    cluster.run(3)
    assert publisher.confirmed == numbered(55)
    found = clients.drain(3, record)
    assert [body for body in found if not body.startswith(b"other")] == numbered(55)
    assert sorted(found) == sorted([*numbered(55), *other.confirmed])


def test_who_comes_to_lead_a_queue_tells_its_node_so_and_no_other_does() -> None:
    clients = Clients()
    cluster = clients.cluster
    record = cluster.declare("q", [1, 2, 3], home=1)
    first = cluster.leader(record).number
    assert cluster.led == [(first, "q")]
    cluster.leader(record).kill()
    cluster.run(5)
    assert cluster.led == [(first, "q"), (cluster.leader(record).number, "q")]


def test_what_a_consumer_holds_when_the_leader_dies_stays_its_own_and_is_settled_for_good() -> None:
    clients = Clients()
    cluster = clients.cluster
    record = cluster.declare("q", [1, 2, 3], home=1)
    cluster.leader(record)
    Publisher(clients, 2, record).publish(10)
    taker = Taker(clients, 3, record, settles=False, prefetch=6)
    cluster.run(0.3)
    assert taker.bodies == numbered(6)
    cluster.nodes[1].kill()
    cluster.run(2)
    assert taker.bodies == numbered(6)
    taker.settle_all()
    cluster.run(1)
    assert taker.got == [(body, False) for body in numbered(10)]
    taker.settle_all()
    cluster.run(1)
    assert clients.drain(2, record) == []


def test_consumers_of_a_node_that_dies_lose_what_they_hold_when_it_is_back_or_a_minute_later() -> None:
    clients = Clients()
    cluster = clients.cluster
    record = cluster.declare("q", [1, 2, 3], home=1)
    cluster.leader(record)
    Publisher(clients, 1, record).publish(4)
    Taker(clients, 2, record, settles=False, prefetch=2)
    gone = Taker(clients, 3, record, settles=False, prefetch=2)
    cluster.run(0.5)
    assert len(gone.bodies) == 2
    cluster.nodes[3].kill()
    cluster.run(10)
    assert clients.drain(1, record) == []
    cluster.restart(3)
    cluster.run(5)
    assert clients.drain(1, record) == gone.bodies


def test_a_minute_after_its_node_was_lost_a_consumer_holds_nothing() -> None:
    clients = Clients()
    cluster = clients.cluster
    record = cluster.declare("q", [1, 2, 3], home=1)
    cluster.leader(record)
    Publisher(clients, 1, record).publish(2)
    gone = Taker(clients, 3, record, settles=False)
    cluster.run(0.5)
    cluster.nodes[3].kill()
    cluster.run(58)
    assert clients.drain(1, record) == []
    cluster.run(8)
    assert clients.drain(1, record) == gone.bodies == numbered(2)


def test_a_consumer_on_a_node_without_a_member_is_served_by_each_new_leader() -> None:
    clients = Clients(4)
    cluster = clients.cluster
    record = cluster.declare("q", [1, 2, 3], home=1)
    assert cluster.leader(record).number == 1
    publisher, taker = Publisher(clients, 2, record), Taker(clients, 4, record, prefetch=5)
    for turn in range(60):
        publisher.publish(2)
        if turn == 30:
            cluster.nodes[1].kill()
        cluster.run(0.01)
    cluster.run(4)
    assert publisher.confirmed == numbered(120)
    assert taker.bodies == numbered(120)


@pytest.mark.parametrize("user", [2, 4])
def test_a_leader_that_stands_still_holds_up_nobody_though_its_links_live(user: int) -> None:
    """As with SIGSTOP: what had been said to it was answered when the link broke, ten seconds later."""
    clients = Clients(4)
    cluster = clients.cluster
    record = cluster.declare("q", [1, 2, 3], home=1)
    assert cluster.leader(record).number == 1
    publisher, taker = Publisher(clients, user, record), Taker(clients, user, record, prefetch=5)
    publisher.publish(5)
    cluster.run(1)
    publisher.publish(5)
    cluster.silent.add(1)
    publisher.publish(5)
    cluster.run(3)
    assert publisher.confirmed == taker.bodies == numbered(15)
    cluster.silent.clear()
    cluster.run(3)
    assert taker.got == [(body, False) for body in numbered(15)]
    assert clients.drain(3, record) == []


def test_what_was_said_before_a_link_broke_is_said_again_and_done_once() -> None:
    clients = Clients(3)
    cluster = clients.cluster
    record = cluster.declare("q", [1, 2], home=1)
    cluster.leader(record)
    publisher, taker = Publisher(clients, 3, record), Taker(clients, 3, record, prefetch=7)
    for turn in range(60):
        publisher.publish(2)
        if turn % 10 == 5:
            cluster.cut(1, 3)
            cluster.cut(2, 3)
        if turn % 10 == 8:
            cluster.heal()
        cluster.run(0.01)
    cluster.run(4)
    assert publisher.confirmed == numbered(120)
    assert taker.bodies == numbered(120)


def test_a_cluster_that_was_off_has_all_that_was_confirmed_and_nothing_that_was_settled() -> None:
    clients = Clients(rules=SnapshotRules(entries_max=20))
    cluster = clients.cluster
    record = cluster.declare("q", [1, 2, 3])
    cluster.leader(record)
    publisher, taker = Publisher(clients, 1, record), Taker(clients, 2, record, prefetch=10)
    for _ in range(60):
        publisher.publish()
        cluster.run(0.02)
    taker.writable = False
    for _ in range(60):
        publisher.publish()
        cluster.run(0.02)
    for node in list(cluster.nodes.values()):
        node.kill()
    for number in (1, 2, 3):
        cluster.restart(number)
    cluster.leader(record)
    cluster.run(3)
    assert publisher.confirmed == numbered(120)
    assert sorted(clients.drain(3, record)) == sorted(set(numbered(120)) - set(taker.settled))


def test_a_member_that_was_away_for_long_serves_its_consumers_from_a_snapshot() -> None:
    clients = Clients(rules=SnapshotRules(entries_max=10))
    cluster = clients.cluster
    record = cluster.declare("q", [1, 2, 3])
    cluster.leader(record)
    taker = Taker(clients, 3, record, prefetch=50)
    cluster.run(0.5)
    cluster.cut(1, 3)
    cluster.cut(2, 3)
    publisher = Publisher(clients, 1, record)
    for _ in range(50):
        publisher.publish()
        cluster.run(0.02)
    assert taker.bodies == []
    cluster.heal()
    cluster.run(5)
    assert taker.bodies == numbered(50)


@pytest.mark.parametrize("node", [3, 4])
def test_a_consumer_that_timed_out_while_its_node_was_cut_off_is_told_when_that_is_back(node: int) -> None:
    """It went on as if nothing had happened, and was given nothing any more: the member of node 3 is sent a snapshot, in which
    nobody says that a consumer timed out, and node 4, which has none, was told by a letter that was lost."""
    clients = Clients(4, rules=SnapshotRules(entries_max=10))
    cluster = clients.cluster
    record = cluster.declare("q", [1, 2, 3], **{"x-consumer-timeout": 1_000})
    cluster.leader(record)
    taker = Taker(clients, node, record, settles=False, prefetch=5)
    publisher = Publisher(clients, 1, record)
    publisher.publish(5)
    cluster.run(0.5)
    assert len(taker.bodies) == 5
    for other in {1, 2, 3} - {node}:
        cluster.cut(other, node)
    for _ in range(50):
        publisher.publish()
        cluster.run(0.05)
    cluster.heal()
    cluster.run(5)
    assert (taker.cancelled, taker.consumer.timed_out) == (True, True)


def test_a_node_whose_disk_was_lost_is_taken_in_again_under_a_new_number() -> None:
    clients = Clients()
    cluster = clients.cluster
    record = cluster.declare("q", [1, 2, 3])
    cluster.leader(record)
    publisher = Publisher(clients, 1, record)
    publisher.publish(20)
    cluster.run(0.5)
    cluster.nodes[3].kill()
    cluster.restart(3, SimDisk())
    cluster.run(0.1)
    publisher.publish(20)
    cluster.run(5)
    members = cluster.records[record.id].members
    assert [node_of(member) for member in members] == [1, 2, 3]
    assert members != record.members
    cluster.nodes[1].kill()
    cluster.run(3)
    assert clients.drain(3, record) == numbered(40)


def test_members_are_added_and_removed_and_the_catalog_follows() -> None:
    clients = Clients(4)
    cluster = clients.cluster
    record = cluster.declare("q", [1, 2], home=1)
    cluster.leader(record)
    publisher, taker = Publisher(clients, 3, record), Taker(clients, 4, record, prefetch=3)
    publisher.publish(30)
    cluster.run(1)
    done: list[object] = []
    kind, queue = clients.of(4, record)
    kind.administration.add_member(queue, 4).then(done.append, done.append)
    cluster.run(4)
    assert done == [None]
    assert [node_of(member) for member in cluster.records[record.id].members] == [1, 2, 4]
    publisher.publish(30)
    cluster.run(2)
    assert kind.administration.status(queue)["raft"]["role"] in ("follower", "leader")
    kind.administration.remove_member(queue, 2).then(done.append, done.append)
    cluster.run(4)
    assert done == [None, None]
    assert [node_of(member) for member in cluster.records[record.id].members] == [1, 4]
    publisher.publish(30)
    cluster.run(2)
    assert publisher.confirmed == numbered(90)
    assert taker.bodies == numbered(90)
    _, left = clients.of(2, record)
    assert left.member is None


def test_the_leadership_is_handed_over_from_any_node() -> None:
    clients = Clients(4)
    cluster = clients.cluster
    record = cluster.declare("q", [1, 2, 3], home=1)
    cluster.leader(record)
    kind, queue = clients.of(4, record)
    Publisher(clients, 4, record).publish()
    cluster.run(0.5)
    done: list[object] = []
    kind.administration.transfer(queue, 3).then(done.append, done.append)
    cluster.run(2)
    assert (done, cluster.leader(record).number) == ([None], 3)


def test_without_a_majority_publishes_wait_and_beyond_a_bound_they_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queues, "WAITING_BYTES_MAX", 10_000)
    clients = Clients()
    cluster = clients.cluster
    record = cluster.declare("q", [1, 2, 3], home=1)
    cluster.leader(record)
    publisher = Publisher(clients, 1, record)
    publisher.publish(3)
    cluster.run(0.2)
    cluster.nodes[2].kill()
    cluster.nodes[3].kill()
    cluster.run(2)
    for _ in range(40):
        publisher.publish(100)
        cluster.run(0.02)
    assert publisher.confirmed == numbered(3)
    assert publisher.refused
    _, queue = clients.of(1, record)
    assert (queue.ready_count, queue.used(clients.now)) == (3, None), "declaring it answers what is known here"
    cluster.restart(2)
    cluster.run(5)
    assert set(publisher.confirmed) | set(publisher.refused) == set(numbered(publisher.next))
    assert clients.drain(2, record) == publisher.confirmed


def test_a_get_waits_for_a_leader() -> None:
    clients = Clients()
    cluster = clients.cluster
    record = cluster.declare("q", [1, 2, 3])
    cluster.leader(record)
    Publisher(clients, 1, record).publish(1)
    cluster.run(0.2)
    cluster.nodes[2].kill()
    cluster.nodes[3].kill()
    cluster.run(2)
    answers: list[object] = []
    _, queue = clients.of(1, record)
    queue.get(True, clients.now).then(answers.append, answers.append)
    cluster.run(2)
    assert answers == []
    cluster.restart(3)
    cluster.run(3)
    assert len(answers) == 1
    assert answers[0] is not None


def test_a_deleted_queue_leaves_nothing_behind_and_confirms_what_was_on_its_way() -> None:
    clients = Clients()
    cluster = clients.cluster
    record = cluster.declare("q", [1, 2, 3])
    cluster.leader(record)
    publisher = Publisher(clients, 2, record)
    taker = Taker(clients, 3, record, settles=False)
    publisher.publish(3)
    cluster.run(0.2)
    publisher.publish(3)
    for node in cluster.alive():
        node.kind.delete(node.queue(record), clients.now)
    del cluster.records[record.id]
    taker.settle_all()
    cluster.run(1)
    assert publisher.confirmed == numbered(6)
    assert [dict(node.store.stores) for node in cluster.alive()] == [{}, {}, {}]
    assert [node.kind.members._promised for node in cluster.alive()] == [{}, {}, {}]
    assert taker.bodies == numbered(3)


def test_what_comes_for_a_queue_that_was_deleted_counts_as_confirmed() -> None:
    """A route may still lead there. It waited for ever."""
    clients = Clients()
    record = clients.cluster.declare("q", [1, 2, 3])
    clients.cluster.leader(record)
    kind, queue = clients.of(2, record)
    publisher = Publisher(clients, 2, record)
    queue.close()
    publisher.publish(3)
    kind.publish((queue,), Run("", "q", encode(NO_PROPERTIES, b"x"), 1, 1), None, clients.now)
    assert publisher.confirmed == publisher.all
    assert queue.session.idle


def test_only_queues_that_wait_for_answers_are_asked_how_much_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    clients = Clients()
    cluster = clients.cluster
    busy, idle = (cluster.declare(name, [1, 2, 3], home=1) for name in ("busy", "idle"))
    for record in (busy, idle):
        cluster.leader(record)
        Publisher(clients, 1, record).publish()
    cluster.run(2)
    kind, queue = clients.of(1, busy)
    assert kind.waiting_bytes == 0
    Publisher(clients, 1, busy).publish(5)
    queue.pump(clients.now)  # it is sent, and not answered
    asked: list[object] = []
    monkeypatch.setattr(type(queue), "has_leader", property(lambda one: not asked.append(one)))  # type: ignore[func-returns-value]
    assert kind.waiting_bytes == queue.session.waiting_bytes > 0
    assert asked == [queue]


def test_a_get_that_is_to_be_said_again_is_said_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """One entry buries three messages, and twenty have expired."""
    monkeypatch.setattr(movement, "ROWS_MAX", 3)
    clients = Clients()
    cluster = clients.cluster
    record = cluster.declare("q", [1], home=1, **{"x-message-ttl": 500})
    cluster.leader(record)
    publisher = Publisher(clients, 1, record)
    for at in range(20):
        publisher.publish(priority=1 + at % 2)  # each a row of its own
    _, queue = clients.of(1, record)
    cluster.run(0.2)
    assert queue.ready_count == 20
    cluster.loop.clock.advance(0.6)  # they expire with the entry that brings the get
    said: list[int] = []
    say = queue._gets.say
    monkeypatch.setattr(queue._gets, "say", lambda *get: said.append(get[1]) or say(*get))
    answers: list[object] = []
    queue.get(True, clients.now).then(answers.append, answers.append)
    cluster.run(1)
    assert answers == [None], "all of them had expired"
    assert len(said) > 1 and len(set(said)) == 1, "under the same number"


def test_messages_die_once_and_on_the_leaders_node() -> None:
    clients = Clients()
    cluster = clients.cluster
    record = cluster.declare("q", [1, 2, 3], **{"x-message-ttl": 500, "x-dead-letter-exchange": "dlx"})
    leader = cluster.leader(record).number
    Publisher(clients, 3, record).publish(4)
    cluster.run(2)
    assert clients.hosts[leader].dead == [(DeathReason.EXPIRED, body) for body in numbered(4)]
    cluster.nodes[leader].kill()
    cluster.run(2)
    cluster.restart(leader)
    cluster.run(3)
    again = [host.dead for host in clients.hosts.values()]  # that of the node that died is a new one
    assert again == [[], [], []], "the same dead letters were published again"


def test_what_died_under_the_leader_before_is_not_published_again_by_the_next() -> None:
    """The next one has the entry in its log, and learns only as a leader that it was committed."""
    clients = Clients()
    cluster = clients.cluster
    record = cluster.declare("q", [1, 2, 3], home=1, **{"x-message-ttl": 500, "x-dead-letter-exchange": "dlx"})
    assert cluster.leader(record).number == 1
    Publisher(clients, 1, record).publish(4)
    for _ in range(2_000):
        if clients.hosts[1].dead:
            break
        cluster.loop.run_for(0.0005)
    assert clients.hosts[1].dead == [(DeathReason.EXPIRED, body) for body in numbered(4)]
    followers = [clients.of(node, record)[1].member for node in (2, 3)]
    assert all(member.machine.figures().ready for member in followers), "they know of the deaths already"
    cluster.nodes[1].kill()
    cluster.run(3)
    assert [member.machine.figures().ready for member in followers] == [0, 0]
    assert [clients.hosts[node].dead for node in (2, 3)] == [[], []], "the same dead letters were published again"


def test_with_a_single_active_consumer_the_next_one_anywhere_takes_over() -> None:
    clients = Clients()
    cluster = clients.cluster
    record = cluster.declare("q", [1, 2], **{"x-single-active-consumer": True})
    cluster.leader(record)
    cluster.run(0.2)
    first = Taker(clients, 2, record)
    cluster.run(0.2)
    second = Taker(clients, 3, record)
    cluster.run(0.5)
    publisher = Publisher(clients, 1, record)
    publisher.publish(3)
    cluster.run(0.5)
    assert (first.bodies, second.bodies) == (numbered(3), [])
    assert (first.consumer.active, second.consumer.active) == (True, False)
    with pytest.raises(ResourceLocked):
        clients.get(1, record)
    first.cancel()
    publisher.publish(3)
    cluster.run(1)
    assert second.bodies == numbered(3, 3)
    assert second.consumer.active


@pytest.mark.parametrize("node", [1, 2, 3])
def test_the_next_single_active_consumer_is_given_nothing_before_what_was_on_its_way_to_the_one_before(
    node: int,
) -> None:
    """It came back when its node was given it, behind what the next one had been given meanwhile, and nothing said so."""
    clients = Clients()
    cluster = clients.cluster
    record = cluster.declare("q", [1, 2], home=1, **{"x-single-active-consumer": True})
    cluster.leader(record)
    publisher = Publisher(clients, 1, record)
    active = Taker(clients, node, record, prefetch=40)
    got: list[tuple[bytes, bool]] = []
    for _ in range(12):
        successor = Taker(clients, node, record, prefetch=40)
        cluster.run(0.2)
        for _ in range(20):  # so that something is in each stage of its way
            publisher.publish()
            cluster.run(0.0007)
        active.cancel()
        publisher.publish(3)
        got += active.got
        active = successor
    cluster.run(1)
    got += active.got
    assert got == [(body, False) for body in publisher.all]


@pytest.mark.parametrize("node", [1, 3])
def test_the_next_single_active_consumer_begins_at_what_the_one_before_held_when_its_session_ended(node: int) -> None:
    """It was given the message behind them first, for which it had room: out of order, where order is what it is for."""
    clients = Clients()
    cluster = clients.cluster
    record = cluster.declare("q", [1, 2], home=1, **{"x-single-active-consumer": True})
    cluster.leader(record)
    first = Taker(clients, node, record, prefetch=2, settles=False)
    cluster.run(0.2)
    second = Taker(clients, 2, record)
    cluster.run(0.5)
    publisher = Publisher(clients, 1, record)
    publisher.publish(4)
    cluster.run(0.5)
    assert (first.bodies, second.bodies) == (numbered(2), [])
    first.session_ends()
    cluster.run(1)
    assert second.got == [(body, number < 2) for number, body in enumerate(numbered(4))]


def test_a_consumer_that_comes_at_the_end_of_another_one_is_given_what_that_was_not() -> None:
    """On the same channel, in the same turn."""
    clients = Clients()
    cluster = clients.cluster
    record = cluster.declare("q", [1, 2, 3], home=1)
    cluster.leader(record)
    before = Taker(clients, 2, record, prefetch=10)
    cluster.run(0.5)
    before.writable = False
    publisher = Publisher(clients, 1, record)
    publisher.publish(5)
    cluster.run(0.5)
    publisher.publish(5)
    before.cancel()
    after = Taker(clients, 2, record, prefetch=10)
    cluster.run(1)
    assert after.got == [(body, False) for body in publisher.all]


def test_an_exclusive_consumer_elsewhere_is_found_out_in_time() -> None:
    clients = Clients()
    cluster = clients.cluster
    record = cluster.declare("q", [1, 2, 3])
    cluster.leader(record)
    one = Taker(clients, 1, record, exclusive=True)
    other = Taker(clients, 2, record)  # said before anybody there knows of the first one
    cluster.run(0.5)
    assert [taker.answered for taker in (one, other)].count(True) == 1
    assert [len(taker.errors) for taker in (one, other)].count(1) == 1


@pytest.mark.parametrize("version", [REFUSED_AGAIN - 1, REFUSED_AGAIN])
def test_who_was_refused_by_a_leader_that_died_before_it_could_say_so_is_refused_by_the_next(version: int) -> None:
    """Before there was this version of the machine, the client was told that it consumes, and waited for ever."""
    clients, record = led_by_node_1(version)
    cluster = clients.cluster
    cluster.run(1)
    alone = Taker(clients, 2, record, exclusive=True)
    other = Taker(clients, 3, record)
    cluster.run(0.0025)  # to the leader, and from there to the others; what they acknowledge is on its way
    cluster.nodes[1].kill()
    cluster.run(5)
    assert alone.answered and other.answered is (version < REFUSED_AGAIN)
    assert [str(error) for error in other.errors] == ["queue 'q' in vhost '/' in exclusive use"] * (not other.answered)
    Publisher(clients, 3, record).publish(2)
    cluster.run(1)
    assert (alone.bodies, other.bodies) == (numbered(2), [])


@pytest.mark.parametrize("version", [PURGED_ONCE - 1, PURGED_ONCE])
def test_a_purge_whose_answer_was_lost_with_the_leader_is_told_of_what_it_took(version: int) -> None:
    """An earlier version does not know a purge that is done once, and is asked for one that is not."""
    clients, record = led_by_node_1(version)
    cluster = clients.cluster
    Publisher(clients, 3, record).publish(5)
    cluster.run(1)
    told: list[int] = []
    queue = cluster.nodes[2].queue(record)
    queue.purge(clients.now).then(told.append, lambda error: pytest.fail(str(error)))
    cluster.run(0.0025)  # to the leader, and from there to the others; what they acknowledge is on its way
    cluster.nodes[1].kill()
    cluster.run(5)
    assert told == [5]
    numbers = []
    for _ in range(3):
        queue.purge(clients.now).then(told.append, lambda error: pytest.fail(str(error)))
        cluster.run(1)
        numbers.append(queue.session._next_number)
    assert told[1:] == [0, 0, 0]
    assert len(set(numbers)) == (3 if version >= PURGED_ONCE else 1), "a leader is asked once for what it does not know"


def test_a_node_that_a_queue_takes_for_gone_is_told_so_by_its_gets_and_purges() -> None:
    """They came back as if the queue were empty."""
    clients, record = led_by_node_1()
    cluster = clients.cluster
    Publisher(clients, 3, record).publish(5)
    cluster.run(1)
    kind, queue = clients.of(2, record)
    leading = clients.of(1, record)[1].leading
    assert leading is not None
    leading.propose([SessionGone(kind.key)], lambda _: None)
    cluster.run(0.1)
    errors: list[BrokerError] = []
    queue.purge(clients.now).then(lambda count: pytest.fail(f"{count} purged"), errors.append)
    queue.get(False, clients.now).then(lambda got: pytest.fail(f"got {got}"), errors.append)
    cluster.run(1)
    assert ["considers this node dead" in error.text for error in errors] == [True, True]
    assert clients.drain(3, record) == numbered(5)


def test_a_client_that_left_before_its_leader_could_answer_is_not_told_that_it_was_refused() -> None:
    """Its consumer is not known any more when it is heard of again, like one that was refused."""
    clients, record = led_by_node_1()
    cluster = clients.cluster
    cluster.run(1)
    left = Taker(clients, 3, record)
    left.cancel()
    cluster.run(0.0025)
    cluster.nodes[1].kill()
    cluster.run(5)
    assert (left.answered, left.errors, clients.of(2, record)[1].consumer_count) == (True, [], 0)


@pytest.mark.parametrize("outcome", [Outcome.REQUEUED, Outcome.RELEASED, Outcome.RETURNED])
def test_only_what_a_client_has_seen_comes_back_marked(outcome: Outcome) -> None:
    clients = Clients()
    cluster = clients.cluster
    record = cluster.declare("q", [1, 2, 3])
    cluster.leader(record)
    Publisher(clients, 1, record).publish(2)
    first = Taker(clients, 2, record, settles=False)
    cluster.run(0.5)
    first.cancel()
    first.settle_all(outcome)
    second = Taker(clients, 3, record)
    cluster.run(0.5)
    assert second.got == [(body, outcome is not Outcome.RETURNED) for body in numbered(2)]


def test_what_was_given_to_a_consumer_that_just_left_goes_back_unseen() -> None:
    clients = Clients()
    cluster = clients.cluster
    record = cluster.declare("q", [1, 2, 3])
    cluster.leader(record)
    stuck = Taker(clients, 2, record, prefetch=10)
    cluster.run(0.5)
    stuck.writable = False
    Publisher(clients, 1, record).publish(5)
    cluster.run(0.5)
    stuck.cancel()
    other = Taker(clients, 3, record)
    cluster.run(0.5)
    assert other.got == [(body, False) for body in numbered(5)]


@pytest.mark.parametrize(
    ("wrong", "word"), [("durable", "non-durable"), ("exclusive", "exclusive"), ("auto_delete", "auto")]
)
def test_what_a_quorum_queue_cannot_be_is_refused(wrong: str, word: str) -> None:
    clients = Clients(1)
    settings = {"durable": True, "exclusive": False, "auto_delete": False}
    settings[wrong] = not settings[wrong]
    record = QueueRecord("/", "q", "quorum", arguments={}, id=1, **settings)
    with pytest.raises(PreconditionFailed, match=word):
        clients.cluster.nodes[1].kind.check(record)


def test_what_was_taken_away_from_a_client_that_could_not_be_written_to_is_not_given_to_it_after_all() -> None:
    clients = Clients(
        limits=StoreLimits(segment_entries_max=8, log_files_kept=0, entries_kept=0, compaction_interval_ms=0)
    )
    cluster = clients.cluster
    record = cluster.declare("q", [1, 2, 3], **{"x-consumer-timeout": 1_000})
    cluster.leader(record)
    stuck = Taker(clients, 2, record, prefetch=10)
    cluster.run(0.5)
    stuck.writable = False
    publisher = Publisher(clients, 1, record)
    publisher.publish(5)
    cluster.run(3)
    other = Taker(clients, 3, record)
    cluster.run(1)
    assert other.bodies == numbered(5)
    for node in cluster.alive():
        node.queue(record).route.driver.take_snapshot()  # type: ignore[union-attr]
    cluster.run(1)
    stuck.writable = True
    clients.hosts[2].wake(stuck.queue)
    cluster.run(1)
    assert (stuck.bodies, stuck.cancelled, stuck.consumer.timed_out) == ([], True, True)


@pytest.mark.parametrize("reading", [1, 2, 3])
def test_a_consumer_whose_node_cannot_read_its_log_any_more_is_served_by_another(reading: int) -> None:
    clients = Clients()
    cluster = clients.cluster
    record = cluster.declare("q", [1, 2, 3], home=1)
    cluster.leader(record)
    publisher = Publisher(clients, 2, record)
    publisher.publish(20)
    cluster.run(0.5)
    node = cluster.nodes[reading]
    queue = node.queue(record)
    assert queue.member is not None
    queue.member.bodies.get = cannot_be_read  # type: ignore[method-assign]
    taker = Taker(clients, reading, record, prefetch=5)
    cluster.run(5)
    publisher.publish(20)
    cluster.run(5)
    assert taker.bodies == numbered(40)
    assert publisher.confirmed == numbered(40)


def test_a_member_that_was_removed_is_never_founded_again() -> None:
    clients = Clients()
    cluster = clients.cluster
    record = cluster.declare("q", [1, 2, 3], home=1)
    cluster.leader(record)
    founder = next(member for member in record.members if node_of(member) == 3)
    kind, queue = clients.of(1, record)
    kind.administration.remove_member(queue, 3).then(lambda _: None, lambda _: None)
    cluster.run(4)
    assert clients.of(3, record)[1].member is None
    # A leader of before that is not believed any more names the founders again, and their node restarts at that moment.
    changed = cluster.records[record.id]
    cluster.records[record.id] = replace(changed, members=record.members)
    cluster.nodes[3].kill()
    cluster.restart(3)
    _, again = clients.of(3, record)
    assert again.member is not None
    assert again.route.driver.me > founder
    assert again.route.driver.core.status().membership.voters == ()


def test_a_member_that_comes_again_is_none_that_was_here() -> None:
    """A leader that heard of what that one had would believe that the new one has it. Found by the simulation (seed 511)."""
    clients = Clients()
    cluster = clients.cluster
    record = cluster.declare("q", [1, 2, 3], home=1)
    cluster.leader(record)
    kind = cluster.nodes[3].kind
    later = [record.members[0], record.members[1], member_id(3, 9)]
    seen = []
    for members in (record.members[:2], tuple(later), record.members[:2], tuple(later)):
        kind.members.changed(replace(record, members=members, formed=1))
        driver = clients.of(3, record)[1].route.driver
        if driver is not None:
            seen.append(driver.me)
            kind.members.drop(clients.of(3, record)[1])
    assert len(seen) == len(set(seen)) >= 2, seen
    assert seen == sorted(seen)


def test_a_member_begins_under_the_number_that_its_leader_was_promised_and_once_only() -> None:
    clients = Clients(4)
    cluster = clients.cluster
    record = cluster.declare("q", [1, 2, 3], home=1)
    cluster.leader(record)
    kind, queue = clients.of(1, record)
    numbers = exhausted_until(cluster.nodes[4], 0)
    told: list[str] = []
    kind.administration.add_member(queue, 4).then(lambda _: told.append("added"), lambda error: pytest.fail(str(error)))
    cluster.run(3)
    assert told == ["added"]
    assert len(numbers) == 1, "what its leader has added is there, and need not be replaced"
    named = next(member for member in cluster.records[record.id].members if node_of(member) == 4)
    other_kind, other = clients.of(4, record)
    assert other.route.driver is not None and other.route.driver.me == named
    other_kind.members.drop(other)  # its log is lost, say
    other_kind.members.take_part(other)
    assert other.route.driver.me > named


def exhausted_until(node: QuorumNode, calls: int) -> list[int]:
    """So many numbers of members cannot be kept for want of room. The list grows with each that was asked for."""
    new_replica, asked = node.new_replica, list[int]()

    def keep(above: int) -> int:
        asked.append(above)
        if len(asked) <= calls:
            raise DiskFull("cannot write node.facts: No space left on device")
        return new_replica(above)

    node.new_replica = keep
    return asked


@pytest.mark.parametrize("opened", [False, True])
def test_a_member_whose_number_cannot_be_kept_begins_when_there_is_room(opened: bool) -> None:
    """The 256th member that a process began ended the node then, with code 74."""
    clients = Clients()
    cluster = clients.cluster
    record = cluster.declare("q", [1, 2], home=1)
    cluster.leader(record)
    cluster.run(2)
    node = cluster.nodes[3]
    asked = exhausted_until(node, 2)
    changed = replace(record, members=(*record.members, member_id(3, 9)), formed=1)
    if opened:
        node.kind.delete(node.queue(record), cluster.wall_ms())
        cluster.open(node, changed)
    else:
        node.kind.members.changed(changed)
    assert node.queue(record).member is None and len(asked) == 1
    for _ in range(30):
        node.kind.tick(cluster.wall_ms())
    assert len(asked) <= 2, "once a second is enough"
    cluster.run(3)
    driver = node.queue(record).route.driver
    assert driver is not None and driver.me > member_id(3, 9)
    assert len(asked) == 3


def test_a_member_that_was_put_off_does_not_begin_when_its_queue_is_gone_or_names_other_nodes() -> None:
    clients = Clients()
    cluster = clients.cluster
    record, deleted = cluster.declare("q", [1, 2], home=1), cluster.declare("r", [1, 2], home=1)
    cluster.leader(record)
    cluster.run(2)
    node = cluster.nodes[3]
    asked = exhausted_until(node, 2)
    for one in (record, deleted):
        node.kind.members.changed(replace(one, members=(*one.members, member_id(3, 9)), formed=1))
    assert len(asked) == 2
    node.kind.members.changed(replace(record, formed=2))
    node.kind.delete(node.queue(deleted), cluster.wall_ms())
    for _ in range(3):
        cluster.loop.run_for(1)
        node.kind.tick(cluster.wall_ms())
    assert len(asked) == 2
    assert node.queue(record).member is None and not node.kind.members.has_log(node.queue(record))


def test_a_member_is_not_added_on_the_leaders_node_when_its_number_cannot_be_kept() -> None:
    clients = Clients()
    cluster = clients.cluster
    record = cluster.declare("q", [1, 2, 3], home=1)
    cluster.leader(record)
    kind, queue = clients.of(1, record)
    exhausted_until(cluster.nodes[1], 1)
    told: list[BrokerError | None] = []
    kind.administration._add(queue, 1, told.append)
    assert [type(error) for error in told] == [ResourceExhausted]
    assert "no number for another member can be kept: cannot write node.facts" in str(told[0])


def test_a_member_is_not_added_on_a_node_that_does_not_say_which_one() -> None:
    clients = Clients(4)
    cluster = clients.cluster
    record = cluster.declare("q", [1, 2, 3], home=1)
    cluster.leader(record)
    cluster.nodes[4].kill()
    kind, queue = clients.of(1, record)
    told: list[BrokerError] = []
    kind.administration.add_member(queue, 4).then(lambda _: None, told.append)
    cluster.run(3)
    assert [error.text for error in told] == [
        "node '4' does not say which member of queue 'q' in vhost '/' it will have: try again"
    ]
    assert len(cluster.records[record.id].members) == 3


def test_what_a_leader_of_old_says_of_the_members_is_not_believed() -> None:
    clients = Clients()
    cluster = clients.cluster
    record = cluster.declare("q", [1, 2, 3], home=1)
    cluster.leader(record)
    kind, queue = clients.of(1, record)
    kind.administration.remove_member(queue, 3).then(lambda _: None, lambda _: None)
    cluster.run(4)
    now = cluster.records[record.id]
    assert (len(now.members), now.formed > 0) == (2, True)
    cluster.set_members(record, record.members, now.formed - 1)
    cluster.run(1)
    assert cluster.records[record.id] == now


def test_the_last_copy_of_a_queue_goes_on_with_what_is_left_of_it_and_says_so() -> None:
    clients = Clients(1)
    cluster = clients.cluster
    record = cluster.declare("q", [1], home=1)
    cluster.leader(record)
    publisher = Publisher(clients, 1, record)
    publisher.publish(20)
    cluster.run(1)
    assert publisher.confirmed == numbered(20)
    rotten = cluster.nodes[1].disk
    cluster.nodes[1].kill()
    cluster.restart(1, SimDisk())  # nothing is left
    assert cluster.lost == [("q", 0)]
    again = Publisher(clients, 1, record, name="again-")
    again.publish(5)
    cluster.run(3)
    assert len(again.confirmed) == 5
    assert clients.drain(1, record) == again.confirmed
    changed = cluster.records[record.id]
    assert [node_of(member) for member in changed.members] == [1] and changed.members > record.members
    cluster.nodes[1].kill()
    cluster.nodes[1] = cluster.start(1, cluster.nodes[1].disk)
    cluster.run(2)
    assert cluster.lost == [("q", 0)], "once is enough"
    assert clients.of(1, cluster.records[record.id])[1].route.leads
    assert rotten is not cluster.nodes[1].disk


@pytest.mark.parametrize("behind", [True, False], ids=["the catalog may be behind", "the catalog is whole"])
def test_a_member_that_is_shared_by_its_own_log_goes_on_alone_only_where_the_catalog_has_all_of_its_log(
    behind: bool,
) -> None:
    """The catalog is on disk behind its log: a node may find there that it is alone though it was joined a moment before, and
    went on as the only voter of a queue that the others still had. Once it has all, it knows that they were given up."""
    clients = Clients()
    cluster = clients.cluster
    shared = cluster.declare("q", [1, 2, 3], home=1)
    assert cluster.leader(shared).number == 1
    Publisher(clients, 1, shared).publish(5)
    cluster.run(1)
    last = clients.of(1, shared)[1].route.driver.core.status().last
    cluster.nodes[1].kill()
    cluster.run(3)
    others = Publisher(clients, 2, shared, name="others-")
    others.publish(5)
    cluster.run(1)
    assert len(others.confirmed) == 5
    of_before = replace(shared, members=shared.members[:1])
    node = cluster.nodes[1] = QuorumNode(cluster, 1, cluster.nodes[1].disk, 2, DISK_ID)
    node.alone = lambda: True
    node.catalog_is_behind = lambda: behind
    node.kind.attach(clients.hosts[1])
    cluster.open(node, of_before)
    assert cluster.lost == ([] if behind else [("q", last)])
    cluster.run(3)
    assert node.queue(shared).route.leads is not behind
    if behind:
        cluster.join_all()
        cluster.run(3)
        assert clients.drain(1, shared) == [*numbered(5), *others.confirmed]


def test_what_a_member_alone_cannot_read_any_more_is_lost_and_the_rest_is_served() -> None:
    clients = Clients(1)
    cluster = clients.cluster
    record = cluster.declare("q", [1], home=1)
    cluster.leader(record)
    publisher = Publisher(clients, 1, record)
    for _ in range(10):
        publisher.publish(1)
        cluster.run(0.1)
    last = clients.of(1, record)[1].route.driver.core.status().last
    cluster.nodes[1].groups.damaged((1 << 32) + record.id, Damaged("rot", last - 3))
    cluster.run(1)
    assert clients.of(1, record)[1].member is None
    assert cluster.lost == [], "this process has told clients what is not there any more"
    cluster.nodes[1].kill()
    cluster.start(1, cluster.nodes[1].disk)
    cluster.run(3)
    assert cluster.lost == [("q", last - 4)]
    left = clients.drain(1, record)
    assert left == numbered(len(left)) and 0 < len(left) < 10
    again = Publisher(clients, 1, record)
    again.publish(1)
    cluster.run(1)
    assert again.confirmed == numbered(1)


def test_a_clock_that_is_set_back_stops_no_leader_from_looking_after_nodes() -> None:
    clients = Clients()
    cluster = clients.cluster
    record = cluster.declare("q", [1, 2, 3], home=1)
    cluster.leader(record)
    Publisher(clients, 1, record).publish(2)
    gone = Taker(clients, 3, record, settles=False)
    cluster.run(1)
    cluster.loop.clock.jump_wall_ms(-3_600_000)
    cluster.nodes[3].kill()
    cluster.restart(3)
    cluster.run(5)
    assert clients.drain(1, record) == gone.bodies == numbered(2)


@pytest.mark.parametrize("known", [None, 1], ids=["no life", "the life before"])
def test_a_leader_whose_catalog_is_behind_ends_no_new_life_of_a_node(known: int | None) -> None:
    """Its consumers were given nothing any more: a life that is over does not come back."""
    clients, record = led_by_node_1()
    cluster = clients.cluster
    leading = clients.of(1, record)[1].leading
    assert leading is not None
    leading._incarnation_of = lambda node: known if node == 3 else 1
    cluster.nodes[3].kill()
    cluster.restart(3)
    taker = Taker(clients, 3, record)
    cluster.run(5)
    Publisher(clients, 2, record).publish(2)
    cluster.run(2)
    assert cluster.leader(record).number == 1
    assert taker.bodies == numbered(2)


def test_rules_of_an_older_declaration_that_were_decided_late_do_not_stay() -> None:
    """The leader before, whose catalog was behind, has proposed them last."""
    clients, record = led_by_node_1()
    _, queue = clients.of(1, record)
    clients.cluster.run(0.5)
    machine = queue.member.machine
    queue.leading.propose((Policy(replace(queue.rules, max_length=1)),))
    clients.cluster.loop.run_for(0.05)
    assert machine.rules.max_length == 1
    clients.cluster.run(3)
    assert machine.rules == queue.rules


@pytest.mark.parametrize("node", [1, 2])
def test_a_get_that_the_leaders_log_cannot_answer_is_answered_by_the_next_one(node: int) -> None:
    clients, record = led_by_node_1()
    cluster = clients.cluster
    Publisher(clients, node, record).publish(2)
    cluster.run(0.5)
    member = cluster.nodes[1].queue(record).member
    assert member is not None
    member.bodies.get = cannot_be_read  # type: ignore[method-assign]
    assert clients.get(node, record, within_s=10) == b"0"
    assert clients.drain(3, record) == [b"1"]


def cannot_be_read(piece: Piece) -> Body:
    raise Damaged("these bytes are not what was written", piece.entry)


def test_a_node_that_comes_to_lead_while_it_is_taken_for_down_serves_its_own_consumers() -> None:
    """Nobody else says that it is up again: its consumers were given nothing for as long as it led (simulation, seed 661)."""
    clients, record = led_by_node_1()
    cluster = clients.cluster
    taker = Taker(clients, 2, record)
    cluster.run(0.5)
    kind, queue = clients.of(1, record)
    kind.administration.transfer(queue, 2).then(lambda _: None, lambda _: None)
    cluster.run(0.3)
    _, leads = clients.of(2, record)
    leads.leading.propose((NodeDown(cluster.nodes[2].kind.key),))  # what the leader before had said last
    cluster.run(0.05)
    assert leads.member.machine.suspected()
    Publisher(clients, 3, record).publish(3)
    cluster.run(2)
    assert taker.bodies == numbered(3)


def test_a_leader_that_removes_its_own_member_stays_until_another_one_leads() -> None:
    clients, record = led_by_node_1()
    cluster = clients.cluster
    publisher = Publisher(clients, 1, record)
    publisher.publish(5)
    cluster.run(0.3)
    kind, queue = clients.of(1, record)
    kind.administration.remove_member(queue, 1).then(lambda _: None, lambda _: None)
    publisher.publish(5)
    cluster.run(6)
    assert queue.member is None
    publisher.publish(5)
    cluster.run(2)
    assert publisher.confirmed == numbered(15)
    assert cluster.leader(record).number in (2, 3)


def test_a_member_that_was_taken_in_again_stays_though_the_catalog_does_not_name_it_yet() -> None:
    """Simulated seed 8300162 of brokers: a removed member that was still there was taken in again as who it was, voted, and
    went because of its removal. When the leader was removed next, nobody could decide anything any more."""
    clients, record = led_by_node_1()
    cluster = clients.cluster
    kind, queue = clients.of(1, record)
    kind.administration.remove_member(queue, 2).then(lambda _: None, lambda error: pytest.fail(str(error)))
    cluster.run(3)
    current = cluster.records[record.id]
    assert [node_of(member) for member in current.members] == [1, 3]
    kind, queue = clients.of(3, record)
    without_3 = replace(current, members=current.members[:1])
    kind.members.changed(replace(without_3, formed=current.formed - 1))  # older than what its log has
    cluster.run(3)
    assert queue.member is not None
    assert queue.route.driver.me == current.members[1]
    leading, led = clients.of(1, record)
    leading.administration.remove_member(led, 3).then(lambda _: None, lambda error: pytest.fail(str(error)))
    cluster.run(3)
    assert queue.member is None


def test_a_member_that_is_removed_while_its_consumer_leaves_keeps_nothing_back() -> None:
    """Seed 2025 of the random clusters, once members came and went in them."""
    clients = Clients()
    cluster = clients.cluster
    record = cluster.declare("q", [1, 2, 3], home=1)
    cluster.leader(record)
    stuck = Taker(clients, 3, record, prefetch=10)
    cluster.run(0.5)
    stuck.writable = False
    Publisher(clients, 1, record).publish(5)
    stuck.cancel()
    kind, queue = clients.of(1, record)
    kind.administration.remove_member(queue, 3).then(lambda _: None, lambda _: None)
    cluster.run(6)
    assert clients.drain(2, record) == numbered(5)


def test_a_get_and_a_purge_without_a_leader_are_refused_in_time_and_what_comes_late_is_given_back() -> None:
    clients = Clients()
    cluster = clients.cluster
    record = cluster.declare("q", [1, 2, 3])
    publisher = Publisher(clients, 1, record)
    publisher.publish(1)
    cluster.run(1)
    cluster.cut(1, 2)
    cluster.cut(1, 3)
    cluster.run(3)
    queue = cluster.nodes[1].queue(record)
    told: list[str] = []
    queue.get(False, clients.now).then(lambda got: told.append(f"got {got}"), lambda error: told.append(error.text))
    cluster.run(WAIT_MS / 1000 - 1)
    assert told == []
    cluster.run(1.1)
    assert told == ["queue 'q' in vhost '/' did not answer within 15 s: it has no leader"]
    cluster.heal()
    cluster.run(3)
    other = cluster.nodes[2].queue(record)
    assert (other.ready_count, other.statistics().unacknowledged) == (1, 0)
    taker = Taker(clients, 2, record)
    cluster.run(1)
    assert taker.got == [(b"0", False)], "nobody has seen it before"


def test_who_declares_a_queue_again_is_answered_also_where_the_member_leaves_at_that_moment() -> None:
    """Its leader had answered, and the member here had not come so far. It never did, and the client waited for ever."""
    clients, record = led_by_node_1()
    kind, queue = clients.of(3, record)
    declared = queue.used(clients.now)
    assert declared is not None and queue.member is not None
    asked_at = queue.news.applied
    while queue.news.applied == asked_at:
        clients.cluster.run(0.0005)
    assert queue.news.applied > queue.member.machine.applied and not declared.answered
    kind.members.drop(queue)
    assert declared.answered


def test_a_queue_that_could_not_be_deleted_when_it_expired_is_deleted_later_unless_it_is_used() -> None:
    clients = Clients()
    cluster = clients.cluster
    record = cluster.declare("q", [1, 2, 3], **{"x-expires": 100_000})
    leader = cluster.leader(record)
    host = clients.hosts[leader.number]
    cluster.run(101)
    assert len(host.to_delete) == 1
    cluster.run(2 * EXPIRES_RETRY_MS / 1000 + 2)
    assert len(host.to_delete) == 3
    taker = Taker(clients, 2, record)
    cluster.run(60)
    assert len(host.to_delete) == 3
    taker.cancel()
    cluster.run(60)
    assert len(host.to_delete) == 3


def test_links_that_come_and_go_do_not_have_a_queue_without_a_leader_looked_after_more_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each link that came began another round of looks beside those that went on: thousands a second after a while."""
    clients = Clients()
    cluster = clients.cluster
    record = cluster.declare("q", [2, 3])
    Taker(clients, 1, record)
    cluster.nodes[3].kill()
    looks: list[float] = []
    try_again = queues.QuorumQueue.try_again

    def counted(queue: queues.QuorumQueue) -> None:
        if queue is cluster.nodes[1].queue(record):
            looks.append(cluster.loop.time())
        try_again(queue)

    monkeypatch.setattr(queues.QuorumQueue, "try_again", counted)
    for _ in range(20):
        cluster.cut(1, 2)
        cluster.heal()
        cluster.run(0.1)
    before = len(looks)
    cluster.run(1)
    assert 1 / LOOK_S / 2 < len(looks) - before < 1 / LOOK_S + 2


def test_what_an_earlier_process_of_the_only_node_held_is_given_out_again_at_once() -> None:
    clients = Clients()
    cluster = clients.cluster
    record = cluster.declare("q", [1])
    Publisher(clients, 1, record).publish(3)
    taker = Taker(clients, 1, record, settles=False)
    cluster.run(0.5)
    assert taker.bodies == numbered(3)
    cluster.nodes[1].kill()
    cluster.restart(1)
    cluster.leader(record)
    cluster.run(2)
    assert clients.drain(1, record) == numbered(3)


@pytest.mark.parametrize("node", [1, 2])
def test_a_queue_that_was_declared_again_has_all_of_x_expires_before_it(node: int) -> None:
    clients = Clients()
    cluster = clients.cluster
    record = cluster.declare("q", [1, 2, 3], home=1, **{"x-expires": 100_000})
    host = clients.hosts[cluster.leader(record).number]
    cluster.run(60)
    clients.of(node, record)[1].used(clients.now)
    cluster.run(90)
    assert not host.to_delete
    cluster.run(12)
    assert len(host.to_delete) == 1


@pytest.mark.parametrize("meanwhile", ["it got a consumer", "another node leads"])
def test_a_queue_that_is_to_be_looked_at_again_before_it_expires_stays_when(meanwhile: str) -> None:
    """It was declared again, and its end put off. Then somebody used it, or somebody else had to judge whether it is used."""
    clients = Clients()
    cluster = clients.cluster
    record = cluster.declare("q", [1, 2, 3], **{"x-expires": 100_000})
    leader = cluster.leader(record)
    cluster.run(60)
    clients.of(leader.number, record)[1].used(clients.now)
    cluster.run(50)
    if meanwhile == "it got a consumer":
        Taker(clients, leader.number, record)
    else:
        other = next(number for number in cluster.nodes if number != leader.number)
        leader.kind.administration.transfer(leader.queue(record), other)
        cluster.run(1)
        assert cluster.leader(record).number == other
    cluster.run(70)
    assert [host.to_delete for host in clients.hosts.values()] == [[]] * 3


def test_a_queue_that_was_used_since_its_deletion_failed_is_not_deleted_though_nobody_uses_it_now() -> None:
    clients = Clients()
    cluster = clients.cluster
    record = cluster.declare("q", [1, 2, 3], **{"x-expires": 100_000})
    leader = cluster.leader(record)
    host = clients.hosts[leader.number]
    cluster.run(101)
    assert len(host.to_delete) == 1
    clients.of(leader.number, record)[1].get(True, clients.now)
    cluster.run(60)
    assert len(host.to_delete) == 1
