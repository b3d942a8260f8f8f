"""Delayed messages that are due together: which travel as one run, what becomes of their properties, who has taken them."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from broker.catalog.commands import catalog_commands as commands
from broker.messages.confirms import Receipt
from broker.messages.message import DiedIn
from broker.queues.queue_type import Arrival, DeadMessage, DeathReason
from broker.records import BindingRecord, ExchangeRecord, QueueRecord
from broker.routing import release
from broker.routing.arrivals import DeadLetterReceipt, QueueAnswer
from broker.routing.history import HISTORY, History
from broker.routing.release import LOOKED_AT_PER_STEP, ReleaseGroup, Releases
from native.content import encode, messages
from tests.unit.broker.test_delayed_exchange import HOLDING, Declared, asks
from wire.amqp.tables import Long, decode_properties, encode_properties, encode_value, join_properties, join_table


class Held:
    """Messages that wait in exchange `later`."""

    def __init__(self) -> None:
        self.declared = Declared()
        self.releases = Releases(self.declared.catalog, asks)
        holding = self.declared.catalog.queue("/", HOLDING)
        assert holding is not None
        self.holding: QueueRecord = holding

    def bind(self, exchange: str, key: str, **arguments: Any) -> None:
        self.declared.done(commands.Bind(BindingRecord("/", "later", exchange, "exchange", key, arguments)))

    def runs(self, *properties: dict[str, Any], keys: str = "", transient: int | None = None) -> list[ReleaseGroup]:
        """Bodies are their numbers; `keys` has a letter for the routing key of each; which of them is transient, if one is."""
        return [found for found in self.steps(*properties, keys=keys, transient=transient) if found is not None]

    def steps(
        self, *properties: dict[str, Any], keys: str = "", transient: int | None = None
    ) -> Iterator[ReleaseGroup | None]:
        messages = [
            DeadMessage(
                "later",
                keys[at : at + 1] or "key",
                encode(encode_properties(one), b"%d" % at),
                at != transient,
                (at, 0, 0),
            )
            for at, one in enumerate(properties)
        ]
        return self.releases.runs(self.holding, messages)


def delayed(delay: Any, headers: dict[str, Any] | None = None, **properties: Any) -> dict[str, Any]:
    return {"headers": {"x-delay": delay, **(headers or {})}, **properties}


def bodies(run: ReleaseGroup) -> list[bytes]:
    return [body for _, body in messages(run.run.content, 0, run.run.count)]


@pytest.fixture
def held() -> Held:
    return Held()


def test_messages_that_agree_are_one_run_with_the_place_of_each(held: Held) -> None:
    [found] = held.runs(delayed(5), delayed(70_000, message_id="m"), delayed("7", {"other": "x"}))
    assert (found.queues, found.members, bodies(found)) == (["q"], [0, 1, 2], [b"0", b"1", b"2"])
    assert (found.run.count, found.run.body_bytes) == (3, 3)
    assert found.run.died_in == DiedIn(held.holding.id, (0, 0, 0), DeathReason.EXPIRED, ((1, 0, 0), (2, 0, 0)))
    delays = [decode_properties(props)["headers"]["x-delay"] for props, _ in messages(found.run.content, 0, 3)]
    assert delays == [-5, -70_000, -7]


def test_those_with_another_key_priority_or_time_to_live_are_runs_of_their_own_in_order(held: Held) -> None:
    said = (delayed(5), delayed(5, priority=0), delayed(5, expiration="9"), delayed(6), delayed(5, {"CC": ["k"]}))
    assert [found.members for found in held.runs(*said)] == [[0, 3], [1], [2], [4]]
    assert [found.members for found in held.runs(delayed(1), delayed(2), delayed(3), keys="aba")] == [[0, 2], [1]]


def test_each_goes_its_own_way_where_an_exchange_looks_at_headers(held: Held) -> None:
    held.declared.done(commands.DeclareQueue("/", "red"))
    held.declared.done(
        commands.Bind(BindingRecord("/", "amq.headers", "red", "queue", "", {"x-match": "all", "colour": "red"}))
    )
    held.bind("amq.headers", "key")
    found = held.runs(delayed(5, {"colour": "red"}), delayed(5, {"colour": "blue"}))
    assert [(run.queues, run.members) for run in found] == [(["q", "red"], [0]), (["q"], [1])]
    assert [run.run.died_in and run.run.died_in.positions for run in found] == [((0, 0, 0),), ((1, 0, 0),)]


def test_each_goes_its_own_way_where_an_exchange_draws_for_each_message(held: Held) -> None:
    """The keys of all are the same, and so are their headers."""
    held.declared.done(commands.DeclareExchange(ExchangeRecord("/", "any", "x-random")))
    for queue in ("left", "right"):
        held.declared.done(commands.DeclareQueue("/", queue))
        held.declared.done(commands.Bind(BindingRecord("/", "any", queue, "queue", "")))
    held.bind("any", "key")
    found = held.runs(delayed(5), delayed(5), delayed(5))
    assert [run.members for run in found] == [[0], [1], [2]]


def test_a_transient_message_travels_with_no_persistent_one(held: Held) -> None:
    found = held.runs(delayed(5), delayed(5), delayed(5), transient=1)
    assert [(run.members, run.run.persistent) for run in found] == [([0, 2], True), ([1], False)]


def test_what_a_consumer_had_before_it_was_delayed_is_redelivered(held: Held) -> None:
    """Others of the same keys are not."""
    history = History().with_death("q", "rejected", "", ["key"], None, 0).header
    props = join_properties({"headers": join_table({HISTORY: history, "x-delay": encode_value(5)})})
    contents = [encode(one, b"") for one in (encode_properties(delayed(5)), props, encode_properties(delayed(5)))]
    found = held.releases.runs(held.holding, [DeadMessage("later", "key", content, True) for content in contents])
    assert [(run.members, run.run.redelivered) for run in found] == [([0, 2], False), ([1], True)]


def test_a_few_shapes_of_properties_are_kept(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release, "TEMPLATES_MAX", 3)
    for nth in range(10):
        held.runs(delayed(5, message_id=f"m{nth}"))
        assert 0 < len(held.releases._templates) <= 3


@pytest.mark.parametrize("goes_its_own_way", [False, True])
def test_many_that_are_read_and_routed_each_by_itself_are_no_step_at_once(
    held: Held, monkeypatch: pytest.MonkeyPatch, goes_its_own_way: bool
) -> None:
    if goes_its_own_way:
        held.declared.done(commands.Bind(BindingRecord("/", "amq.headers", "q", "queue", "", {"colour": "red"})))
        held.bind("amq.headers", "key")
    looks: list[int] = [0]  # in each step

    def counted(look: Any) -> Any:
        def counting(*arguments: Any) -> Any:
            looks[-1] += 1
            return look(*arguments)

        return counting

    monkeypatch.setattr(release, "_rewritten", counted(release._rewritten))
    monkeypatch.setattr(release, "route_many", counted(release.route_many))
    groups = 0
    for found in held.steps(*(delayed(5, message_id=str(at)) for at in range(200))):
        if found is None:
            looks.append(0)
        else:
            groups += 1
    assert groups == (200 if goes_its_own_way else 1)
    assert max(looks) <= 2 * LOOKED_AT_PER_STEP


def test_no_exchange_delays_again_what_has_waited(held: Held) -> None:
    behind = ExchangeRecord("/", "behind", "x-delayed-message", arguments={"x-delayed-type": "fanout"})
    held.declared.done(commands.DeclareExchange(behind))
    held.declared.done(commands.DeclareQueue("/", "last"))
    held.declared.done(commands.Bind(BindingRecord("/", "behind", "last", "queue", "")))
    held.bind("behind", "key")
    [found] = held.runs(delayed(5), delayed(6))
    assert found.queues == ["q", "last"]


def test_properties_are_the_same_whether_such_were_read_before_or_not(
    held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(1)
    delays = (1, 200, 40_000, 70_000, 2**31 - 1, 2**31, 2**33, Long(5), Long(2**33), "12", 3.5, 0, -4, True, None)
    headers: list[dict[str, Any]] = [
        {}, {"a": "\x07x-delayI"}, {"BCC": ["k"]}, {"z": {"x-delay": 5}}, {"n": [1, 2]}, {"a": "x" * 2_000},
    ]  # fmt: skip
    properties: list[dict[str, Any]] = [
        {}, {"content_type": "\x07x-delayb", "priority": 3}, {"message_id": "\x07x-delayI12345"}, {"expiration": "5"},
    ]  # fmt: skip
    read: list[bytes] = []
    rewritten = release._rewritten
    monkeypatch.setattr(release, "_rewritten", lambda props: read.append(props) or rewritten(props))
    for _ in range(3_000):
        delay, before, behind = random.choice(delays), random.choice(headers), random.choice(headers)
        props = encode_properties({"headers": {**before, "x-delay": delay, **behind}, **random.choice(properties)})
        assert held.releases._released(props) == rewritten(props)
    assert len(read) < 2_900, "some are of a shape that was seen before"


def test_headers_that_cannot_be_read_keep_no_message(held: Held) -> None:
    props = b"\x20\x00" + join_table({"x-delay": b"I\0\0"})
    [found] = held.releases.runs(held.holding, [DeadMessage("later", "key", encode(props, b""), True)])
    assert found is not None
    assert (found.members, found.run.died_in) == ([0], None)


def test_a_header_that_is_there_twice_is_read_each_time(held: Held) -> None:
    field = b"\x07x-delayI\0\0\0"
    props = join_properties({"headers": (2 * len(field) + 2).to_bytes(4, "big") + field + b"\x05" + field + b"\x06"})
    for _ in range(2):
        properties, _ = held.releases._released(props)
        assert decode_properties(properties)["headers"] == {"x-delay": -5}
    assert not held.releases._templates


class Told:
    """A receipt for messages 10, 11 and 12, in queues 1 and 2."""

    def __init__(self) -> None:
        self.heard: list[tuple[list[int], Arrival, set[int]]] = []
        self.receipt = DeadLetterReceipt(
            [10, 11, 12],
            set(),
            lambda members, arrival, reached: self.heard.append((list(members), arrival, set(reached))),
        )
        self.receipt.begin(2)
        self.queues = [Receipt(QueueAnswer(self.receipt, queue), 0, 2, 1) for queue in (1, 2)]


def test_a_run_has_arrived_when_all_its_queues_have_it() -> None:
    told = Told()
    told.queues[0].accepted()
    assert told.heard == []
    told.queues[1].accepted()
    assert told.heard == [([10, 11, 12], Arrival.ARRIVED, {1, 2})]


def test_of_a_run_that_a_queue_takes_in_part_only_the_rest_goes_again_and_not_to_those_that_have_it() -> None:
    told = Told()
    told.queues[0].refuse_tag(1)
    told.queues[0].accepted()
    told.queues[1].accepted()
    assert told.heard == [([10, 12], Arrival.ARRIVED, {2}), ([11], Arrival.REFUSED, {2})]


def test_a_message_that_one_queue_refuses_is_said_to_be_in_the_other_that_took_it_among_others() -> None:
    told = Told()
    for queue, tag in ((0, 0), (1, 2)):
        told.queues[queue].refuse_tag(tag)
        told.queues[queue].accepted()
    assert told.heard == [([11], Arrival.ARRIVED, set()), ([10], Arrival.REFUSED, {2}), ([12], Arrival.REFUSED, {1})]


def test_a_message_that_two_queues_refuse_goes_again_to_both() -> None:
    told = Told()
    for queue in told.queues:
        queue.refuse_tag(1)
        queue.accepted()
    assert told.heard == [([10, 12], Arrival.ARRIVED, set()), ([11], Arrival.REFUSED, set())]


def test_a_run_that_one_queue_does_not_take_at_all_goes_to_it_again() -> None:
    told = Told()
    told.queues[0].give_up()
    told.queues[1].accepted()
    assert told.heard == [([one], Arrival.REFUSED, {2}) for one in (10, 11, 12)]
