"""Direct reply-to: who may consume and publish how, that answers find their requester, and what it costs when they do not."""

from __future__ import annotations

from typing import Any

import pytest

from broker.catalog.commands.catalog_commands import PutPermission, PutVhost
from broker.errors import NotFound, NotSupported, PreconditionFailed
from broker.names import DIRECT_REPLY_TO
from broker.records import PermissionRecord, VhostRecord
from broker.routing.reply_to import WAITING_MAX
from tests.unit.broker.broker_world import Client, World, refused


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def requester(world: World) -> Client:
    client = world.client()
    client.declare("service")
    client.consume(DIRECT_REPLY_TO, "replies", no_ack=True)
    return client


@pytest.fixture
def server(world: World) -> Client:
    return world.client()


def ask(requester: Client, server: Client) -> str:
    """A request; returns the name that the server is to answer to."""
    requester.publish("", "service", b"request", reply_to=DIRECT_REPLY_TO)
    reply_to = server.properties_of("service")["reply_to"]
    assert isinstance(reply_to, str)
    return reply_to


def test_an_answer_finds_its_requester(requester: Client, server: Client) -> None:
    reply_to = ask(requester, server)
    assert reply_to.startswith(DIRECT_REPLY_TO + ".")
    server.publish("", reply_to, b"answer", correlation_id="7")
    assert requester.bodies == [b"answer"]
    assert requester.routes == [("", reply_to)]
    assert (requester.properties, requester.consumer_tags) == ([{"correlation_id": "7"}], ["replies"])


def test_a_request_keeps_what_stands_before_and_behind_its_reply_to(requester: Client, server: Client) -> None:
    others: dict[str, Any] = {"content_type": "text/plain", "correlation_id": "7", "message_id": "m", "app_id": "a"}
    requester.publish("", "service", b"request", reply_to=DIRECT_REPLY_TO, **others)
    properties = server.properties_of("service")
    assert str(properties.pop("reply_to")).startswith(DIRECT_REPLY_TO + ".")
    assert properties == others


def test_each_requester_has_a_name_of_its_own(world: World, requester: Client, server: Client) -> None:
    other = world.client()
    other.consume(DIRECT_REPLY_TO, no_ack=True)
    first, second = ask(requester, server), ask(other, server)
    assert first != second and ask(requester, server) == first
    server.publish("", second, b"for the other")
    assert (requester.bodies, other.bodies) == ([], [b"for the other"])


def test_a_reply_name_that_is_passed_on_stays_as_it_is(requester: Client, server: Client) -> None:
    reply_to = ask(requester, server)
    server.publish("", "service", b"forwarded", reply_to=reply_to)
    assert server.properties_of("service")["reply_to"] == reply_to


def test_an_answer_is_confirmed_and_counts_as_routed(requester: Client, server: Client) -> None:
    reply_to = ask(requester, server)
    server.session.publisher.select_confirms()
    server.publish("", reply_to, b"answer", mandatory=True)
    assert (server.take_confirms(), server.returns) == ([(1, 1, True, True)], [])
    assert server.session.counters.routed == 1


def test_an_answer_that_took_over_the_requests_headers_still_arrives(requester: Client, server: Client) -> None:
    reply_to = ask(requester, server)
    server.publish("", reply_to, b"answer", headers={"CC": ["service"], "BCC": ["x"], "k": 1})
    assert (requester.bodies, requester.properties) == ([b"answer"], [{"headers": {"CC": ["service"], "k": 1}}])


@pytest.mark.parametrize("end", ["cancel", "close", "disconnect"])
def test_when_the_requester_is_gone_its_answers_lead_nowhere(
    world: World, requester: Client, server: Client, end: str
) -> None:
    reply_to = ask(requester, server)
    if end == "cancel":
        requester.session.cancel("replies", world.now)
    elif end == "close":
        requester.close()
    else:
        world.disconnect(requester)
    server.session.publisher.select_confirms()
    server.publish("", reply_to, b"too late", mandatory=True)
    assert (server.returns, server.take_confirms()) == ([(312, "NO_ROUTE", b"too late")], [(1, 1, True, True)])
    refused(NotFound, f"no queue '{reply_to}' in vhost '/'", lambda: server.declare(reply_to, passive=True))


def test_replies_are_consumed_without_acknowledgement(world: World) -> None:
    text = "reply consumer cannot acknowledge"
    refused(PreconditionFailed, text, lambda: world.client().consume(DIRECT_REPLY_TO))
    refused(PreconditionFailed, text, lambda: world.client().get(DIRECT_REPLY_TO))


def test_a_session_is_a_requester_once(requester: Client) -> None:
    text = "reply consumer already set"
    refused(PreconditionFailed, text, lambda: requester.consume(DIRECT_REPLY_TO, "again", no_ack=True))


def test_cancelling_ends_it_and_consuming_again_begins_under_another_name(requester: Client, server: Client) -> None:
    before = ask(requester, server)
    requester.session.cancel("replies", requester.world.now)
    text = "fast reply consumer does not exist"
    refused(PreconditionFailed, text, lambda: requester.publish("", "service", b"q", reply_to=DIRECT_REPLY_TO))
    requester.consume(DIRECT_REPLY_TO, no_ack=True)
    assert ask(requester, server) != before


def test_a_requester_is_listed_as_a_consumer_like_any_other(world: World, requester: Client) -> None:
    (consumer,) = world.broker.consumers()
    assert consumer.queue.record.name.startswith(DIRECT_REPLY_TO)
    assert consumer.queue.statistics().consumers == 1


def test_a_request_needs_somebody_to_take_the_answer(server: Client) -> None:
    server.declare("service")
    text = "fast reply consumer does not exist"
    refused(PreconditionFailed, text, lambda: server.publish("", "service", b"a", reply_to=DIRECT_REPLY_TO))
    assert server.world.ready("service") == 0


def test_declaring_asks_whether_the_requester_is_there(requester: Client, server: Client) -> None:
    for name in (DIRECT_REPLY_TO, ask(requester, server)):
        for passive in (True, False):
            answer = server.declare(name, passive=passive)
            assert (answer.name, answer.ready, answer.consumers) == (name, 0, 1)
    assert server.delete(DIRECT_REPLY_TO) == 0


def test_answers_can_be_fetched_one_by_one(world: World, server: Client) -> None:
    requester = world.client()
    requester.declare("service")
    assert requester.get(DIRECT_REPLY_TO, no_ack=True) is None  # the first get makes it a requester
    reply_to = ask(requester, server)
    server.publish("", reply_to, b"one", b"two")
    got = [requester.get(DIRECT_REPLY_TO, no_ack=True) for _ in range(3)]
    assert [one and one.remaining for one in got] == [1, 0, None]


def test_a_requester_that_does_not_read_loses_what_is_too_much(requester: Client, server: Client) -> None:
    reply_to = ask(requester, server)
    requester.writable = False
    for number in range(WAITING_MAX + 10):
        server.publish("", reply_to, b"%d" % number)
    requester.writable = True
    requester.session.resume(requester.world.now)
    requester.world.end_turn()
    assert requester.bodies == [b"%d" % number for number in range(WAITING_MAX)]


def test_a_reply_name_of_another_vhost_leads_nowhere(world: World, requester: Client, server: Client) -> None:
    reply_to = ask(requester, server)
    world.submit(PutVhost(VhostRecord("other")), PutPermission(PermissionRecord("guest", "other", ".*", ".*", ".*")))
    stranger = world.client(vhost="other")
    stranger.publish("", reply_to, b"x", mandatory=True)
    assert (requester.bodies, stranger.returns) == ([], [(312, "NO_ROUTE", b"x")])


def test_replies_cannot_be_purged(requester: Client) -> None:
    (consumer,) = requester.session.consumers()
    refused(NotSupported, "replies cannot be purged", lambda: consumer.queue.purge(0))
