"""Publishing: what is refused and how it is said, what is returned, what is confirmed when, and what a route depends on."""

from __future__ import annotations

from gc import collect
from weakref import ReferenceType, ref

import pytest

from broker.catalog.commands.catalog_commands import (
    DeletePermission,
    DeleteTopicPermission,
    PutPermission,
    PutTopicPermission,
    PutUser,
)
from broker.errors import AccessRefused, NotFound, NotSupported, PreconditionFailed, ResourceExhausted
from broker.messages.message import Run
from broker.records import PermissionRecord, TopicPermissionRecord, UserRecord
from broker.routing.targets import CACHED_HEADERS_BYTES_MAX, TARGETS_MAX
from native.content import encode
from tests.unit.broker.broker_world import Client, World, publish_method, refused
from tests.unit.broker.late_queues import FailedQueues, LateQueues
from wire.amqp.tables import encode_properties


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def client(world: World) -> Client:
    return world.client()


# ------------------------------------------------------------------------- refused


def test_a_missing_exchange_is_named(client: Client) -> None:
    refused(NotFound, "no exchange 'nope.x' in vhost '/'", lambda: client.publish("nope.x", "k", b"a"))


def test_nobody_publishes_to_an_internal_exchange(client: Client) -> None:
    client.declare_exchange("int", internal=True)
    text = "cannot publish to internal exchange 'int' in vhost '/'"
    refused(AccessRefused, text, lambda: client.publish("int", "k", b"a"))


def test_immediate_is_not_supported_also_where_nothing_is_routed(client: Client) -> None:
    refused(NotSupported, "immediate=true", lambda: client.publish("amq.direct", "none", b"a", immediate=True))


def test_write_permission_is_asked_for_also_on_the_default_exchange(world: World) -> None:
    world.add_user("reader", write="^$")
    reader = world.client("reader")
    text = "write access to exchange '{}' in vhost '/' refused for user 'reader'"
    refused(AccessRefused, text.format("amq.direct"), lambda: reader.publish("amq.direct", "k", b"a"))
    refused(AccessRefused, text.format("amq.default"), lambda: reader.publish("", "k", b"a"))


def test_without_permission_nobody_learns_which_exchanges_exist(world: World) -> None:
    world.add_user("reader", write="^$")
    reader = world.client("reader")
    text = "write access to exchange 'nope' in vhost '/' refused for user 'reader'"
    refused(AccessRefused, text, lambda: reader.publish("nope", "k", b"a"))


def test_a_foreign_user_id_is_refused_and_ones_own_is_not(world: World, client: Client) -> None:
    client.declare("q")
    text = "user_id property set to 'other' but authenticated user was 'guest'"
    refused(PreconditionFailed, text, lambda: client.publish("", "q", b"a", user_id="other"))
    client.publish("", "q", b"b", user_id="guest")
    assert client.bodies_of("q") == [b"b"]


def test_an_impersonator_may_set_any_user_id(world: World) -> None:
    world.add_user("proxy", tags=("impersonator",))
    proxy = world.client("proxy")
    proxy.declare("q")
    proxy.publish("", "q", b"a", user_id="other")
    assert world.ready("q") == 1


@pytest.mark.parametrize(
    ("expiration", "why"),
    [
        ("abc", "no_integer"),
        ("-1", "{value_negative,-1}"),
        ("", "no_integer"),
        ("1.5", '{leftover_string,".5"}'),
        ("5 ", '{leftover_string," "}'),
        ("315360000001", "{value_too_large,315360000001}"),
    ],
)
def test_an_expiration_that_means_no_time_is_refused(client: Client, expiration: str, why: str) -> None:
    client.declare("q")
    text = f"invalid expiration '{expiration}': {why}"
    refused(PreconditionFailed, text, lambda: client.publish("", "q", b"a", expiration=expiration))
    assert client.world.ready("q") == 0


@pytest.mark.parametrize("expiration", ["0", "4294967295", "4294967296", "315360000000"])
def test_an_expiration_up_to_ten_years_is_taken(client: Client, expiration: str) -> None:
    client.publish("amq.direct", "nobody", b"a", expiration=expiration)


def test_a_refused_publish_gets_no_number_of_its_own(client: Client) -> None:
    """The channel closes after it, but gRPC streams may go on: tags count what was taken."""
    client.session.publisher.select_confirms()
    with pytest.raises(NotFound):
        client.publish("nope", "k", b"a")
    client.publish("amq.direct", "k", b"b")
    assert client.take_confirms() == [(1, 1, True, True)]


# ------------------------------------------------------------------------- returned, dropped, confirmed


def test_an_unroutable_mandatory_message_comes_back_before_its_confirm(client: Client) -> None:
    client.session.publisher.select_confirms()
    client.publish("amq.direct", "none", b"a", b"b", mandatory=True)
    assert client.returns == [(312, "NO_ROUTE", b"a"), (312, "NO_ROUTE", b"b")]
    assert client.take_confirms() == [(1, 2, True, True)]
    assert client.told == ["return", "confirm"]


def test_a_message_to_a_queue_that_is_not_there_is_unroutable_too(client: Client) -> None:
    client.publish("", "no.such.queue", b"a", mandatory=True)
    assert client.returns == [(312, "NO_ROUTE", b"a")]


def test_what_no_queue_gets_is_confirmed_at_once_and_dropped_without_a_word(client: Client) -> None:
    client.session.publisher.select_confirms()
    client.publish("amq.direct", "none", b"a")
    assert (client.take_confirms(), client.returns) == ([(1, 1, True, True)], [])


def test_an_alternate_exchange_counts_as_routed(client: Client) -> None:
    client.declare_exchange("rest", "fanout")
    client.declare_exchange("x", arguments={"alternate-exchange": "rest"})
    client.declare("q")
    client.bind("q", "rest", "")
    client.publish("x", "none", b"a", mandatory=True)
    assert (client.returns, client.bodies_of("q")) == ([], [b"a"])


def test_a_missing_alternate_exchange_is_no_route(client: Client) -> None:
    client.declare_exchange("x", arguments={"alternate-exchange": "missing"})
    client.publish("x", "none", b"a", mandatory=True)
    assert client.returns == [(312, "NO_ROUTE", b"a")]


def test_several_bindings_to_a_queue_bring_one_copy(client: Client) -> None:
    client.declare("q")
    for key in ("a.*", "#", "a.b"):
        client.bind("q", "amq.topic", key)
    client.publish("amq.topic", "a.b", b"x")
    assert client.bodies_of("q") == [b"x"]


def test_a_queue_that_refuses_is_told_to_the_publisher_message_by_message(client: Client) -> None:
    client.declare("q", max_length=2, overflow="reject-publish")
    client.session.publisher.select_confirms()
    client.publish("", "q", b"a", b"b", b"c", b"d")
    assert client.take_confirms() == [(1, 2, False, True), (3, 4, False, False)]
    assert client.bodies_of("q") == [b"a", b"b"]


def test_a_queue_that_counts_bytes_is_given_each_message_for_itself(world: World, client: Client) -> None:
    client.declare("q", max_length_bytes=5)
    client.publish("", "q", b"aaa", b"bb", b"c")
    assert client.bodies_of("q") == [b"bb", b"c"]


def test_confirms_of_a_turn_are_told_at_its_end_and_as_one(world: World, client: Client) -> None:
    client.declare("q")
    client.session.publisher.select_confirms()
    with world.one_turn():
        for number in range(5):
            client.publish("", "q", b"%d" % number)
        assert client.confirms == []
    assert client.take_confirms() == [(1, 5, True, True)]


# ------------------------------------------------------------------------- promises that are kept late, or not


@pytest.fixture
def late(world: World) -> LateQueues:
    late = LateQueues(world.broker)
    late.owed = []
    world.broker.add_kind(late)
    return late


def test_a_confirm_waits_for_every_queue_and_asks_for_a_turn_of_its_own(late: LateQueues, client: Client) -> None:
    for queue in ("q", "r"):
        client.declare(queue)
        client.bind(queue, "amq.fanout", "")
    client.session.publisher.select_confirms()
    client.publish("amq.fanout", "", b"a")
    late.owed[0].accepted()
    client.world.end_turn()
    assert client.take_confirms() == []
    asked = client.world.turns_requested
    late.owed[1].accepted()
    assert client.world.turns_requested == asked + 1
    client.world.end_turn()
    assert client.take_confirms() == [(1, 1, True, True)]


def test_an_unroutable_message_does_not_wait_for_those_before_it(late: LateQueues, client: Client) -> None:
    client.declare("q")
    client.session.publisher.select_confirms()
    client.publish("", "q", b"a")
    client.publish("amq.direct", "none", b"b")
    assert client.take_confirms() == [(2, 2, False, True)]
    late.owed[0].accepted()
    client.world.end_turn()
    assert client.take_confirms() == [(1, 1, True, True)]


def test_a_promise_kept_after_its_channel_closed_is_told_to_nobody(late: LateQueues, client: Client) -> None:
    client.declare("q")
    client.session.publisher.select_confirms()
    client.publish("", "q", b"a")
    client.close()
    late.owed[0].accepted()
    client.world.end_turn()
    assert client.confirms == []


def test_a_commit_is_answered_when_every_promise_is_kept(late: LateQueues, client: Client) -> None:
    client.declare("q")
    client.session.select_transactions()
    client.publish("", "q", b"a")
    client.publish("", "q", b"b")
    committed: list[None] = []
    client.session.commit(client.world.now).then(committed.append, lambda error: None)
    late.owed[1].accepted()
    assert committed == []
    late.owed[0].accepted()
    assert committed == [None]


@pytest.fixture
def failing(world: World, client: Client) -> Client:
    """Queue `q` takes messages, queue `bad` of another kind does not; both are bound to amq.fanout."""
    failed = FailedQueues(world.broker)
    failed.name = "stream"
    world.broker.add_kind(failed)
    client.declare("q")
    client.declare("bad", queue_type="stream")
    for queue in ("q", "bad"):
        client.bind(queue, "amq.fanout", "")
    return client


def test_a_failure_of_a_queue_is_a_nack_and_later_tags_keep_their_meaning(failing: Client) -> None:
    failing.session.publisher.select_confirms()
    failing.publish("", "q", b"a")
    failing.publish("", "bad", b"b")
    failing.publish("amq.fanout", "", b"c", b"d")
    failing.publish("", "q", b"e")
    assert failing.take_confirms() == [
        (1, 1, True, True), (2, 2, False, False), (3, 4, False, False), (5, 5, True, True),
    ]  # fmt: skip
    assert failing.session.statistics()["unconfirmed"] == 0


def test_others_that_answer_after_the_failure_change_nothing(world: World, late: LateQueues, failing: Client) -> None:
    failing.session.publisher.select_confirms()
    failing.publish("amq.fanout", "", b"a")
    late.owed[0].accepted()
    failing.publish("", "q", b"b")
    late.owed[1].accepted()
    world.end_turn()
    assert failing.take_confirms() == [(1, 1, False, False), (2, 2, True, True)]


def test_without_confirms_a_failure_is_an_error(failing: Client) -> None:
    text = "this node's disk failed, it takes no messages"
    refused(ResourceExhausted, text, lambda: failing.publish("", "bad", b"a"))


def test_in_a_transaction_a_failure_makes_the_completion_partial(world: World, failing: Client) -> None:
    failing.session.select_transactions()
    failing.publish("", "bad", b"a")
    failing.publish("", "q", b"b")
    commit = lambda: world.answer(failing.session.commit(world.now))  # noqa: E731
    refused(PreconditionFailed, "partial tx completion", commit)
    assert world.ready("q") == 1


def test_a_dead_letter_that_cannot_be_kept_disturbs_nobody(failing: Client) -> None:
    failing.declare("src", dead_letter_exchange="amq.fanout", max_length=0)
    failing.publish("", "src", b"a")
    assert failing.bodies_of("q") == [b"a"]


# ------------------------------------------------------------------------- what a route depends on


def test_a_new_binding_holds_for_the_next_publish(client: Client) -> None:
    client.declare("q")
    client.publish("amq.direct", "k", b"before")
    client.bind("q", "amq.direct", "k")
    client.publish("amq.direct", "k", b"after")
    assert client.bodies_of("q") == [b"after"]


def test_a_queue_that_was_deleted_and_declared_again_is_another_queue(client: Client) -> None:
    client.declare("q")
    client.publish("", "q", b"old")
    client.delete("q")
    client.publish("", "q", b"to nobody", mandatory=True)
    client.declare("q")
    client.publish("", "q", b"new")
    assert (client.returns, client.bodies_of("q")) == ([(312, "NO_ROUTE", b"to nobody")], [b"new"])


def test_an_exchange_that_was_deleted_is_missed_by_a_publisher_that_knew_it(client: Client) -> None:
    client.declare_exchange("x")
    client.publish("x", "k", b"a")
    client.world.answer(client.session.topology.delete_exchange("x", if_unused=False, now=client.world.now))
    refused(NotFound, "no exchange 'x' in vhost '/'", lambda: client.publish("x", "k", b"b"))


def test_a_write_permission_that_was_taken_away_holds_for_the_next_publish(world: World) -> None:
    world.add_user("app")
    app = world.client("app")
    app.publish("amq.direct", "k", b"a")
    world.submit(PutPermission(PermissionRecord("app", "/", ".*", "^other$", ".*")))
    text = "write access to exchange 'amq.direct' in vhost '/' refused for user 'app'"
    refused(AccessRefused, text, lambda: app.publish("amq.direct", "k", b"b"))
    world.submit(DeletePermission("app", "/"))
    refused(AccessRefused, text, lambda: app.publish("amq.direct", "k", b"c"))


def test_the_impersonator_tag_taken_away_holds_at_once(world: World) -> None:
    world.add_user("proxy", tags=("impersonator",))
    proxy = world.client("proxy")
    proxy.publish("amq.direct", "k", b"a", user_id="other")
    world.submit(PutUser(UserRecord("proxy", "hash", ())))
    text = "user_id property set to 'other' but authenticated user was 'proxy'"
    refused(PreconditionFailed, text, lambda: proxy.publish("amq.direct", "k", b"a", user_id="other"))


def test_the_path_without_method_bytes_routes_and_refuses_alike(world: World, client: Client) -> None:
    client.declare("q")
    content = encode(encode_properties({}), b"a")
    client.session.publisher.publish(Run("", "q", content, 1, 1), world.now)
    client.session.publisher.publish(Run("", "q", content, 1, 1), world.now)
    assert client.bodies_of("q") == [b"a", b"a"]
    refused(
        NotFound,
        "no exchange 'x' in vhost '/'",
        lambda: client.session.publisher.publish(Run("x", "q", content, 1, 1), world.now),
    )


def test_what_a_session_remembers_of_routes_is_limited(world: World, client: Client) -> None:
    for number in range(TARGETS_MAX + 10):
        client.session.publisher.publish_raw(
            publish_method("amq.direct", f"k{number}"), 1, encode(b"\0\0", b""), 0, False, 0, None, None, 0, world.now
        )
    assert len(client.session.publisher._targets.by_publish) <= TARGETS_MAX


def test_a_session_keeps_no_queue_in_memory_that_was_deleted_once_it_publishes_again(client: Client) -> None:
    """A channel that published to 4,000 queues, each deleted afterwards, kept 10 MB on every node."""
    kept: list[ReferenceType[object]] = []
    for number in range(3):
        client.declare(f"q{number}")
        client.publish("", f"q{number}", b"m")
        found = client.world.broker.find_queue("/", f"q{number}")
        assert found is not None
        kept.append(ref(found.queue))
        del found
        client.delete(f"q{number}")
    client.declare("last")
    client.publish("", "last", b"m")
    collect()
    assert [one() for one in kept] == [None] * 3


# ------------------------------------------------------------------------- topic permissions


@pytest.fixture
def restricted(world: World) -> Client:
    """A user who may publish to amq.topic only with keys that begin with a."""
    world.add_user("app")
    world.submit(PutTopicPermission(TopicPermissionRecord("app", "/", "amq.topic", "^a", "^b")))
    return world.client("app")


def test_a_topic_permission_holds_for_the_key(restricted: Client) -> None:
    restricted.publish("amq.topic", "a.c", b"x")
    text = "write access to topic 'b.c' in exchange 'amq.topic' in vhost '/' refused for user 'app'"
    refused(AccessRefused, text, lambda: restricted.publish("amq.topic", "b.c", b"x"))


@pytest.mark.parametrize("header", ["CC", "BCC"])
def test_a_topic_permission_holds_for_keys_in_headers_too(restricted: Client, header: str) -> None:
    restricted.publish("amq.topic", "a.c", b"x", headers={header: ["a.d"]})
    text = "write access to topic 'secret' in exchange 'amq.topic' in vhost '/' refused for user 'app'"
    publish = lambda: restricted.publish("amq.topic", "a.c", b"x", headers={header: ["a.d", "secret"]})  # noqa: E731
    refused(AccessRefused, text, publish)


def test_topic_permissions_hold_at_once_and_go_at_once(world: World, restricted: Client) -> None:
    world.submit(DeleteTopicPermission("app", "/", "amq.topic"))
    restricted.publish("amq.topic", "b.c", b"x")
    world.submit(PutTopicPermission(TopicPermissionRecord("app", "/", "amq.topic", "^a", "^b")))
    with pytest.raises(AccessRefused):
        restricted.publish("amq.topic", "b.c", b"x")


# ------------------------------------------------------------------------- headers that route


@pytest.fixture
def by_headers(client: Client) -> Client:
    """Queues pdf and any, bound to amq.headers."""
    client.declare("pdf")
    client.declare("any")
    client.bind("pdf", "amq.headers", "", format="pdf")
    client.bind("any", "amq.headers", "", **{"x-match": "any", "format": "pdf", "size": 1})
    return client


def publish_headers(client: Client, *headers: dict[str, object] | None, **options: bool) -> None:
    """One run whose messages, a, b, c ..., have these headers."""
    contents = [
        encode(encode_properties({"headers": fields}), bytes((97 + number,))) for number, fields in enumerate(headers)
    ]
    client.session.publisher.publish_raw(
        publish_method("amq.headers", "", **options), len(headers), b"".join(contents), len(headers),
        False, 0, None, None, 4, client.world.now,
    )  # fmt: skip
    client.world.end_turn()


def test_each_message_of_a_run_goes_where_its_own_headers_say(by_headers: Client) -> None:
    by_headers.session.publisher.select_confirms()
    publish_headers(by_headers, {"format": "pdf"}, {"size": 1}, None, {"format": "zip"}, {"format": "pdf"}, {"size": 1})
    assert by_headers.bodies_of("pdf") == [b"a", b"e"]
    assert by_headers.bodies_of("any") == [b"a", b"b", b"e", b"f"]
    assert by_headers.take_confirms() == [(1, 6, True, True)]


def test_only_the_messages_whose_headers_lead_nowhere_are_returned(by_headers: Client) -> None:
    publish_headers(by_headers, {"format": "pdf"}, {"format": "zip"}, {}, {"format": "pdf"}, mandatory=True)
    assert [body for _, _, body in by_headers.returns] == [b"b", b"c"]
    assert by_headers.bodies_of("pdf") == [b"a", b"d"]


def test_a_binding_that_comes_later_holds_for_headers_that_were_known(by_headers: Client) -> None:
    publish_headers(by_headers, {"format": "zip"})
    by_headers.declare("zip")
    by_headers.bind("zip", "amq.headers", "", format="zip")
    publish_headers(by_headers, {"format": "zip"})
    assert by_headers.world.ready("zip") == 1


def test_headers_count_also_behind_another_exchange(by_headers: Client) -> None:
    world = by_headers.world
    world.answer(by_headers.session.topology.bind_exchange("amq.headers", "amq.fanout", "", {}, world.now))
    by_headers.publish("amq.fanout", "", b"a", headers={"format": "pdf"})
    by_headers.publish("amq.fanout", "", b"b", headers={"format": "zip"})
    by_headers.publish("amq.fanout", "", b"c")
    assert by_headers.bodies_of("pdf") == [b"a"]


def test_what_is_remembered_of_headers_is_limited_over_all_keys(by_headers: Client) -> None:
    for number in range(TARGETS_MAX + 10):
        by_headers.publish("amq.headers", f"key {number % 7}", b"", headers={"number": number})
    targets = by_headers.session.publisher._targets.by_publish.values()
    assert len(targets) + sum(len(target.for_headers) for target in targets) <= TARGETS_MAX
    publish_headers(by_headers, {"format": "pdf"}, {"format": "zip"}, {"format": "pdf"})
    assert by_headers.bodies_of("pdf") == [b"a", b"c"]


def test_long_headers_route_too_and_are_not_remembered(by_headers: Client) -> None:
    for _ in range(2):
        publish_headers(by_headers, {"format": "pdf", "long": "x" * CACHED_HEADERS_BYTES_MAX})
    (target,) = by_headers.session.publisher._targets.by_publish.values()
    assert (target.for_headers, by_headers.world.ready("pdf")) == ({}, 2)


# ------------------------------------------------------------------------- figures


def test_every_publish_is_counted_once_by_what_became_of_it(client: Client) -> None:
    client.declare("one")
    client.declare("two")
    client.bind("one", "amq.fanout", "")
    client.bind("two", "amq.fanout", "")
    client.publish("amq.fanout", "", b"a", b"b")
    client.publish("amq.direct", "none", b"c")
    client.publish("amq.direct", "none", b"d", mandatory=True)
    client.session.publisher.select_confirms()
    client.publish("amq.fanout", "", b"e")
    client.publish("amq.direct", "none", b"f")
    counters = client.session.counters
    assert (counters.published, counters.routed, counters.dropped, counters.returned) == (6, 3, 2, 1)
    assert (counters.published_confirm, counters.confirmed, counters.refused) == (2, 2, 0)


def test_the_path_without_method_bytes_follows_a_new_binding(world: World, client: Client) -> None:
    client.declare("q")
    run = Run("amq.direct", "k", encode(encode_properties({}), b"a"), 1, 1)
    client.session.publisher.publish(run, world.now)
    client.bind("q", "amq.direct", "k")
    client.session.publisher.publish(run, world.now)
    assert client.bodies_of("q") == [b"a"]
