"""Transactions (B11): publishes and settlements wait for commit; rollback leaves no trace."""

from __future__ import annotations

import pytest

from broker.catalog.commands.catalog_commands import DeleteExchange, DeletePermission
from broker.errors import NotFound, PreconditionFailed, ResourceExhausted
from broker.session import transactions
from broker.session.deliveries import Held, Unacknowledged
from broker.session.transactions import CARRIED_OUT_PER_STEP, MESSAGES_AS_A_PUBLISH, RUN_BYTES, Completion
from tests.unit.broker.broker_world import Client, World, refused
from tests.unit.broker.later_turns import LaterTurns


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def client(world: World) -> Client:
    client = world.client()
    client.declare("q")
    client.session.select_transactions()
    return client


def commit(client: Client) -> None:
    client.world.answer(client.session.commit(client.world.now))


def rollback(client: Client) -> None:
    client.session.rollback(client.world.now)
    client.world.end_turn()


def test_publishes_arrive_at_commit_in_order(world: World, client: Client) -> None:
    client.publish("", "q", b"1", b"2")
    client.publish("", "q", b"3")
    assert (world.ready("q"), client.session.statistics()["uncommitted"]) == (0, 3)
    commit(client)
    assert client.bodies_of("q") == [b"1", b"2", b"3"]


def test_rollback_forgets_publishes(world: World, client: Client) -> None:
    client.publish("", "q", b"1")
    rollback(client)
    commit(client)
    assert world.ready("q") == 0


def test_acknowledgements_hold_at_commit(world: World, client: Client) -> None:
    world.client().publish("", "q", b"1", b"2")
    client.consume("q")
    client.ack(2, multiple=True)
    assert world.broker.queue("/", "q").statistics().unacknowledged == 2
    commit(client)
    assert world.broker.queue("/", "q").statistics().unacknowledged == 0


def test_after_rollback_what_was_acknowledged_can_be_settled_again(world: World, client: Client) -> None:
    world.client().publish("", "q", b"1", b"2", b"3")
    client.consume("q")
    client.ack(2)
    rollback(client)
    client.reject(3, multiple=True, requeue=True)
    commit(client)
    assert client.bodies == [b"1", b"2", b"3"] * 2


@pytest.mark.parametrize("leaves", [False, True], ids=["rolled back", "its client goes"])
def test_very_many_settlements_are_undone_at_once(
    world: World, client: Client, leaves: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that is held was put in order anew for each: 30,000 of them held the node's event loop for minutes."""
    put_back: list[int] = []
    once = Unacknowledged.put_back

    def counted(self: Unacknowledged, taken: list[Held]) -> None:
        put_back.append(sum(held.count for held in taken))
        once(self, taken)

    monkeypatch.setattr(Unacknowledged, "put_back", counted)
    bodies = [b"%d" % number for number in range(100)]
    world.client().publish("", "q", *bodies)
    client.consume("q")
    for tag in range(1, 101, 2):
        client.ack(tag)
    if leaves:
        world.disconnect(client)
    else:
        rollback(client)
    assert put_back == [50]
    client.close()
    assert world.client().bodies_of("q") == bodies


def test_an_unknown_tag_is_refused_at_once(client: Client) -> None:
    refused(PreconditionFailed, "unknown delivery tag 9", lambda: client.ack(9))


def test_a_tag_that_waits_for_commit_is_not_held_any_more(world: World, client: Client) -> None:
    world.client().publish("", "q", b"1")
    client.consume("q")
    client.ack(1)
    refused(PreconditionFailed, "unknown delivery tag 1", lambda: client.ack(1))


def test_what_waited_for_commit_goes_back_when_the_channel_closes(world: World, client: Client) -> None:
    world.client().publish("", "q", b"1", b"2")
    client.consume("q")
    client.ack(1)
    client.publish("", "q", b"lost")
    client.close()
    other = world.client()
    other.consume("q")
    assert other.delivered == [(1, b"1", True), (2, b"2", True)]


def test_a_missing_exchange_is_refused_when_it_is_published_to(client: Client) -> None:
    refused(NotFound, "no exchange 'nope' in vhost '/'", lambda: client.publish("nope", "k", b"1"))


def test_a_queue_that_refuses_makes_the_commit_fail_and_others_keep_theirs(world: World, client: Client) -> None:
    client.declare("small", max_length=1, overflow="reject-publish")
    client.publish("", "q", b"1")
    client.publish("", "small", b"1", b"2")
    refused(PreconditionFailed, "partial tx completion", lambda: commit(client))
    assert (world.ready("q"), world.ready("small")) == (1, 1)


def test_unroutable_mandatory_messages_return_at_commit(client: Client) -> None:
    client.publish("amq.direct", "none", b"1", mandatory=True)
    assert client.returns == []
    commit(client)
    assert [body for _, _, body in client.returns] == [b"1"]


def test_what_is_bound_at_commit_counts(client: Client) -> None:
    client.publish("amq.direct", "k", b"1")
    client.bind("q", "amq.direct", "k")
    commit(client)
    assert client.bodies_of("q") == [b"1"]


def test_an_exchange_that_went_in_between_leads_nowhere_and_the_rest_is_committed(world: World, client: Client) -> None:
    client.declare_exchange("gone", "fanout")
    client.bind("q", "gone", "")
    client.publish("gone", "", b"lost")
    client.publish("", "q", b"kept")
    world.submit(DeleteExchange("/", "gone"))
    commit(client)
    assert client.bodies_of("q") == [b"kept"]


def test_what_was_permitted_when_it_was_published_stays_so(world: World, client: Client) -> None:
    client.publish("", "q", b"1")
    world.submit(DeletePermission("guest", "/"))
    commit(client)
    assert world.ready("q") == 1


def test_confirms_and_transactions_exclude_each_other(world: World, client: Client) -> None:
    refused(PreconditionFailed, "cannot switch from tx to confirm mode", client.session.publisher.select_confirms)
    other = world.client()
    other.session.publisher.select_confirms()
    refused(PreconditionFailed, "cannot switch from confirm to tx mode", other.session.select_transactions)


def test_without_select_there_is_nothing_to_end(world: World) -> None:
    other = world.client()
    refused(PreconditionFailed, "channel is not transactional", lambda: other.session.commit(world.now))
    refused(PreconditionFailed, "channel is not transactional", lambda: other.session.rollback(world.now))


def test_selecting_twice_keeps_what_was_gathered(world: World, client: Client) -> None:
    client.publish("", "q", b"1")
    client.session.select_transactions()
    commit(client)
    assert world.ready("q") == 1


def test_a_commit_of_nothing_is_answered(client: Client) -> None:
    commit(client)


def test_a_queue_deleted_before_the_commit_gets_nothing_and_harms_nobody(world: World, client: Client) -> None:
    client.declare("gone")
    client.publish("", "gone", b"1")
    client.publish("", "q", b"2")
    client.delete("gone")
    commit(client)
    assert world.ready("q") == 1


def test_a_completion_waits_for_every_receipt_and_for_the_end() -> None:
    done: list[int] = []
    completion = Completion(done.append)
    first, second = completion.expect(1, 1), completion.expect(3, 2)
    first.refused()
    second.accepted()
    completion.close()
    assert done == []
    second.accepted()
    assert done == [1]


def test_a_large_commit_is_done_over_several_turns_and_answered_at_its_end(world: World, client: Client) -> None:
    count = 3 * CARRIED_OUT_PER_STEP
    world.client().publish("", "q", *[b"old"] * count)
    client.consume("q")
    for number in range(count):
        client.publish("", "q", b"%d" % number)
        client.ack(number + 1)
    later = LaterTurns(world, steps_max=1)
    said: list[str] = []
    client.session.commit(world.now).then(lambda _: said.append("done"), lambda error: said.append(error.text))
    stored = [world.ready("q")]
    while later.soon:
        assert said == []
        later.one()
        stored.append(world.ready("q"))
    assert said == ["done"]
    assert stored[:4] == [CARRIED_OUT_PER_STEP * step for step in (1, 2, 3, 3)]
    assert world.broker.queue("/", "q").statistics().unacknowledged == 0
    world.end_turn()
    assert client.bodies[count:] == [b"%d" % number for number in range(count)]


def test_a_run_of_many_messages_counts_as_many_publishes(world: World, client: Client) -> None:
    """A queue that may refuse each takes them one by one: 400,000 empty ones in runs of 16,384 held a node for a second."""
    count = CARRIED_OUT_PER_STEP * MESSAGES_AS_A_PUBLISH
    for _ in range(3):
        client.publish("", "q", *[b""] * count)
    later = LaterTurns(world, steps_max=1)
    client.session.commit(world.now).then(lambda _: None, lambda error: pytest.fail(error.text))
    stored = [world.ready("q")]
    while later.soon:
        later.one()
        stored.append(world.ready("q"))
    assert stored[:3] == [count, 2 * count, 3 * count]


def test_what_was_not_committed_goes_with_its_session(client: Client) -> None:
    """A session is part of a cycle: the 128 MB of one that had gone stayed, and publishers were held by the alarm of memory."""
    content = bytes(1000)
    client.publish("", "q", content)
    transaction = client.session._transactions.current
    client.close()
    assert client.session._transactions.current is not transaction
    assert client.session.statistics()["uncommitted"] == 0


def test_a_transaction_holds_so_much_and_no_more(world: World, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "TRANSACTION_BYTES_MAX", 1 << 20)
    client.publish("", "q", bytes(2 << 20))
    with pytest.raises(ResourceExhausted, match="more than 1 MiB: what it holds is in memory"):
        client.publish("", "q", b"x")
    commit(client)
    assert world.ready("q") == 1
    for _ in range((1 << 20) // (RUN_BYTES + 30)):
        client.publish("", "q", b"x")
    rollback(client)
    client.publish("", "q", b"y")
    commit(client)
    assert world.ready("q") == 2


def test_what_a_client_has_committed_is_done_though_it_has_gone(world: World, client: Client) -> None:
    count = 2 * CARRIED_OUT_PER_STEP
    world.client().publish("", "q", b"old")
    assert client.get("q") is not None
    client.ack(1)
    for number in range(count):
        client.publish("", "q", b"%d" % number)
    later = LaterTurns(world, steps_max=1)
    client.session.commit(world.now).then(lambda _: None, lambda error: pytest.fail(error.text))
    client.close()
    later.all()
    other = world.client()
    assert other.bodies_of("q") == [b"%d" % number for number in range(count)]


def test_a_commit_waits_for_the_one_before_it(world: World, client: Client) -> None:
    """Each was a work of its own, and works take turns: seed 14000139 of the simulation of brokers."""
    count = 3 * CARRIED_OUT_PER_STEP
    for number in range(count):
        client.publish("", "q", b"%d" % number)
    later = LaterTurns(world, steps_max=1)
    said: list[str] = []
    client.session.commit(world.now).then(lambda _: said.append("first"), lambda error: pytest.fail(error.text))
    client.publish("", "q", b"of the second")
    client.session.commit(world.now).then(lambda _: said.append("second"), lambda error: pytest.fail(error.text))
    later.all()
    assert said == ["first", "second"]
    assert world.client().bodies_of("q") == [*(b"%d" % number for number in range(count)), b"of the second"]
