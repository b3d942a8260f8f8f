"""Direct reply-to (B19): answers reach their requester through no queue, at most once, or not at all."""

from __future__ import annotations

import pytest

from broker.errors import NotFound, PreconditionFailed
from broker.names import DIRECT_REPLY_TO
from broker.reply_to import WAITING_MAX
from tests.unit.broker.broker_world import Client, World, refused


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def server(world: World) -> Client:
    server = world.client()
    server.declare("requests")
    return server


@pytest.fixture
def requester(world: World, server: Client) -> Client:
    client = world.client()
    client.consume(DIRECT_REPLY_TO, "replies", no_ack=True)
    return client


def asked(requester: Client, server: Client) -> str:
    """The name under which the server may answer."""
    requester.publish("", "requests", b"question", reply_to=DIRECT_REPLY_TO)
    name = server.properties_of("requests")["reply_to"]
    assert isinstance(name, str)
    return name


def test_a_request_carries_a_name_of_its_own_and_the_answer_comes_back(requester: Client, server: Client) -> None:
    name = asked(requester, server)
    assert name.startswith(DIRECT_REPLY_TO + ".")
    server.publish("", name, b"answer", correlation_id="7")
    assert (requester.bodies, requester.consumer_tags) == ([b"answer"], ["replies"])
    assert requester.properties[0]["correlation_id"] == "7"
    assert requester.routes == [("", name)]


def test_requesters_have_different_names_that_cannot_be_guessed(world: World, server: Client) -> None:
    names = set()
    for _ in range(3):
        requester = world.client()
        requester.consume(DIRECT_REPLY_TO, no_ack=True)
        names.add(asked(requester, server))
    assert len(names) == 3
    assert all(len(name) > len(DIRECT_REPLY_TO) + 30 for name in names)


def test_a_reply_is_confirmed_to_whoever_sent_it(requester: Client, server: Client) -> None:
    name = asked(requester, server)
    server.session.select_confirms()
    server.publish("", name, b"answer", mandatory=True)
    assert (server.confirms, server.returns) == ([(1, 1, True, True)], [])


def test_a_requester_that_is_gone_gets_nothing_and_a_mandatory_reply_comes_back(
    world: World, requester: Client, server: Client
) -> None:
    name = asked(requester, server)
    world.disconnect(requester)
    server.publish("", name, b"dropped")
    server.publish("", name, b"returned", mandatory=True)
    assert [body for _, _, body in server.returns] == [b"returned"]
    assert requester.bodies == []


def test_cancelling_ends_it_and_consuming_again_begins_under_another_name(requester: Client, server: Client) -> None:
    before = asked(requester, server)
    requester.session.cancel("replies", requester.world.now)
    refused(
        PreconditionFailed,
        "fast reply consumer does not exist",
        lambda: requester.publish("", "requests", b"q", reply_to=DIRECT_REPLY_TO),
    )
    requester.consume(DIRECT_REPLY_TO, no_ack=True)
    assert asked(requester, server) != before


def test_a_request_without_a_reply_consumer_is_refused(server: Client) -> None:
    refused(
        PreconditionFailed,
        "fast reply consumer does not exist",
        lambda: server.publish("", "requests", b"q", reply_to=DIRECT_REPLY_TO),
    )


def test_a_reply_consumer_must_not_acknowledge_and_there_is_one_only(world: World) -> None:
    client = world.client()
    refused(PreconditionFailed, "reply consumer cannot acknowledge", lambda: client.consume(DIRECT_REPLY_TO))
    client.consume(DIRECT_REPLY_TO, no_ack=True)
    refused(PreconditionFailed, "reply consumer already set", lambda: client.consume(DIRECT_REPLY_TO, no_ack=True))


def test_the_name_of_somebody_else_is_passed_on_as_it_is(requester: Client, server: Client) -> None:
    name = asked(requester, server)
    server.publish("", "requests", b"forwarded", reply_to=name)
    assert server.properties_of("requests")["reply_to"] == name


def test_a_server_asks_whether_its_requester_is_there_by_declaring(
    world: World, requester: Client, server: Client
) -> None:
    name = asked(requester, server)
    declared = server.declare(name, passive=True)
    assert (declared.name, declared.ready, declared.consumers) == (name, 0, 1)
    world.disconnect(requester)
    refused(NotFound, f"no queue '{name}' in vhost '/'", lambda: server.declare(name, passive=True))


def test_the_pseudo_queue_itself_can_be_declared_and_deleted_to_no_effect(server: Client) -> None:
    assert server.declare(DIRECT_REPLY_TO).consumers == 1
    assert server.delete(DIRECT_REPLY_TO) == 0


def test_replies_can_be_fetched_one_by_one(world: World, server: Client) -> None:
    requester = world.client()
    refused(PreconditionFailed, "reply consumer cannot acknowledge", lambda: requester.get(DIRECT_REPLY_TO))
    assert requester.get(DIRECT_REPLY_TO, no_ack=True) is None
    name = asked(requester, server)
    server.publish("", name, b"one", b"two")
    assert requester.bodies_of(DIRECT_REPLY_TO) == [b"one", b"two"]


def test_replies_wait_for_a_slow_requester_up_to_a_limit(requester: Client, server: Client) -> None:
    name = asked(requester, server)
    requester.writable = False
    for number in range(WAITING_MAX + 10):
        server.publish("", name, b"%d" % number)
    requester.writable = True
    requester.session.resume(requester.world.now)
    requester.world.end_turn()
    assert requester.bodies == [b"%d" % number for number in range(WAITING_MAX)]


def test_a_requester_is_listed_as_a_consumer_like_any_other(world: World, requester: Client) -> None:
    (consumer,) = list(world.broker.consumers())
    assert consumer.queue.record.name.startswith(DIRECT_REPLY_TO)
    assert consumer.queue.statistics().consumers == 1


def test_a_name_is_good_in_its_own_vhost_only(world: World, requester: Client, server: Client) -> None:
    name = asked(requester, server)
    assert world.broker.replies.find("elsewhere", name) is None
    assert world.broker.replies.find("/", name) is not None
