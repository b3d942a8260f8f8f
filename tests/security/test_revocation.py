"""What is taken away holds at once for those who are connected: the next request, and what goes on by itself."""

from __future__ import annotations

import pytest

from broker.catalog.commands import catalog_commands as commands
from broker.records import PermissionRecord, TopicPermissionRecord, UserRecord
from front.amqp.terms import Limits
from tests.security import wire
from tests.security.wire import Said
from tests.security.world import Line, World

ALL = (".*", ".*", ".*")


@pytest.fixture
def world() -> World:
    world = World()
    for vhost in ("v", "w"):
        world.add_vhost(vhost)
    world.add_user("admin")
    world.permit("admin", "v", *ALL)
    world.add_user("u")
    world.permit("u", "v", *ALL)
    return world


def opened(world: World, user: str = "u", vhost: str = "v") -> Line:
    line = world.connect(user, vhost)
    assert line.opened, line.last
    line.call(1, "channel.open")
    return line


def consuming(world: World, queue: str = "q") -> Line:
    line = opened(world)
    line.call(1, "queue.declare", queue=queue)
    assert line.call(1, "basic.consume", queue=queue, consumer_tag="c").name == "basic.consume-ok"
    return line


def names(said: list[Said]) -> list[str]:
    return [one.name for one in said]


def forced(line: Line) -> str:
    """The text with which the connection was closed from the node's side."""
    said = line.take()
    assert [(one.name, one.code) for one in said] == [("connection.close", 320)], said
    return said[0].text


def test_a_deleted_user_is_thrown_out(world: World) -> None:
    line = consuming(world)
    world.submit(commands.DeleteUser("u"))
    assert "user 'u' is deleted" in forced(line)
    assert not list(world.broker.consumers())


def test_a_user_made_again_under_the_same_name_is_another(world: World) -> None:
    line = opened(world)
    world.submit(commands.DeleteUser("u"))
    world.add_user("u", "2")
    world.permit("u", "v", *ALL)
    assert "user 'u' is deleted" in forced(line)


def test_a_changed_password_throws_out_who_came_with_the_old_one(world: World) -> None:
    line, admin = consuming(world), opened(world, "admin")
    world.add_user("u", "2")
    assert "the password of user 'u' was changed" in forced(line)
    assert admin.take() == []
    assert not world.connect("u", "v", "1").opened
    assert world.connect("u", "v", "2").opened


def test_other_changes_of_a_user_disturb_nobody(world: World) -> None:
    line = opened(world)
    world.add_user("u", "1", tags=("management",))
    world.submit(commands.SetUserLimits("u", {"max-connections": 5}))
    assert line.take() == []
    assert line.call(1, "queue.declare", queue="q").name == "queue.declare-ok"


def test_a_password_changed_between_login_and_open_lets_nobody_in(world: World) -> None:
    line = Line(world, "slow", Limits())
    line.give(wire.PROTOCOL_HEADER, wire.start_ok("u", "right:1"), wire.tune_ok())
    world.add_user("u", "2")
    said = line.give(wire.method(0, "connection.open", virtual_host="v"))
    assert [(one.name, one.code) for one in said] == [("connection.close", 530)]


def test_a_user_deleted_between_login_and_open_lets_nobody_in(world: World) -> None:
    line = Line(world, "slow", Limits())
    line.give(wire.PROTOCOL_HEADER, wire.start_ok("u", "right:1"), wire.tune_ok())
    world.submit(commands.DeleteUser("u"))
    said = line.give(wire.method(0, "connection.open", virtual_host="v"))
    assert [(one.name, one.code) for one in said] == [("connection.close", 530)]


def test_no_permission_left_in_the_vhost_throws_out(world: World) -> None:
    world.permit("u", "w", *ALL)
    line, elsewhere = consuming(world), opened(world, vhost="w")
    world.submit(commands.DeletePermission("u", "v"))
    assert "access to vhost 'v' was taken from user 'u'" in forced(line)
    assert elsewhere.take() == [], "its connections to other vhosts stay"


def test_a_lost_read_permission_ends_consumers_and_gets(world: World) -> None:
    line, admin = consuming(world), opened(world, "admin")
    admin.give(wire.publish(1, "", "q", b"before"))
    assert names(line.take()) == ["basic.deliver", "header", "body"]
    world.permit("u", "v", ".*", ".*", "^other$")
    said = line.take()
    assert [(one.name, one.arguments.get("consumer_tag")) for one in said] == [("basic.cancel", "c")]
    admin.give(wire.publish(1, "", "q", b"after"))
    assert line.take() == [], "what came later is not for it"
    assert line.give(wire.method(1, "basic.ack", delivery_tag=1)) == [], "what it has can be settled"
    assert line.call(1, "basic.get", queue="q").code == 403


def test_consumers_that_may_still_read_stay(world: World) -> None:
    line, admin = consuming(world), opened(world, "admin")
    world.permit("u", "v", "^$", "^$", "^q$")
    admin.give(wire.publish(1, "", "q"))
    assert names(line.take()) == ["basic.deliver", "header", "body"]


def test_a_requester_of_replies_keeps_its_answers(world: World) -> None:
    line = opened(world)
    assert line.call(1, "basic.consume", queue="amq.rabbitmq.reply-to", no_ack=True).name == "basic.consume-ok"
    world.permit("u", "v", "^$", "^$", "^$")
    assert line.take() == []


def test_a_lost_write_permission_refuses_the_very_next_publish(world: World) -> None:
    line = opened(world)
    line.call(1, "exchange.declare", exchange="x", type="fanout")
    assert line.give(wire.publish(1, "x", "k")) == []
    world.permit("u", "v", ".*", "^$", ".*")
    said = line.give(wire.publish(1, "x", "k"))
    assert [(one.name, one.code) for one in said] == [("channel.close", 403)]


def test_a_lost_topic_permission_refuses_the_very_next_publish(world: World) -> None:
    line = opened(world)
    assert line.give(wire.publish(1, "amq.topic", "a.b")) == []
    world.submit(commands.PutTopicPermission(TopicPermissionRecord("u", "v", "amq.topic", "^c", "")))
    assert [one.code for one in line.give(wire.publish(1, "amq.topic", "a.b"))] == [403]


def test_a_publish_in_a_transaction_needs_the_permission_when_it_is_made(world: World) -> None:
    line = opened(world)
    line.call(1, "tx.select")
    world.permit("u", "v", ".*", "^$", ".*")
    assert [one.code for one in line.give(wire.publish(1, "amq.fanout", "k"))] == [403]


@pytest.mark.parametrize("secret", [b"right:1", b"right:2", b""])
def test_update_secret_changes_nothing_whatever_the_secret(world: World, secret: bytes) -> None:
    line = consuming(world)
    said = line.call(0, "connection.update-secret", new_secret=secret, reason="r")
    assert said.name == "connection.update-secret-ok"
    assert line.call(1, "queue.declare", queue="q", passive=True).arguments["consumer_count"] == 1


def test_update_secret_does_not_save_a_connection_from_a_changed_password(world: World) -> None:
    line = opened(world)
    line.call(0, "connection.update-secret", new_secret=b"right:2", reason="r")
    world.add_user("u", "2")
    assert "the password of user 'u' was changed" in forced(line)


def test_who_may_not_enter_does_not_learn_which_vhosts_exist(world: World) -> None:
    """Whoever sees all vhosts anyway is told what is wrong."""
    world.add_user("stranger")
    world.add_user("monitor", tags=("monitoring",))
    there, missing = world.connect("stranger", "v").last, world.connect("stranger", "none").last
    assert (there.code, missing.code) == (530, 530)
    assert there.text.replace("'v'", "'none'") == missing.text
    assert "not found" in world.connect("monitor", "none").last.text


def test_a_permission_for_nobody_or_nowhere_is_refused(world: World) -> None:
    for user, vhost in (("ghost", "v"), ("u", "nowhere")):
        with pytest.raises(Exception, match=r"no (user|vhost)"):
            world.submit(commands.PutPermission(PermissionRecord(user, vhost, *ALL)))


@pytest.mark.parametrize(
    ("limits", "of_vhost", "text"),
    [
        ({"max-connections": 1}, True, "connection limit"),
        ({"max-connections": 1}, False, "connection limit"),
        ({"max-connections": 0}, True, "connection limit"),
        ({"max-connections": 0}, False, "connection limit"),
    ],
)
def test_connections_beyond_a_limit_are_refused(
    world: World, limits: dict[str, int], of_vhost: bool, text: str
) -> None:
    world.submit(commands.SetVhostLimits("v", limits) if of_vhost else commands.SetUserLimits("u", limits))
    first = world.connect("u", "v")
    assert first.opened == (limits["max-connections"] > 0)
    second = world.connect("u", "v")
    assert (second.last.name, second.last.code) == ("connection.close", 530)
    assert text in second.last.text
    if first.opened:
        first.give(wire.method(0, "connection.close"))
        assert world.connect("u", "v").opened, "a place that was given back can be taken"


def test_channels_beyond_a_users_limit_are_refused(world: World) -> None:
    world.submit(commands.SetUserLimits("u", {"max-channels": 2}))
    line = world.connect("u", "v")
    line.call(1, "channel.open")
    other = world.connect("u", "v")
    assert other.call(1, "channel.open").name == "channel.open-ok"
    said = other.call(2, "channel.open")
    assert (said.name, said.code) == ("connection.close", 530)
    assert line.call(1, "basic.qos").name == "basic.qos-ok", "the others go on"


def test_queues_beyond_a_vhosts_limit_are_refused(world: World) -> None:
    world.submit(commands.SetVhostLimits("v", {"max-queues": 2}))
    line = opened(world)
    for name in ("a", "b", "b"):
        assert line.call(1, "queue.declare", queue=name).name == "queue.declare-ok"
    said = line.call(1, "queue.declare", queue="c")
    assert (said.name, said.code) == ("channel.close", 406)


def test_the_record_of_who_logged_in_never_shows(world: World) -> None:
    """Connections are listed by several APIs; the hash that a connection remembers is in none of their sources."""
    secret = "hash-0123456789"
    world.submit(commands.PutUser(UserRecord("u", secret)))
    line = world.connect("u", "v", secret)
    assert line.opened
    (connection,) = (one for one in world.broker.connections() if one.user == "u")
    assert secret not in str(connection.statistics())
    assert secret not in repr(connection), "a traceback or a debug line would show it"
