"""Little input must not make much work or much state: every product has a factor that is limited."""

from __future__ import annotations

import struct
import time

import pytest

from broker.catalog.commands import catalog_commands as commands
from broker.catalog.parts.catalog_limits import CatalogLimits
from broker.catalog.patterns import matches
from broker.catalog.permissions import check_topic
from broker.errors import PreconditionFailed
from broker.records import PermissionRecord, PolicyRecord, TopicPermissionRecord, UserRecord
from tests.security import wire
from tests.security.wire import METHOD, Said
from tests.security.world import Line, World

# Patterns that take exponential or high polynomial time in a backtracking matcher.
REDOS = [
    r"^(a+)+$", r"^(a|a)*$", r"^(a|aa)+$", r"^(.*a){20}$", r"^((a*)*)*$", r"(x+x+)+y", r"^(([a-z])+.)+[A-Z]([a-z])+$",
    r"^(a?){50}a{50}$", r"(.*)*=.*", r"^(\w+\s?)*$", r"^(?:a+){2,20}$", r"^[a-zA-Z]+(([',. -][a-zA-Z ])?[a-zA-Z]*)*$",
]  # fmt: skip
REFUSED = [r"(?=a)a", r"(a)\1", r"(?<!a)b", r"[", r"(", r"*", r"a{1001}", r"(?P<n>a)(?P=n)", "a" * 1025, r"\xZZ"]
SLOW_MS = 20.0


@pytest.fixture
def world() -> World:
    world = World(CatalogLimits(queues=50, exchanges=50, bindings=200))
    world.add_vhost("/")
    world.add_user("u")
    world.permit("u", "/", ".*", ".*", ".*")
    return world


@pytest.fixture
def line(world: World) -> Line:
    return channel_of(world)


def channel_of(world: World) -> Line:
    line = world.connect("u", "/")
    assert line.opened, line.last
    line.call(1, "channel.open")
    return line


def refused(said: Said) -> int:
    assert said.name in ("channel.close", "connection.close"), said
    return said.code


# bindings


@pytest.mark.parametrize("key", ["#.#.#", "#.a.#.b.#", ".".join("#" * 50), "#." * 100 + "#"])
def test_a_binding_key_has_few_wildcards_for_many_words(line: Line, key: str) -> None:
    line.call(1, "queue.declare", queue="q")
    said = line.call(1, "queue.bind", queue="q", exchange="amq.topic", routing_key=key)
    assert refused(said) == 406
    assert "#" in said.text


@pytest.mark.parametrize("key", ["#", "#.a.#", "*.*.*", "a.#", "a#b.#c.c#.#d"])
def test_a_binding_key_may_have_two(line: Line, key: str) -> None:
    line.call(1, "queue.declare", queue="q")
    said = line.call(1, "queue.bind", queue="q", exchange="amq.topic", routing_key=key)
    assert said.name == "queue.bind-ok"


def test_routing_a_long_key_past_many_wildcards_is_quick(line: Line) -> None:
    """All bindings that are allowed, and the key that makes the most of them."""
    line.call(1, "queue.declare", queue="q")
    for number in range(150):
        line.call(1, "queue.bind", queue="q", exchange="amq.topic", routing_key=f"#.a.#.b{number}")
    key = ".".join(["a"] * 120)
    started = time.thread_time()
    assert line.give(wire.publish(1, "amq.topic", key)) == []
    took_ms = (time.thread_time() - started) * 1000
    assert took_ms < 10 * SLOW_MS, f"{took_ms:.0f} ms for one message"


def test_a_ring_of_exchanges_ends(world: World, line: Line) -> None:
    for number in range(20):
        line.call(1, "exchange.declare", exchange=f"x{number}", type="fanout")
    for one in range(20):
        for other in range(5):
            line.call(1, "exchange.bind", destination=f"x{(one + other) % 20}", source=f"x{one}")
    line.call(1, "queue.declare", queue="q")
    line.call(1, "queue.bind", queue="q", exchange="x7")
    line.give(wire.publish(1, "x0", "k"))
    assert line.call(1, "queue.declare", queue="q", passive=True).arguments["message_count"] == 1


# limits of what may be declared


def test_everything_that_is_declared_has_a_limit(world: World, line: Line) -> None:
    for number in range(50):
        assert line.call(1, "queue.declare", queue=f"q{number}").name == "queue.declare-ok"
    assert refused(line.call(1, "queue.declare", queue="more")) == 406
    line = channel_of(world)
    for number in range(50 - 6):
        assert line.call(1, "exchange.declare", exchange=f"x{number}", type="direct").name == "exchange.declare-ok"
    assert refused(line.call(1, "exchange.declare", exchange="more", type="direct")) == 406
    line = channel_of(world)
    for number in range(200):
        said = line.call(1, "queue.bind", queue="q0", exchange="x0", routing_key=str(number))
        assert said.name == "queue.bind-ok"
    assert refused(line.call(1, "queue.bind", queue="q0", exchange="x0", routing_key="more")) == 406


# arguments and headers


def table(count: int) -> dict[str, object]:
    return {f"x-note-{number}": number for number in range(count)}


@pytest.mark.parametrize(
    ("arguments", "allowed"),
    [
        (table(127), True),
        (table(200), False),
        ({"note": "x" * 60_000}, True),
        ({"note": "x" * 70_000}, False),
        ({"note": ["y" * 1000] * 100}, False),
    ],
    ids=["few", "many", "big", "too big", "a long list"],
)
def test_arguments_are_few_and_small(line: Line, arguments: dict[str, object], allowed: bool) -> None:
    requests = [
        ("queue.declare", {"queue": "q"}),
        ("exchange.declare", {"exchange": "x", "type": "fanout"}),
        ("basic.consume", {"queue": "r", "no_ack": True}),
        ("queue.bind", {"queue": "r", "exchange": "amq.fanout"}),
        ("exchange.bind", {"destination": "amq.direct", "source": "amq.fanout"}),
    ]
    line = channel_of(line.world)
    line.call(1, "queue.declare", queue="r")
    for name, more in requests:
        said = line.call(1, name, arguments=arguments, **more)
        if allowed:
            assert said.name == name + "-ok", said
        else:
            assert refused(said) == 406, name
            line.give(wire.method(1, "channel.close-ok"))
            line.call(1, "channel.open")


def nested(depth: int, kind: bytes) -> bytes:
    """A field value of tables (or arrays) within each other, as bytes: our own encoder refuses to write it."""
    value = b"t\x01"
    for _ in range(depth):
        inner = (b"\x01k" if kind == b"F" else b"") + value
        value = kind + struct.pack(">I", len(inner)) + inner
    return value


@pytest.mark.parametrize("kind", [b"F", b"A"], ids=["tables", "arrays"])
@pytest.mark.parametrize(("depth", "allowed"), [(10, True), (40, False), (1000, False), (9000, False)])
def test_tables_are_not_nested_for_ever(line: Line, kind: bytes, depth: int, allowed: bool) -> None:
    field = b"\x04note" + nested(depth, kind)
    raw = wire.method(1, "queue.declare", queue="q")[7:-1]
    payload = raw[:-4] + struct.pack(">I", len(field)) + field
    (said,) = line.give(wire.frame(METHOD, 1, payload))
    if allowed:
        assert said.name == "queue.declare-ok"
    else:
        assert refused(said) in (501, 502), said


@pytest.mark.parametrize("kind", [b"F", b"A"], ids=["tables", "arrays"])
def test_headers_nested_for_ever_stay_bytes(line: Line, kind: bytes) -> None:
    """Nobody looks into the headers of a message that no exchange or queue asks for."""
    line.call(1, "queue.declare", queue="q")
    field = b"\x04note" + nested(5000, kind)
    properties = struct.pack(">HI", wire.HEADERS_FLAG, len(field)) + field
    start = wire.method(1, "basic.publish", exchange="", routing_key="q")
    header = wire.frame(wire.HEADER, 1, struct.pack(">HHQ", 60, 0, 1) + properties)
    said = line.give(start, header, wire.frame(wire.BODY, 1, b"x"))
    assert not said or said[-1].code in (406, 501, 502), said
    if not said:
        assert line.give(wire.method(1, "basic.get", queue="q"))[0].name == "basic.get-ok"


def test_an_array_of_things_without_width_costs_no_more_than_its_bytes(line: Line) -> None:
    """`V` is one byte and a Python object: 120 000 of them in one frame must not stay."""
    values = b"V" * 120_000
    field = b"\x04note" + b"A" + struct.pack(">I", len(values)) + values
    raw = wire.method(1, "queue.declare", queue="q")[7:-1]
    said = line.give(wire.frame(METHOD, 1, raw[:-4] + struct.pack(">I", len(field)) + field))
    assert refused(said[-1]) in (406, 501, 502)


def test_thousands_of_headers_route_in_time(line: Line) -> None:
    line.call(1, "queue.declare", queue="q")
    arguments = {"x-match": "any", **{f"h{number}": number for number in range(100)}}
    said = line.call(1, "queue.bind", queue="q", exchange="amq.headers", arguments=arguments)
    assert said.name == "queue.bind-ok"
    headers = {f"n{number}": number for number in range(8_000)}
    started = time.thread_time()
    line.give(wire.publish(1, "amq.headers", "", headers=headers))
    assert time.thread_time() - started < 0.5
    assert line.call(1, "basic.qos").name == "basic.qos-ok"


def test_copies_to_thousands_of_keys_are_one_message_for_a_queue(line: Line) -> None:
    line.call(1, "queue.declare", queue="q")
    line.call(1, "queue.bind", queue="q", exchange="amq.topic", routing_key="#")
    keys = [f"k.{number}" for number in range(5_000)]
    started = time.thread_time()
    line.give(wire.publish(1, "amq.topic", "k", headers={"CC": keys}))
    assert time.thread_time() - started < 1.0
    assert line.call(1, "queue.declare", queue="q", passive=True).arguments["message_count"] == 1


# dead letters


def deaths(world: World, line: Line, hops: int, headers: dict[str, object]) -> list[int]:
    """The size of a message's header frame at each stop of a chain of queues in which it is rejected."""
    for number in range(hops):
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"d{number + 1}"}
        assert line.call(1, "queue.declare", queue=f"d{number}", arguments=arguments).name == "queue.declare-ok"
    line.give(wire.publish(1, "", "d0", headers=headers))
    sizes = []
    for number in range(hops):
        said = line.give(wire.method(1, "basic.get", queue=f"d{number}"))
        if said[0].name == "basic.get-empty":
            break
        assert [one.name for one in said] == ["basic.get-ok", "header", "body"], said
        sizes.append(len(said[1].payload) + 8)
        tag = said[0].arguments["delivery_tag"]
        assert line.give(wire.method(1, "basic.reject", delivery_tag=tag)) == []
    return sizes


@pytest.mark.parametrize("keys", [1, 100, 400])
def test_keys_of_copies_are_not_added_again_by_each_death(world: World, line: Line, keys: int) -> None:
    sizes = deaths(world, line, 40, {"CC": ["k" * 200] * keys})
    assert len(sizes) == 40, f"it was lost after {len(sizes)} deaths"
    grown = (sizes[-1] - sizes[0]) / 40
    assert grown < 1_500, f"each death adds {grown:.0f} bytes"
    assert max(sizes) <= line.core.frame_max


@pytest.mark.parametrize("own_bytes", [129_000, 130_500])
def test_a_header_never_outgrows_its_frame(world: World, line: Line, own_bytes: int) -> None:
    """The header of a message is one frame, and a client could never receive a bigger one than was agreed."""
    sizes = deaths(world, line, 40, {"note": "x" * own_bytes})
    assert 1 <= len(sizes) < 40
    assert max(sizes) <= line.core.frame_max


def test_a_history_that_a_client_made_up_is_taken_out(world: World, line: Line) -> None:
    made_up = [{"queue": f"q{number}", "reason": "rejected", "count": 1} for number in range(1000)]
    (first, *_) = deaths(world, line, 1, {"x-death": made_up})
    assert first < 200, f"the header frame has {first} bytes"


@pytest.mark.parametrize("key", ["k" * 256, "k" * 60_000, "ü" * 128])
def test_a_dead_letter_key_that_no_client_could_be_told_is_refused(world: World, line: Line, key: str) -> None:
    """It is a long string where it is declared, and a short one in every delivery."""
    definition = {"dead-letter-exchange": "amq.fanout", "dead-letter-routing-key": key}
    with pytest.raises(PreconditionFailed, match="max_length_exceeded"):
        world.submit(commands.PutPolicy(PolicyRecord("/", "p", ".*", "queues", 0, definition)))
    arguments = {f"x-{name}": value for name, value in definition.items()}
    assert refused(line.call(1, "queue.declare", queue="q", arguments=arguments)) == 406


# patterns


@pytest.mark.parametrize("pattern", REDOS)
@pytest.mark.parametrize("text", ["a" * 254 + "!", "x" * 255, "a " * 127, "a" * 100 + "=" * 100])
def test_no_pattern_takes_long(pattern: str, text: str) -> None:
    matches(pattern, "warm")
    started = time.thread_time()
    matches(pattern, text)
    took_ms = (time.thread_time() - started) * 1000
    assert took_ms < SLOW_MS, f"{took_ms:.1f} ms"


@pytest.mark.parametrize("pattern", REFUSED)
def test_patterns_that_are_wrong_or_need_backtracking_are_refused_when_they_are_set(world: World, pattern: str) -> None:
    wishes = [
        commands.PutPermission(PermissionRecord("u", "/", pattern, ".*", ".*")),
        commands.PutPermission(PermissionRecord("u", "/", ".*", ".*", pattern)),
        commands.PutTopicPermission(TopicPermissionRecord("u", "/", "amq.topic", pattern, ".*")),
        commands.PutPolicy(PolicyRecord("/", "p", pattern, "queues", 0, {"max-length": 1})),
    ]
    for wish in wishes:
        with pytest.raises(PreconditionFailed):
            world.submit(wish)


@pytest.mark.parametrize(
    "name", [".*", "a|b", "[", "x]y", "^", "$", "a-z", "(", "\\", "{vhost}", "{username}", "a.b", "é"]
)
@pytest.mark.parametrize(
    "template", ["^{username}\\.", "^[{username}]\\.", "^(in|{username})\\.", "^{vhost}-{username}\\."]
)
def test_a_user_name_is_never_a_pattern(name: str, template: str) -> None:
    """What stands for the user matches the user's name and nothing else (or one of its characters, within brackets)."""
    world = World()
    world.add_vhost("/")
    world.add_user(name)
    world.permit(name, "/", ".*", ".*", ".*")
    world.submit(commands.PutTopicPermission(TopicPermissionRecord(name, "/", "amq.topic", template, template)))
    prefix = "/-" if template.startswith("^{vhost}") else ""
    own = name[0] if "[" in template else name
    check_topic(world.catalog, UserRecord(name, None), "/", "write", "amq.topic", f"{prefix}{own}.key")
    for other in ("q.key", "victim.key", f"{prefix}q.key", f"{prefix}victim.key", "", "m.key", "/.key"):
        if "[" in template and other[:1] in name:
            continue
        with pytest.raises(Exception, match="refused"):
            check_topic(world.catalog, UserRecord(name, None), "/", "write", "amq.topic", other)
