"""What both sides agreed on is held to, and sizes are checked where they are announced, before anything is kept."""

from __future__ import annotations

import struct

import pytest

from broker.pending import Pending
from front.amqp.intake import ASSEMBLE_BYTES_MAX
from front.amqp.terms import Limits
from tests.security import wire
from tests.security.wire import BODY, HEADER, METHOD, Said
from tests.security.world import Line, World

LIMITS = Limits(channel_max=100, frame_max=16_384, message_bytes_max=100_000)


@pytest.fixture
def world() -> World:
    world = World()
    world.add_vhost("/")
    world.add_user("u")
    world.permit("u", "/", ".*", ".*", ".*")
    return world


def tuned(world: World, limits: Limits = LIMITS, **tune: int) -> tuple[Line, list[Said]]:
    """A connection that has answered connection.tune so and asked to open; what the node says to that."""
    line = Line(world, "c", limits)
    start, tune_said = line.give(wire.PROTOCOL_HEADER, wire.start_ok("u", "right:1"))
    assert (start.name, tune_said.name) == ("connection.start", "connection.tune")
    assert tune_said.arguments == {
        "channel_max": limits.channel_max, "frame_max": limits.frame_max, "heartbeat": limits.heartbeat_s
    }  # fmt: skip
    agreed = {"channel_max": limits.channel_max, "frame_max": limits.frame_max, **tune}
    return line, line.give(wire.tune_ok(**agreed), wire.method(0, "connection.open", virtual_host="/"))


def opened(world: World, limits: Limits = LIMITS, **tune: int) -> Line:
    line, said = tuned(world, limits, **tune)
    assert said[-1].name == "connection.open-ok", said
    assert line.call(1, "channel.open").name == "channel.open-ok"
    return line


def closed(said: list[Said]) -> tuple[str, int]:
    assert said, "nothing was said"
    return said[-1].name, said[-1].code


@pytest.mark.parametrize(
    "tune",
    [
        {"frame_max": LIMITS.frame_max + 1},
        {"frame_max": 2**32 - 1},
        {"frame_max": 0},
        {"frame_max": 1},
        {"frame_max": 8191},
        {"channel_max": LIMITS.channel_max + 1},
        {"channel_max": 65_535},
        {"channel_max": 0},
    ],
    ids=str,
)
def test_nobody_raises_the_offer_or_goes_below_the_minimum(world: World, tune: dict[str, int]) -> None:
    line, said = tuned(world, **tune)
    assert closed(said) == ("connection.close", 530)
    assert line.core.client is None


@pytest.mark.parametrize("tune", [{"frame_max": 8192}, {"frame_max": 16_384}, {"channel_max": 1}, {}], ids=str)
def test_what_was_offered_or_less_is_agreed(world: World, tune: dict[str, int]) -> None:
    line = opened(world, **tune)
    assert line.core.frame_max == tune.get("frame_max", LIMITS.frame_max)
    assert line.core.channel_max == tune.get("channel_max", LIMITS.channel_max)


def test_a_node_without_limits_takes_zero_as_none(world: World) -> None:
    limits = Limits(channel_max=0, frame_max=0)
    _, said = tuned(world, limits)
    assert said[-1].name == "connection.open-ok", said


def test_more_channels_than_agreed_are_refused(world: World) -> None:
    line = opened(world, channel_max=5)
    for number in (2, 5, 6, 65_535):
        assert line.call(number, "channel.open").name == "channel.open-ok", "only how many are open counts"
    said = line.give(wire.method(3, "channel.open"))
    assert closed(said) == ("connection.close", 530)
    assert "number of channels opened (5) has reached the negotiated channel_max (5)" in said[-1].text


def test_a_closed_channel_makes_room_for_another(world: World) -> None:
    line = opened(world, channel_max=1)
    assert line.call(1, "channel.close").name == "channel.close-ok"
    assert line.call(65_535, "channel.open").name == "channel.open-ok"


@pytest.mark.parametrize("kind", [METHOD, HEADER, BODY, 8, 4, 0, 255])
@pytest.mark.parametrize("size", [8193, 16_384, 2**31, 2**32 - 1])
def test_a_frame_above_the_agreed_size_is_refused_by_its_length(world: World, kind: int, size: int) -> None:
    line = opened(world, frame_max=8192)
    assert closed(line.give(struct.pack(">BHI", kind, 1, size))) == ("connection.close", 501)
    assert line.core.kept_bytes == 0


def test_a_frame_that_does_not_end_as_frames_do_is_refused(world: World) -> None:
    line = opened(world)
    broken = wire.method(1, "basic.qos")[:-1] + b"\x00"
    assert closed(line.give(broken)) == ("connection.close", 501)


def begin_publish(line: Line, body_bytes: int) -> list[Said]:
    start = wire.method(1, "basic.publish", exchange="amq.fanout", routing_key="k")
    return line.give(start) + line.give(wire.content_header(1, body_bytes))


@pytest.mark.parametrize("size", [2**63 - 1, 2**63, 2**64 - 1, 2**40, 536_870_913])
def test_a_header_that_announces_the_impossible_ends_the_connection(world: World, size: int) -> None:
    line = opened(world)
    assert closed(begin_publish(line, size)) == ("connection.close", 501)
    assert line.core.kept_bytes == 0


@pytest.mark.parametrize("size", [LIMITS.message_bytes_max + 1, 536_870_912])
@pytest.mark.parametrize("whole", [True, False])
def test_of_a_message_above_the_limit_nothing_is_kept(world: World, size: int, whole: bool) -> None:
    """Also when method and header come in one piece, which is another path."""
    line = opened(world)
    start = wire.method(1, "basic.publish", exchange="amq.fanout", routing_key="k")
    header = wire.content_header(1, size)
    assert (line.give(start + header) if whole else line.give(start) + line.give(header)) == []
    body = wire.frame(BODY, 1, b"x" * 16_000)
    for _ in range(min(size // 16_000, 100)):
        assert line.give(body) == []
        assert line.core.kept_bytes == 0
    assert line.call(2, "channel.open").name == "channel.open-ok", "the connection goes on meanwhile"


@pytest.mark.parametrize("channels", [1, 20])
def test_messages_above_the_limit_are_refused_when_they_have_arrived(world: World, channels: int) -> None:
    """However many come at once: they do not count as unfinished ones, for nothing of them is kept."""
    line = opened(world)
    numbers = range(1, channels + 1)
    for number in numbers[1:]:
        line.call(number, "channel.open")
    for number in numbers:
        start = wire.method(number, "basic.publish", exchange="amq.fanout", routing_key="k")
        body = wire.frame(BODY, number, b"x" * 10_000) * 10
        assert line.give(start + wire.content_header(number, 100_001) + body) == []
    for number in numbers:
        said = line.give(wire.frame(BODY, number, b"x"))
        assert closed(said) == ("channel.close", 406)
        assert "message size 100001 is larger than configured max size 100000" in said[-1].text
    assert line.core.kept_bytes == 0


def test_a_message_of_exactly_the_limit_is_taken(world: World) -> None:
    line = opened(world)
    line.call(1, "queue.declare", queue="q")
    frames = [wire.frame(BODY, 1, b"x" * 10_000) for _ in range(10)]
    start = wire.method(1, "basic.publish", exchange="", routing_key="q") + wire.content_header(1, 100_000)
    assert line.give(start, *frames) == []
    assert line.call(1, "queue.declare", queue="q", passive=True).arguments["message_count"] == 1


@pytest.mark.parametrize("pieces", [[11], [10, 1], [5, 5, 1], [5, 6], [0, 11]], ids=str)
def test_a_body_longer_than_announced_is_refused(world: World, pieces: list[int]) -> None:
    line = opened(world)
    line.call(1, "queue.declare", queue="q")
    start = wire.method(1, "basic.publish", exchange="", routing_key="q") + wire.content_header(1, 10)
    said = line.give(start, *[wire.frame(BODY, 1, b"x" * size) for size in pieces])
    assert said[-1].name == "connection.close"
    assert said[-1].code in (501, 505), "a body frame too long, or one where none is due"


def test_a_body_frame_without_a_message_is_refused(world: World) -> None:
    for kind, payload in ((BODY, b"x"), (HEADER, wire.content_header(1, 0)[7:-1])):
        line = opened(world)
        assert closed(line.give(wire.frame(kind, 1, payload))) == ("connection.close", 505)


def test_a_row_of_empty_body_frames_keeps_little(world: World) -> None:
    line = opened(world)
    begin_publish(line, 10)
    for _ in range(100):
        assert line.give(wire.frame(BODY, 1, b"") * 1000) == []
        assert line.core.kept_bytes <= ASSEMBLE_BYTES_MAX + 8 * 1000


def test_unfinished_messages_on_all_channels_are_limited_together(world: World) -> None:
    line = opened(world)
    said: list[Said] = []
    for channel in range(2, 100):
        said = line.give(wire.method(channel, "channel.open"))
        if closed(said)[0] != "channel.open-ok":
            break
        start = wire.method(channel, "basic.publish", exchange="amq.fanout", routing_key="k")
        line.give(start, wire.content_header(channel, 100_000), *[wire.frame(BODY, channel, b"x" * 16_000)] * 6)
    assert closed(said) == ("connection.close", 506), f"{line.core.kept_bytes} bytes are kept"


@pytest.mark.parametrize("class_id", [0, 10, 61, 65_535])
def test_a_header_of_another_class_is_refused(world: World, class_id: int) -> None:
    line = opened(world)
    start = wire.method(1, "basic.publish", exchange="amq.fanout", routing_key="k")
    assert closed(line.give(start, wire.content_header(1, 1, class_id=class_id))) == ("connection.close", 505)


def test_input_behind_an_unanswered_login_is_bounded(world: World) -> None:
    line = Line(world, "c", LIMITS)
    line.give(wire.PROTOCOL_HEADER)
    world.broker._authenticator = Undecided()
    line.give(wire.start_ok("u", "right:1"))
    heartbeat = wire.frame(8, 0, b"")
    for _ in range(100):
        line.give(heartbeat * 1000)
        assert line.core.kept_bytes <= 65_536 + 8 * 1000
    assert line.core.state.value in ("closing", "closed")


class Undecided:
    """Never answers."""

    def verify(self, user: object, password: bytes, name: str, source: str) -> Pending[bool]:
        return Pending()
