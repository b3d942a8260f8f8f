"""Dead letters: their history, what becomes of properties, where they go, and when they are dropped (D6, D7, B25)."""

from __future__ import annotations

from typing import Any

from broker import catalog_commands as commands
from broker.catalog import Catalog, default_commands
from broker.dead_letter import dead_lettered, is_idle_cycle, without_history
from broker.message import LOOK_HEADERS, Run
from broker.policy import effective_arguments
from broker.queue_type import DeathReason
from broker.records import BindingRecord, QueueRecord
from broker.tables import decode_properties, encode_properties, split_properties, split_table
from native.content import encode, messages

NOW = 1_700_000_000_123


class World:
    """A catalog with queues that dead-letter into each other."""

    def __init__(self) -> None:
        self.catalog = Catalog()
        for command in default_commands("hash"):
            self.catalog.apply(command)

    def queue(self, name: str, **arguments: Any) -> QueueRecord:
        named = {key.replace("_", "-"): value for key, value in arguments.items()}
        record: QueueRecord = self.catalog.apply(commands.DeclareQueue("/", name, arguments=named))
        return record

    def bind(self, exchange: str, queue: str, key: str, **arguments: Any) -> None:
        self.catalog.apply(commands.Bind(BindingRecord("/", exchange, queue, "queue", key, arguments)))

    def die(
        self,
        source: QueueRecord,
        content: bytes,
        reason: DeathReason = DeathReason.REJECTED,
        exchange: str = "",
        key: str | None = None,
        now: int = NOW,
    ) -> tuple[Run, list[str]]:
        effective = effective_arguments(source, None, None)
        message = exchange, source.name if key is None else key, content, True
        return dead_lettered(self.catalog, source, effective, reason, message, now)


def message(body: bytes = b"x", **properties: Any) -> bytes:
    return encode(encode_properties(properties), body)


def properties_of(run: Run) -> dict[str, Any]:
    ((props, _),) = messages(run.content, 0, 1)
    return decode_properties(props)


def headers_of(run: Run) -> dict[str, Any]:
    headers: dict[str, Any] = properties_of(run)["headers"]
    return headers


def test_a_first_death_is_told_with_all_that_is_known() -> None:
    world = World()
    source = world.queue("src", x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    world.queue("dead")
    run, targets = world.die(source, message(headers={"a": 1, "CC": ["cc1"]}, delivery_mode=2), key="src")
    assert targets == ["dead"]
    assert headers_of(run) == {
        "CC": ["cc1"],
        "a": 1,
        "x-death": [
            {
                "count": 1,
                "reason": "rejected",
                "queue": "src",
                "time": NOW // 1000,
                "exchange": "",
                "routing-keys": ["src", "cc1"],
            }
        ],
        "x-first-death-exchange": "",
        "x-first-death-queue": "src",
        "x-first-death-reason": "rejected",
        "x-last-death-exchange": "",
        "x-last-death-queue": "src",
        "x-last-death-reason": "rejected",
    }
    assert (run.exchange, run.routing_key, run.count, run.persistent) == ("", "dead", 1, True)


def test_on_the_wire_headers_are_sorted_and_an_entry_has_its_fixed_order() -> None:
    world = World()
    source = world.queue("obs.src", x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    run, _ = world.die(source, message(headers={"user": 7, "CC": ["cc"]}, expiration="100"), DeathReason.EXPIRED)
    ((props, _),) = messages(run.content, 0, 1)
    raw = split_table(split_properties(props)["headers"])
    assert list(raw) == sorted(raw)
    assert raw["x-death"] == (
        b"A\x00\x00\x00\x96F\x00\x00\x00\x91\x13original-expirationS\x00\x00\x00\x03100\x05countl\x00\x00\x00\x00"
        b"\x00\x00\x00\x01\x06reasonS\x00\x00\x00\x07expired\x05queueS\x00\x00\x00\x07obs.src\x04timeT"
        + (NOW // 1000).to_bytes(8, "big")
        + b"\x08exchangeS\x00\x00\x00\x00\x0crouting-keysA\x00\x00\x00\x13S\x00\x00\x00\x07obs.srcS\x00\x00\x00\x02cc"
    )


def test_expiration_is_taken_away_and_kept_in_the_history() -> None:
    world = World()
    source = world.queue("src", x_dead_letter_exchange="", x_dead_letter_routing_key="mid")
    run, _ = world.die(source, message(expiration="250", message_id="m1"), DeathReason.EXPIRED)
    assert properties_of(run)["message_id"] == "m1"
    assert "expiration" not in properties_of(run)
    assert headers_of(run)["x-death"][0]["original-expiration"] == "250"


def test_every_reason_has_its_word() -> None:
    world = World()
    source = world.queue("src", x_dead_letter_exchange="")
    words = [headers_of(world.die(source, message(), reason)[0])["x-death"][0]["reason"] for reason in DeathReason]
    assert words == ["rejected", "expired", "maxlen", "delivery_limit"]


def test_a_second_death_elsewhere_comes_first_and_the_first_death_stays_named() -> None:
    world = World()
    source = world.queue("src", x_dead_letter_exchange="", x_dead_letter_routing_key="mid")
    middle = world.queue("mid", x_dead_letter_exchange="", x_dead_letter_routing_key="end")
    run, _ = world.die(source, message(), DeathReason.REJECTED)
    run, _ = world.die(middle, run.content, DeathReason.EXPIRED, now=NOW + 5_000)
    headers = headers_of(run)
    assert [(death["queue"], death["reason"]) for death in headers["x-death"]] == [
        ("mid", "expired"),
        ("src", "rejected"),
    ]
    assert (headers["x-first-death-queue"], headers["x-last-death-queue"]) == ("src", "mid")


def test_dying_again_of_the_same_in_the_same_queue_counts_up() -> None:
    world = World()
    source = world.queue("src", x_dead_letter_exchange="", x_dead_letter_routing_key="mid")
    middle = world.queue("mid", x_dead_letter_exchange="", x_dead_letter_routing_key="src")
    content = message()
    for _ in range(3):
        run, targets = world.die(source, content, DeathReason.REJECTED)
        assert targets == ["mid"]
        run, targets = world.die(middle, run.content, DeathReason.EXPIRED)
        assert targets == ["src"]
        content = run.content
    deaths = headers_of(run)["x-death"]
    assert [(death["queue"], death["reason"], death["count"]) for death in deaths] == [
        ("mid", "expired", 3),
        ("src", "rejected", 3),
    ]


def test_a_message_that_only_expires_round_and_round_is_dropped() -> None:
    world = World()
    source = world.queue("src", x_dead_letter_exchange="", x_dead_letter_routing_key="src")
    assert world.die(source, message(), DeathReason.EXPIRED)[1] == []


def test_a_rejection_on_the_way_lets_the_circle_go_on() -> None:
    deaths = [{"queue": "mid", "reason": "expired"}, {"queue": "src", "reason": "rejected"}]
    assert not is_idle_cycle(deaths, "src")
    assert is_idle_cycle(deaths, "mid")
    assert not is_idle_cycle(deaths, "elsewhere")
    deaths = [{"queue": "mid", "reason": "rejected"}, {"queue": "src", "reason": "expired"}]
    assert not is_idle_cycle(deaths, "src")


def test_without_a_key_of_its_own_it_goes_by_the_old_key_and_cc() -> None:
    world = World()
    source = world.queue("src", x_dead_letter_exchange="amq.direct")
    for name in ("by-key", "by-cc"):
        world.queue(name)
        world.bind("amq.direct", name, name)
    run, targets = world.die(source, message(headers={"CC": ["by-cc"]}), exchange="amq.fanout", key="by-key")
    assert targets == ["by-key", "by-cc"]
    assert run.routing_key == "by-key"
    assert headers_of(run)["x-death"][0]["exchange"] == "amq.fanout"


def test_a_headers_exchange_sees_the_new_headers() -> None:
    world = World()
    source = world.queue("src", x_dead_letter_exchange="amq.headers")
    world.queue("by-reason")
    world.bind("amq.headers", "by-reason", "", **{"x-match": "any-with-x", "x-first-death-reason": "maxlen"})
    assert world.die(source, message(), DeathReason.MAXLEN)[1] == ["by-reason"]
    assert world.die(source, message(), DeathReason.EXPIRED)[1] == []


def test_headers_of_the_client_keep_their_types() -> None:
    world = World()
    source = world.queue("src", x_dead_letter_exchange="")
    # byte, short, float, unsigned 32 bits, decimal: Python would write none of them so
    table = b"\x01bb\x07\x01ss\x00\x08\x01ff\x3f\x80\x00\x00\x01ii\x00\x00\x00\x09\x01dD\x01\x00\x00\x00\x05"
    content = encode(b"\x20\x00" + len(table).to_bytes(4, "big") + table, b"")
    run, _ = world.die(source, content)
    ((props, _),) = messages(run.content, 0, 1)
    raw = split_table(split_properties(props)["headers"])
    assert {name: raw[name][:1] for name in "bsfid"} == {
        "b": b"b", "s": b"s", "f": b"f", "i": b"i", "d": b"D",
    }  # fmt: skip


def test_headers_that_nobody_can_read_do_not_keep_the_message() -> None:
    world = World()
    source = world.queue("src", x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    world.queue("dead")
    run, targets = world.die(source, encode(b"\x20\x00\x00\x00\x00\x03\x01aZ", b"body"))
    assert targets == ["dead"]
    assert headers_of(run)["x-first-death-queue"] == "src"


def test_a_history_that_a_client_wrote_is_taken_away_and_nothing_else() -> None:
    forged = message(b"1", headers={"a": 1, "x-death": [{"queue": "q", "reason": "expired", "count": 9}]})
    honest = message(b"2", headers={"b": 2}, type="t")
    run = without_history(Run("", "k", forged + honest, 2, 2, look=LOOK_HEADERS))
    found = [(decode_properties(props), body) for props, body in messages(run.content, 0, 2)]
    assert found == [({"headers": {"a": 1}}, b"1"), ({"headers": {"b": 2}, "type": "t"}, b"2")]


def test_a_run_that_tells_no_history_is_left_as_it_is() -> None:
    run = Run("", "k", message(b"x-death is only spoken of", headers={"a": 1}), 1, 25, look=LOOK_HEADERS)
    assert without_history(run) is run
    spoken = Run("", "k", message(b"\x07x-death", headers={"a": 1}), 1, 8, look=LOOK_HEADERS)
    assert without_history(spoken).content == spoken.content
