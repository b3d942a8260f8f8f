"""Dead letters: where they go, and the history that they bring, field by field as clients know it."""

from __future__ import annotations

from typing import Any

import pytest

from broker.messages.message import DiedIn, Run
from broker.queues.queue_type import Arrival, DeadMessage, DeathReason
from broker.routing.dead_letter import PROPERTIES_BYTES_MAX
from broker.routing.history import History
from native.content import encode, messages, one
from tests.unit.broker.broker_world import NOW, Client, World
from tests.unit.broker.late_queues import FailedQueues, LateQueues
from wire.amqp.tables import (
    NESTING_MAX,
    Timestamp,
    decode_properties,
    encode_properties,
    join_properties,
    join_table,
    split_properties,
    split_table,
)


@pytest.fixture
def client() -> Client:
    """Queue `dead` waits for dead letters; declare `src` with the arguments of the case."""
    client = World().client()
    client.declare("dead")
    return client


def source(client: Client, **arguments: Any) -> None:
    client.declare("src", dead_letter_exchange="", **{"dead_letter_routing_key": "dead", **arguments})


def reject_one(client: Client, queue: str = "src") -> None:
    got = client.get(queue)
    assert got is not None
    client.reject(got.tag)


def death(reason: str, queue: str = "src", count: int = 1) -> dict[str, Any]:
    return {
        "count": count,
        "reason": reason,
        "queue": queue,
        "time": Timestamp(NOW // 1000),
        "exchange": "",
        "routing-keys": [queue],
    }


def headers_after(first: tuple[str, str], last: tuple[str, str], *deaths: dict[str, Any]) -> dict[str, Any]:
    """All that a dead letter's headers say; first and last are (queue, reason)."""
    return {
        "x-death": list(deaths),
        "x-first-death-exchange": "",
        "x-first-death-queue": first[0],
        "x-first-death-reason": first[1],
        "x-last-death-exchange": "",
        "x-last-death-queue": last[0],
        "x-last-death-reason": last[1],
    }


# ------------------------------------------------------------------------- the reasons


def test_rejected(client: Client) -> None:
    source(client)
    client.publish("", "src", b"a")
    reject_one(client)
    got = client.get("dead")
    assert got is not None
    ((props, body),) = messages(got.content, got.piece.position, 1)
    assert (body, got.piece.exchange, got.piece.routing_key) == (b"a", "", "dead")
    rejected = ("src", "rejected")
    assert decode_properties(props) == {"headers": headers_after(rejected, rejected, death("rejected"))}


def test_expired_by_the_messages_own_time_which_is_kept_in_the_history_only(client: Client) -> None:
    source(client)
    client.publish("", "src", b"a", expiration="10")
    client.world.pass_ms(10)
    properties = client.properties_of("dead")
    expired = ("src", "expired")
    assert properties == {"headers": headers_after(expired, expired, {"original-expiration": "10", **death("expired")})}
    assert next(iter(properties["headers"]["x-death"][0])) == "original-expiration"


def test_expired_by_the_queues_time(client: Client) -> None:
    source(client, message_ttl=10)
    client.publish("", "src", b"a")
    client.world.pass_ms(10)
    assert client.properties_of("dead")["headers"]["x-death"] == [death("expired")]


def test_expired_by_the_queues_time_with_a_longer_time_of_its_own(client: Client) -> None:
    source(client, message_ttl=10)
    client.publish("", "src", b"a", expiration="50000")
    client.world.pass_ms(10)
    properties = client.properties_of("dead")
    assert "expiration" not in properties
    assert properties["headers"]["x-death"] == [{"original-expiration": "50000", **death("expired")}]


def test_too_many_and_the_oldest_goes(client: Client) -> None:
    source(client, max_length=1)
    client.publish("", "src", b"a", b"b")
    assert client.properties_of("dead")["headers"]["x-death"] == [death("maxlen")]
    assert (client.bodies_of("src"), client.world.ready("dead")) == ([b"b"], 0)


def test_too_many_and_the_newest_is_refused(client: Client) -> None:
    source(client, max_length=1, overflow="reject-publish-dlx")
    client.session.publisher.select_confirms()
    client.publish("", "src", b"a", b"b")
    assert client.take_confirms() == [(1, 1, False, True), (2, 2, False, False)]
    assert client.properties_of("dead")["headers"]["x-death"] == [death("maxlen")]


def test_a_queue_of_no_length_at_all(client: Client) -> None:
    source(client, max_length=0)
    client.publish("", "src", b"a")
    assert client.properties_of("dead")["headers"]["x-death"] == [death("maxlen")]


def test_purged_and_deleted_messages_are_no_dead_letters(client: Client) -> None:
    source(client)
    client.publish("", "src", b"a")
    client.purge("src")
    client.publish("", "src", b"b")
    client.delete("src")
    assert client.world.ready("dead") == 0


# ------------------------------------------------------------------------- what a dead letter brings along


def test_all_other_properties_and_headers_stay(client: Client) -> None:
    source(client)
    properties: dict[str, Any] = {
        "content_type": "text/plain",
        "delivery_mode": 2,
        "priority": 3,
        "correlation_id": "c",
        "headers": {"zebra": 1, "apple": {"nested": [1, "two"]}},
        "timestamp": 5,
        "app_id": "app",
    }
    client.publish("", "src", b"a", **properties)
    reject_one(client)
    after = client.properties_of("dead")
    assert {name: after[name] for name in properties if name != "headers"} == {
        name: value for name, value in properties.items() if name != "headers"
    }
    assert after["headers"]["apple"] == {"nested": [1, "two"]}
    assert list(after["headers"]) == sorted(after["headers"])


def test_the_count_is_64_bits_wide_and_values_of_clients_stay_byte_for_byte(client: Client) -> None:
    source(client)
    client.publish("", "src", b"a", headers={"n": 1})
    reject_one(client)
    got = client.get("dead")
    assert got is not None
    ((props, _),) = messages(got.content, got.piece.position, 1)
    assert b"\x05countl\0\0\0\0\0\0\0\x01" in props
    assert b"\x01nI\0\0\0\x01" in props


def test_persistence_and_priority_hold_for_the_next_queue(client: Client) -> None:
    source(client, dead_letter_routing_key="sorted")
    client.declare("sorted", max_priority=5)
    for body, priority in ((b"low", 1), (b"high", 4)):
        client.publish("", "src", body, priority=priority)
    for _ in range(2):
        reject_one(client)
    assert client.bodies_of("sorted") == [b"high", b"low"]


def test_a_dead_letter_has_no_time_to_live_of_its_own_any_more(client: Client) -> None:
    source(client)
    client.publish("", "src", b"a", expiration="10")
    client.world.pass_ms(10)
    client.world.pass_ms(100_000)
    assert client.world.ready("dead") == 1


def test_cc_is_kept_and_told_and_bcc_never_shown(client: Client) -> None:
    client.declare("cc1")
    client.declare("secret")
    source(client)
    client.publish("", "src", b"a", headers={"CC": ["cc1"], "BCC": ["secret"]})
    reject_one(client)
    headers = client.properties_of("dead")["headers"]
    assert headers["CC"] == ["cc1"] and "BCC" not in headers
    assert headers["x-death"] == [{**death("rejected"), "routing-keys": ["src", "cc1"]}]


# ------------------------------------------------------------------------- where it goes


def test_without_a_key_of_its_own_it_keeps_its_keys_cc_included(client: Client) -> None:
    client.declare("cc1")
    client.declare("src", dead_letter_exchange="")
    client.publish("", "src", b"a", headers={"CC": ["cc1"]})
    reject_one(client)
    assert client.bodies_of("cc1") == [b"a", b"a"]
    assert client.world.ready("src") == 1  # rejected: it may come back to the queue it died in


def test_an_exchange_routes_it_by_key_and_headers(client: Client) -> None:
    client.declare("audit")
    client.bind("dead", "amq.headers", "", kind="a")
    client.bind("audit", "amq.headers", "", **{"x-match": "any-with-x", "x-last-death-reason": "rejected"})
    client.declare("src", dead_letter_exchange="amq.headers")
    client.publish("", "src", b"a", headers={"kind": "a"})
    client.publish("", "src", b"b", headers={"kind": "b"})
    reject_one(client)
    reject_one(client)
    assert (client.bodies_of("dead"), client.bodies_of("audit")) == ([b"a"], [b"a", b"b"])


def test_an_exchange_that_is_missing_or_leads_nowhere_drops_it(client: Client) -> None:
    client.declare("src", dead_letter_exchange="no.such.dlx")
    client.declare("src2", dead_letter_exchange="amq.direct")
    for queue in ("src", "src2"):
        client.publish("", queue, b"a")
        reject_one(client, queue)
    assert client.world.ready("dead") == 0
    assert sum(queue.statistics().unacknowledged for queue in client.world.broker.queues()) == 0


def test_an_internal_exchange_takes_dead_letters(client: Client) -> None:
    client.declare_exchange("int", "fanout", internal=True)
    client.bind("dead", "int", "")
    client.declare("src", dead_letter_exchange="int")
    client.publish("", "src", b"a")
    reject_one(client)
    assert client.bodies_of("dead") == [b"a"]


def test_many_die_at_once_each_with_its_own_history(client: Client) -> None:
    source(client, message_ttl=10)
    client.publish("", "src", *[b"%d" % number for number in range(50)])
    client.world.pass_ms(10)
    assert client.world.broker.dead_lettered()["expired"] == 50
    assert client.properties_of("dead")["headers"]["x-death"] == [death("expired")]
    assert client.bodies_of("dead") == [b"%d" % number for number in range(1, 50)]


# ------------------------------------------------------------------------- more than one death


def test_the_newest_death_comes_first_and_the_first_is_remembered(client: Client) -> None:
    source(client, dead_letter_routing_key="mid")
    client.declare("mid", dead_letter_exchange="", dead_letter_routing_key="dead", message_ttl=20)
    client.publish("", "src", b"a", expiration="20")
    client.world.pass_ms(20)
    client.world.pass_ms(20)
    deaths = [death("expired", "mid"), {"original-expiration": "20", **death("expired")}]
    assert client.properties_of("dead") == {"headers": headers_after(("src", "expired"), ("mid", "expired"), *deaths)}


def test_a_loop_that_consumers_keep_up_counts_its_rounds(client: Client) -> None:
    source(client, dead_letter_routing_key="mid")
    client.declare("mid", dead_letter_exchange="", dead_letter_routing_key="src", message_ttl=10)
    client.publish("", "src", b"a")
    for _ in range(3):
        reject_one(client)
        client.world.pass_ms(10)
    assert client.properties_of("src") == {
        "headers": headers_after(
            ("src", "rejected"), ("mid", "expired"), death("expired", "mid", 3), death("rejected", "src", 3)
        )
    }


def test_a_message_that_dies_of_age_and_would_come_back_is_dropped(client: Client) -> None:
    client.declare("src", dead_letter_exchange="", message_ttl=10)
    client.publish("", "src", b"a")
    client.world.pass_ms(10)
    assert client.world.ready("src") == 0


def test_a_loop_of_two_queues_without_consumers_ends_after_one_round(client: Client) -> None:
    source(client, dead_letter_routing_key="mid", message_ttl=10)
    client.declare("mid", dead_letter_exchange="", dead_letter_routing_key="src", message_ttl=10)
    client.publish("", "src", b"a")
    for _ in range(5):
        client.world.pass_ms(10)
    assert (client.world.ready("src"), client.world.ready("mid")) == (0, 0)


def test_only_the_copy_that_would_go_round_is_dropped(client: Client) -> None:
    client.declare_exchange("dlx", "fanout")
    client.declare("src", dead_letter_exchange="dlx", message_ttl=10)
    client.bind("src", "dlx", "")
    client.bind("dead", "dlx", "")
    client.publish("", "src", b"a")
    client.world.pass_ms(10)
    assert (client.world.ready("src"), client.world.ready("dead")) == (0, 1)


def test_a_chain_of_many_queues_does_not_read_its_past_at_each_step(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """500 queues took two seconds, in one turn: every step read the history and wrote it anew."""
    length = 200
    client.declare(f"q{length}")
    for place in range(length):
        client.declare(f"q{place}", dead_letter_exchange="", dead_letter_routing_key=f"q{place + 1}", max_length=0)
    monkeypatch.setattr(History, "_entries", lambda history: pytest.fail("an entry of the past was read"))
    client.publish("", "q0", b"a")
    monkeypatch.undo()
    headers = client.properties_of(f"q{length}")["headers"]
    assert [entry["queue"] for entry in headers["x-death"]] == [f"q{place}" for place in reversed(range(length))]
    assert (headers["x-first-death-queue"], headers["x-last-death-queue"]) == ("q0", f"q{length - 1}")


# ------------------------------------------------------------------------- what clients claim


def test_a_history_that_a_client_sends_is_dropped(client: Client) -> None:
    source(client)
    client.publish("", "src", b"a", headers={"x-death": [death("expired", "src", 7)], "k": 1})
    assert client.properties_of("src") == {"headers": {"k": 1}}
    client.publish("", "src", b"a", headers={"x-death": "nonsense"})
    reject_one(client)
    rejected = ("src", "rejected")
    assert client.properties_of("dead")["headers"] == headers_after(rejected, rejected, death("rejected"))


def test_a_dead_letter_that_a_client_publishes_again_begins_anew(client: Client) -> None:
    source(client)
    client.publish("", "src", b"a")
    reject_one(client)
    headers = client.properties_of("dead")["headers"]
    client.publish("", "src", b"a", headers=headers)
    reject_one(client)
    assert client.properties_of("dead")["headers"]["x-death"] == [death("rejected")]


def test_a_body_that_looks_like_a_history_stays_as_it_is(client: Client) -> None:
    client.publish("", "dead", b"\x07x-deathA", headers={"k": 1})
    assert client.bodies_of("dead") == [b"\x07x-deathA"]


def test_headers_that_cannot_be_read_do_not_hold_a_dead_letter_up(client: Client) -> None:
    """A protocol may let pass what this reader does not know."""
    source(client)
    props = encode_properties({"headers": {"a": 1}, "app_id": "x"}).replace(b"\x01aI", b"\x01a?")
    assert split_properties(props)["app_id"] == b"\x01x"
    world = client.world
    queue = world.broker.queue("/", "src")
    world.broker.dead_letter(queue, 0, [DeadMessage("", "src", encode(props, b"a"), False)], NOW)  # type: ignore[arg-type]
    after = client.properties_of("dead")
    assert (after["app_id"], after["headers"]["x-death"]) == ("x", [death("rejected")])


def test_dead_letters_are_counted_by_reason(client: Client) -> None:
    source(client, max_length=1)
    client.publish("", "src", b"a", b"b")
    reject_one(client)
    assert client.world.broker.dead_lettered() == {"rejected": 1, "expired": 0, "maxlen": 1, "delivery_limit": 0}


# ------------------------------------------------------------------------- kept until they have arrived


def kept(client: Client, body: bytes = b"a", reached: set[int] | None = None) -> list[Arrival]:
    """What a queue is told that keeps its dead letter until it has arrived."""
    told: list[Arrival] = []
    broker = client.world.broker
    reached = set() if reached is None else reached
    message = DeadMessage("", "src", encode(b"\0\0", body), True)
    broker.dead_letter_confirmed(broker.queue("/", "src"), DeathReason.REJECTED, message, NOW, reached, told.append)
    return told


def test_a_dead_letter_has_arrived_when_its_queues_have_confirmed_it(client: Client) -> None:
    source(client)
    assert kept(client) == [Arrival.ARRIVED]
    assert client.bodies_of("dead") == [b"a"]


def test_a_dead_letter_that_is_refused_has_not_arrived(client: Client) -> None:
    client.declare("full", max_length=0, overflow="reject-publish")
    source(client, dead_letter_routing_key="full")
    assert kept(client) == [Arrival.REFUSED]


def test_a_dead_letter_for_several_queues_has_arrived_when_all_have_confirmed_it(client: Client) -> None:
    late = LateQueues(client.world.broker)
    late.name, late.owed = "stream", []
    client.world.broker.add_kind(late)
    client.declare("slow", queue_type="stream")
    client.declare_exchange("all", "fanout")
    for queue in ("dead", "slow"):
        client.bind(queue, "all", "")
    client.declare("src", dead_letter_exchange="all")
    told = kept(client)
    assert told == []
    late.owed.pop().accepted()
    assert told == [Arrival.ARRIVED]


def test_a_dead_letter_that_one_queue_refuses_is_given_again_to_that_one_only(client: Client) -> None:
    """All of its queues got it with each attempt, for as long as one of them was full."""
    client.declare("dead")
    client.declare("full", max_length=1, overflow="reject-publish")
    client.declare_exchange("all", "fanout")
    for queue in ("dead", "full"):
        client.bind(queue, "all", "")
    client.declare("src", dead_letter_exchange="all")
    client.publish("", "full", b"in the way")
    reached: set[int] = set()
    assert [kept(client, b"a", reached) for _ in range(3)] == [[Arrival.REFUSED]] * 3
    assert client.bodies_of("dead") == [b"a"]
    assert client.world.broker.dead_lettered()["rejected"] == 1
    client.get("full", no_ack=True)
    assert kept(client, b"a", reached) == [Arrival.ARRIVED]
    assert (client.bodies_of("dead"), client.bodies_of("full")) == ([], [b"a"])
    assert kept(client, b"a", reached) == [Arrival.ARRIVED], "all that are bound have it"
    client.delete("dead")
    client.delete("full")
    assert kept(client, b"a", reached) == [Arrival.ARRIVED], "it has been somewhere"
    client.declare("dead")
    client.bind("dead", "all", "")
    assert kept(client, b"a", reached) == [Arrival.ARRIVED]
    assert client.bodies_of("dead") == [b"a"], "this is another queue"


def test_a_dead_letter_whose_target_has_no_disk_any_more_has_not_arrived(client: Client) -> None:
    failed = FailedQueues(client.world.broker)
    failed.name = "stream"
    client.world.broker.add_kind(failed)
    client.declare("broken", queue_type="stream")
    source(client, dead_letter_routing_key="broken")
    assert kept(client) == [Arrival.REFUSED]


@pytest.mark.parametrize("arguments", [{"dead_letter_routing_key": "nowhere"}, {"dead_letter_exchange": "none"}])
def test_a_dead_letter_with_nowhere_to_go_has_not_arrived(client: Client, arguments: dict[str, Any]) -> None:
    client.declare("src", **{"dead_letter_exchange": "", **arguments})
    assert kept(client) == [Arrival.NOWHERE]


def test_a_dead_letter_whose_only_way_leads_back_has_nowhere_to_go(client: Client) -> None:
    client.declare("src", dead_letter_exchange="", dead_letter_routing_key="src")
    broker, told = client.world.broker, []
    message = DeadMessage("", "src", encode(b"\0\0", b"a"), True)
    broker.dead_letter_confirmed(broker.queue("/", "src"), DeathReason.EXPIRED, message, NOW, set(), told.append)
    assert told == [Arrival.NOWHERE]
    assert kept(client) == [Arrival.ARRIVED], "a rejection is a consumer's loop, and its to end"


def test_a_dead_letter_whose_history_makes_its_properties_too_long_goes_nowhere(client: Client) -> None:
    """No frame to a client could carry it."""
    source(client)
    client.publish("", "src", b"long", headers={"h": "x" * (PROPERTIES_BYTES_MAX - 200)})
    reject_one(client)
    client.publish("", "src", b"short", headers={"h": "x" * (PROPERTIES_BYTES_MAX - 2_000)})
    reject_one(client)
    assert client.bodies_of("dead") == [b"short"]
    broker = client.world.broker
    assert (broker.dead_lettered()["rejected"], broker.dead_letters_too_large) == (1, 1)


def test_a_dead_letter_that_is_kept_until_it_has_arrived_goes_nowhere_with_too_large_a_history(client: Client) -> None:
    source(client)
    broker, told = client.world.broker, list[Arrival]()
    props = encode_properties({"headers": {"h": "x" * (PROPERTIES_BYTES_MAX - 200)}})
    message = DeadMessage("", "src", encode(props, b"a"), True)
    broker.dead_letter_confirmed(broker.queue("/", "src"), DeathReason.REJECTED, message, NOW, set(), told.append)
    assert told == [Arrival.NOWHERE] and broker.dead_letters_too_large == 1


def test_headers_that_are_nested_too_deep_to_be_read_stay_when_their_message_dies(client: Client) -> None:
    source(client)
    deep = b"V"
    for _ in range(2 * NESTING_MAX):
        deep = b"A" + len(deep).to_bytes(4, "big") + deep
    props = join_properties({"headers": join_table({"deep": deep, "keep": b"t\x01"})})
    world = client.world
    message = DeadMessage("", "src", encode(props, b"a"), False)
    world.broker.dead_letter(world.broker.queue("/", "src"), DeathReason.REJECTED, [message], NOW)
    got = client.get("dead")
    assert got is not None
    after = split_table(split_properties(one(got.content, 0)[0])["headers"])
    assert (after["deep"], after["keep"]) == (deep, b"t\x01") and "x-death" in after


def test_a_dead_letter_carries_where_it_died_into_its_new_queue(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    source(client)
    runs: list[Run] = []
    broker = client.world.broker
    kind = broker.find_queue("/", "dead")
    assert kind is not None
    monkeypatch.setattr(kind.kind, "publish", lambda queues, run, receipt, now: runs.append(run))
    died = DeadMessage("", "src", encode(b"\0\0", b"a"), True, (7, 120, 3))
    queue = broker.queue("/", "src")
    broker.dead_letter(queue, DeathReason.EXPIRED, [died, died._replace(position=None)], NOW)
    assert [run.died_in for run in runs] == [DiedIn(queue.record.id, (7, 120, 3), DeathReason.EXPIRED), None]
    assert [run.publisher for run in runs] == [None, None], "nobody published it"
