"""What a session declares: passive, server-named, last declared, auto-delete, deletion rules, and who may do what."""

from __future__ import annotations

from typing import Any

import pytest

from broker.catalog.commands.catalog_commands import DeclareQueue, PutVhost, SetVhostLimits
from broker.errors import AccessRefused, NotFound, PreconditionFailed, QueueAway, ResourceExhausted, ResourceLocked
from broker.pending import Pending
from broker.records import VhostRecord
from tests.unit.broker.broker_world import Client, World, refused


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def client(world: World) -> Client:
    return world.client()


# ------------------------------------------------------------------------- names


def test_a_server_named_queue_gets_a_name_that_nobody_can_guess(client: Client) -> None:
    names = {client.declare().name for _ in range(3)}
    assert len(names) == 3
    assert all(name.startswith("amq.gen-") and len(name) == 30 for name in names)


def test_only_classic_queues_are_named_by_the_server(client: Client) -> None:
    text = "Cannot declare a server-named queue for type rabbit_quorum_queue"
    refused(PreconditionFailed, text, lambda: client.declare(queue_type="quorum"))


def test_the_empty_name_means_the_queue_declared_last(client: Client) -> None:
    for ask in (
        lambda: client.consume(""),
        lambda: client.get(""),
        lambda: client.bind("", "amq.direct", "k"),
        lambda: client.purge(""),
        lambda: client.delete(""),
    ):
        refused(NotFound, "no previously declared queue", ask)
    client.declare("first")
    client.declare("last")
    client.publish("", "last", b"a")
    client.bind("", "amq.direct", "")
    client.publish("amq.direct", "last", b"b")  # queue and key both empty: the key is the queue's name
    assert client.bodies_of("") == [b"a", b"b"]
    client.publish("", "last", b"c")
    assert client.purge("") == 1
    assert client.delete("") == 0
    assert world_queues(client) == ["first"]


def test_a_passive_declaration_counts_as_the_last(client: Client) -> None:
    client.declare("one")
    client.declare("two")
    client.declare("one", passive=True)
    client.delete("")
    assert world_queues(client) == ["two"]


def test_the_last_declared_queue_may_be_gone(client: Client) -> None:
    client.declare("q")
    client.delete("q")
    refused(NotFound, "no queue 'q' in vhost '/'", lambda: client.consume(""))


def world_queues(client: Client) -> list[str]:
    return [queue.record.name for queue in client.world.broker.queues()]


def test_line_breaks_are_no_part_of_a_name(client: Client) -> None:
    assert client.declare("a\r\nb").name == "ab"
    client.declare_exchange("x\ny")
    client.bind("a\nb", "xy", "k")
    client.publish("xy", "k", b"a")
    assert client.bodies_of("ab") == [b"a"]


def test_names_of_the_broker_are_refused_to_clients(client: Client) -> None:
    text = "{} name 'amq.foo' contains reserved prefix 'amq.*'"
    refused(AccessRefused, text.format("queue"), lambda: client.declare("amq.foo"))
    refused(AccessRefused, text.format("exchange"), lambda: client.declare_exchange("amq.foo"))
    refused(NotFound, "no queue 'amq.foo' in vhost '/'", lambda: client.declare("amq.foo", passive=True))
    refused(NotFound, "no exchange 'amq.foo' in vhost '/'", lambda: client.declare_exchange("amq.foo", passive=True))
    assert client.delete("amq.foo") == 0
    client.declare_exchange("amq.direct", "direct")


# ------------------------------------------------------------------------- declaring queues


def test_the_answer_says_how_many_messages_are_ready_and_how_many_consume(client: Client) -> None:
    client.declare("q")
    client.publish("", "q", b"a", b"b", b"c")
    client.get("q")
    client.consume("q", prefetch=1)
    for passive in (False, True):
        answer = client.declare("q", passive=passive)
        assert (answer.name, answer.ready, answer.consumers) == ("q", 1, 1)


def test_passive_asks_for_a_queue_and_makes_none(client: Client) -> None:
    refused(NotFound, "no queue 'nope' in vhost '/'", lambda: client.declare("nope", passive=True))
    refused(NotFound, "no queue '' in vhost '/'", lambda: client.declare("", passive=True))
    client.declare("q", message_ttl=1000)
    client.declare("q", passive=True, durable=False, auto_delete=True, max_length=3)
    refused(NotFound, "no queue '' in vhost '/'", lambda: client.declare("", passive=True))


@pytest.mark.parametrize(
    ("again", "text"),
    [
        ({"durable": False}, "inequivalent arg 'durable' for queue 'q' in vhost '/': received 'false' but current is 'true'"),
        (
            {"auto_delete": True},
            "inequivalent arg 'auto_delete' for queue 'q' in vhost '/': received 'true' but current is 'false'",
        ),
        (
            {"message_ttl": 1000},
            "inequivalent arg 'x-message-ttl' for queue 'q' in vhost '/': "
            "received the value '1000' of type 'signedint' but current is none",
        ),
    ],
)  # fmt: skip
def test_declared_again_otherwise(client: Client, again: dict[str, object], text: str) -> None:
    client.declare("q")
    refused(PreconditionFailed, text, lambda: client.declare("q", **again))  # type: ignore[arg-type]
    client.declare("q", queue_type="classic")


def test_declared_again_exclusively(client: Client) -> None:
    client.declare("q")
    with pytest.raises(ResourceLocked):
        client.declare("q", exclusive=True)


def test_a_kind_that_this_node_does_not_have(client: Client) -> None:
    text = "invalid arg 'x-queue-type' for queue 'q' in vhost '/': \"unsupported queue type 'quorum'\""
    refused(PreconditionFailed, text, lambda: client.declare("q", queue_type="quorum"))
    assert client.world.catalog.queue("/", "q") is None


def test_a_limit_of_queues_in_the_vhost(world: World, client: Client) -> None:
    world.submit(SetVhostLimits("/", {"max-queues": 1}))
    client.declare("a")
    text = "cannot declare queue 'b': queue limit in vhost '/' (1) is reached"
    refused(PreconditionFailed, text, lambda: client.declare("b"))
    client.declare("a")


def test_the_default_kind_of_the_vhost_is_asked_for(world: World) -> None:
    world.submit(PutVhost(VhostRecord("/", default_queue_type="quorum")))
    text = "invalid arg 'x-queue-type' for queue 'q' in vhost '/': \"unsupported queue type 'quorum'\""
    refused(PreconditionFailed, text, lambda: world.client().declare("q"))


# ------------------------------------------------------------------------- purge and delete


def test_purge_and_delete_answer_how_many_were_ready(client: Client) -> None:
    client.declare("q")
    client.publish("", "q", b"a", b"b", b"c")
    client.get("q")
    assert client.purge("q") == 2
    client.publish("", "q", b"d")
    assert client.delete("q") == 1


def test_purge_of_a_missing_queue_is_an_error_and_delete_is_none(client: Client) -> None:
    refused(NotFound, "no queue 'nope' in vhost '/'", lambda: client.purge("nope"))
    assert client.delete("nope") == 0
    assert client.delete("nope", if_unused=True, if_empty=True) == 0


def test_a_queue_that_was_just_declared_and_is_not_open_here_yet_is_deleted_all_the_same(
    world: World, client: Client
) -> None:
    """While others declared and deleted one queue, a deletion was answered 404, and the channel closed."""
    world.catalog.apply(DeclareQueue("/", "q", kind="classic", home="leveret@test"))
    world.catalog.apply(
        DeclareQueue("/", "theirs", kind="classic", exclusive=True, home="leveret@test", owner="somebody")
    )
    with pytest.raises(ResourceLocked):
        client.delete("theirs")
    text = "queue 'q' in vhost '/' is being opened on this node: try again"
    refused(QueueAway, text, lambda: client.delete("q", if_empty=True))
    refused(QueueAway, text, lambda: client.declare("q", passive=True))
    refused(QueueAway, text, lambda: world.broker.queue("/", "q"))
    refused(NotFound, "no queue 'other' in vhost '/'", lambda: world.broker.queue("/", "other"))
    assert client.delete("q") == 0
    assert world.catalog.queue("/", "q") is None


def test_delete_only_when_unused_or_empty(client: Client) -> None:
    client.declare("q")
    client.publish("", "q", b"a")
    refused(PreconditionFailed, "queue 'q' in vhost '/' not empty", lambda: client.delete("q", if_empty=True))
    client.consume("q", "c", prefetch=1)
    client.publish("", "q", b"b")
    for if_empty in (True, False):
        text = "queue 'q' in vhost '/' in use"
        refused(PreconditionFailed, text, lambda: client.delete("q", if_unused=True, if_empty=if_empty))  # noqa: B023
    client.session.cancel("c", client.world.now)
    assert client.delete("q", if_unused=True) == 1


# ------------------------------------------------------------------------- queues that go by themselves


def test_an_auto_delete_queue_goes_after_its_last_consumer(world: World, client: Client) -> None:
    client.declare("q", auto_delete=True)
    client.declare("never used", auto_delete=True)
    other = world.client()
    client.consume("q", "a")
    other.consume("q", "b")
    client.session.cancel("a", world.now)
    assert "q" in world_queues(client)
    world.disconnect(other)
    assert world_queues(client) == ["never used"]


@pytest.mark.parametrize("refusal", [None, ResourceExhausted("no majority")])
def test_a_cancel_is_answered_when_the_queue_that_goes_with_it_is_gone_or_stays_for_now(
    world: World, client: Client, refusal: ResourceExhausted | None
) -> None:
    """Who declared it behind the answer found it there, and it went a moment later."""
    client.declare("q", auto_delete=True)
    client.consume("q", "a")
    asked: Pending[Any] = Pending()
    world.metadata.submit = lambda _: asked  # type: ignore[method-assign]
    answers: list[object] = []
    client.session.cancel("a", world.now).then(answers.append, answers.append)
    client.session.cancel("unknown", world.now).then(answers.append, answers.append)
    assert answers == [None], "who cancels nothing waits for nothing"
    if refusal is None:
        asked.resolve(None)
    else:
        asked.fail(refusal)
    assert answers == [None, None]


def test_an_unused_queue_goes_after_x_expires(world: World, client: Client) -> None:
    client.declare("q", expires=1000)
    world.pass_ms(900)
    client.declare("q", passive=True)
    world.pass_ms(900)
    assert world_queues(client) == ["q"]
    world.pass_ms(1001)
    assert world_queues(client) == []


def test_a_queue_that_expired_and_was_declared_again_lives_its_own_time(world: World, client: Client) -> None:
    client.declare("q", expires=1000)
    client.delete("q")
    world.pass_ms(500)
    client.declare("q", expires=1000)
    world.pass_ms(600)
    assert world_queues(client) == ["q"]


# ------------------------------------------------------------------------- exchanges and bindings


def test_passive_asks_for_an_exchange_by_name_only(client: Client) -> None:
    refused(NotFound, "no exchange 'nope.x' in vhost '/'", lambda: client.declare_exchange("nope.x", passive=True))
    client.declare_exchange("amq.direct", "topic", passive=True)


def test_the_default_exchange_is_nobodys(world: World, client: Client) -> None:
    client.declare("q")
    session, now = client.session, world.now
    for ask in (
        lambda: client.declare_exchange(""),
        lambda: client.declare_exchange("", passive=True),
        lambda: session.topology.delete_exchange("", if_unused=False, now=now),
        lambda: client.bind("q", "", "k"),
        lambda: session.topology.unbind_queue("q", "", "k", {}, now),
        lambda: session.topology.bind_exchange("amq.direct", "", "k", {}, now),
        lambda: session.topology.bind_exchange("", "amq.direct", "k", {}, now),
    ):
        refused(AccessRefused, "operation not permitted on the default exchange", ask)


@pytest.mark.parametrize("name", ["amq.direct", "amq.foo"])
def test_predeclared_exchanges_stay(world: World, client: Client, name: str) -> None:
    text = f"deletion of system exchange '{name}' in vhost '/' not allowed"
    refused(AccessRefused, text, lambda: client.session.topology.delete_exchange(name, if_unused=False, now=world.now))


def test_deleting_exchanges(world: World, client: Client) -> None:
    def delete(name: str, if_unused: bool = False) -> None:
        world.answer(client.session.topology.delete_exchange(name, if_unused=if_unused, now=world.now))

    delete("nope")
    client.declare_exchange("x")
    client.declare("q")
    client.bind("q", "x", "k")
    refused(PreconditionFailed, "exchange 'x' in vhost '/' in use", lambda: delete("x", if_unused=True))
    delete("x")
    refused(NotFound, "no exchange 'x' in vhost '/'", lambda: client.declare_exchange("x", passive=True))


def test_of_a_binding_whose_ends_are_missing_the_source_is_named(world: World, client: Client) -> None:
    client.declare("q")
    refused(NotFound, "no exchange 'nope.x' in vhost '/'", lambda: client.bind("nope.q", "nope.x", "k"))
    refused(NotFound, "no queue 'nope.q' in vhost '/'", lambda: client.bind("nope.q", "amq.direct", "k"))
    world.answer(client.session.topology.unbind_queue("nope.q", "nope.x", "k", {}, world.now))
    world.answer(client.session.topology.unbind_exchange("nope.y", "nope.x", "k", {}, world.now))


def test_an_auto_delete_exchange_goes_with_its_last_binding(world: World, client: Client) -> None:
    client.declare_exchange("x", auto_delete=True)
    client.declare("q")
    client.bind("q", "x", "k")
    client.delete("q")
    assert world.catalog.exchange("/", "x") is None


# ------------------------------------------------------------------------- permissions


def test_declaring_and_deleting_need_configure(world: World, client: Client) -> None:
    client.declare("q")
    world.add_user("app", configure="^mine", write="^mine", read="^mine")
    app = world.client("app")
    text = "configure access to queue '{}' in vhost '/' refused for user 'app'"
    refused(AccessRefused, text.format("q"), lambda: app.declare("q"))
    refused(AccessRefused, text.format("new"), lambda: app.declare("new"))
    refused(AccessRefused, text.format("q"), lambda: app.delete("q"))
    refused(AccessRefused, text.format("nope"), lambda: app.delete("nope"))
    with pytest.raises(AccessRefused, match=r"configure access to queue 'amq\.gen-"):
        app.declare()
    refused(
        AccessRefused, "read access to queue 'q' in vhost '/' refused for user 'app'", lambda: app.purge("q")
    )  # fmt: skip
    app.declare("mine.q")


def test_binding_needs_write_on_the_destination_and_read_on_the_source(world: World, client: Client) -> None:
    client.declare("q")
    world.add_user("app", write="^q$", read="^amq.direct$")
    app = world.client("app")
    app.bind("q", "amq.direct", "k")
    text = "read access to exchange 'amq.topic' in vhost '/' refused for user 'app'"
    refused(AccessRefused, text, lambda: app.bind("q", "amq.topic", "k"))
    text = "write access to queue 'r' in vhost '/' refused for user 'app'"
    refused(AccessRefused, text, lambda: app.bind("r", "amq.direct", "k"))


def test_who_has_messages_sent_elsewhere_must_be_allowed_to_send_them(world: World) -> None:
    world.add_user("app", write="^w", read="^r")
    app = world.client("app")
    text = "read access to queue 'q' in vhost '/' refused for user 'app'"
    refused(AccessRefused, text, lambda: app.declare("q", dead_letter_exchange="w.dlx"))
    text = "write access to exchange 'dlx' in vhost '/' refused for user 'app'"
    refused(AccessRefused, text, lambda: app.declare("rq", dead_letter_exchange="dlx"))
    app.declare("rq", dead_letter_exchange="w.dlx")
    text = "read access to exchange 'x' in vhost '/' refused for user 'app'"
    refused(AccessRefused, text, lambda: app.declare_exchange("x", arguments={"alternate-exchange": "w"}))
