"""What operators see of clients of the stream protocol, as values and over HTTP."""

from __future__ import annotations

from broker.catalog.commands.catalog_commands import PutVhost
from broker.operations.operator import Operator
from broker.operations.stream_users import StreamUsers, SubscriptionView
from broker.records import VhostRecord
from broker.stream_clients.client_terms import ReadOptions
from front.web.views.client_views import publisher_view, subscription_view
from tests.unit.broker.stream_clients.fake_streams import StreamUser, StreamWorld
from wire.stream.command_fields import OffsetSpec
from wire.stream.command_keys import OffsetKind

ROOT = Operator("root", ("administrator",))
FIRST = OffsetSpec(OffsetKind.FIRST)


def subscribe(user: StreamUser, number: int, credit: int, options: ReadOptions = ReadOptions()) -> None:  # noqa: B008  (never changed)
    user.world.answer(user.streams.subscribe(number, "s", FIRST, options, user.world.now))
    user.streams.start(number, credit, user.world.now)
    user.world.end_turn()


def readers(world: StreamWorld) -> list[SubscriptionView]:
    return list(StreamUsers(world.broker).subscriptions(ROOT, None))


def test_a_publisher_is_shown_with_what_became_of_its_messages() -> None:
    world = StreamWorld()
    user = world.stream_user()
    user.create("s")
    world.answer(user.streams.declare_publisher(3, "ship", "s", world.now))
    user.publish(3, 1, 2)
    world.end_turn()
    world.stream("s").commits_later = True
    user.publish(3, 3)
    (shown,) = StreamUsers(world.broker).publishers(ROOT, None)
    assert (shown.published, shown.confirmed, shown.refused) == (3, 2, 0)
    assert list(StreamUsers(world.broker).publishers(ROOT, "/", "another")) == []
    told = publisher_view("n1", shown)
    assert told["queue"] == {"name": "s", "vhost": "/"}
    assert (told["publisher_id"], told["reference"]) == (3, "ship")
    assert [told[name] for name in ("published", "confirmed", "errored")] == [3, 2, 0]
    assert told["connection_details"] == {"name": user.connection.name, "user": "guest", "node": "n1"}


def test_a_reader_is_shown_with_how_far_it_is_behind() -> None:
    world = StreamWorld()
    user = world.stream_user()
    user.create("s")
    world.answer(user.streams.declare_publisher(3, "", "s", world.now))
    for id_ in range(4):
        user.publish(3, id_)
    subscribe(user, 7, 3, ReadOptions(filter_values=("eu", "us"), match_unfiltered=True, identifier="a reader"))
    (shown,) = readers(world)
    assert (shown.delivered, shown.credit, shown.offset, shown.lag, shown.lag_s) == (3, 0, 3, 1, 1)
    told = subscription_view("n1", shown)
    assert (told["subscription_id"], told["consumed"], told["offset"], told["offset_lag"]) == (7, 3, 2, 1)
    assert (told["active"], told["activity_status"]) == (True, "up")
    assert told["properties"] == {
        "filter.0": "eu", "filter.1": "us", "match-unfiltered": "true", "identifier": "a reader",
    }  # fmt: skip


def test_of_a_group_one_is_active_and_the_others_wait() -> None:
    world = StreamWorld()
    user = world.stream_user()
    user.create("s")
    in_group = ReadOptions(single_active=True, name="group")
    subscribe(user, 1, 1, in_group)
    subscribe(user, 2, 1, in_group)
    user.streams.consumer_updated(1, True, FIRST, world.now)
    assert [(one.subscription_id, one.activity, one.group) for one in readers(world)] == [
        (1, "single_active", "group"),
        (2, "waiting", "group"),
    ]


def test_who_does_not_monitor_sees_their_own_clients_in_the_vhosts_that_they_may_enter() -> None:
    world = StreamWorld()
    world.add_user("app")
    world.stream_user()
    own = world.stream_user("app")
    users = StreamUsers(world.broker)
    assert [one.user for one in users.connections(Operator("app", ("management",)), None)] == ["app"]
    assert len(list(users.connections(ROOT, None))) == len(list(users.connections(ROOT, "/"))) == 2
    world.submit(PutVhost(VhostRecord("v")))
    assert list(users.connections(ROOT, "v")) == []
    own.close()
    assert list(users.connections(Operator("app", ("management",)), None)) == []
