"""Replays: how messages are marked, and up to which place all of them are done."""

from __future__ import annotations

from typing import Any

import pytest

from broker.errors import AccessRefused, BrokerError, InvalidRequest, PreconditionFailed, ResourceExhausted
from broker.messages.confirms import Receipt
from broker.messages.message import Run
from broker.operations.operator import Operator
from broker.operations.replays import Replays
from broker.pending import Pending
from broker.redrive.redrive import RedriveState
from broker.replay.logged import LoggedMessage, marked
from broker.replay.message_replay import IN_FLIGHT_BYTES_MAX, IN_FLIGHT_MAX, MessageReplay, ReplayFate
from broker.replay.replay_order import ReplayOrder, read_place
from broker.session.publish import Publisher
from native.content import encode, one
from tests.unit.broker.broker_world import World
from tests.unit.broker.later_turns import LaterTurns
from wire.amqp.tables import decode_properties, encode_properties

ADMIN = Operator("guest", ("administrator",))


def order(**given: Any) -> ReplayOrder:
    return ReplayOrder(**{"vhost": "/", "queue": "orders", "exchange": "", **given})


def logged(sequence: int, key: str = "target", **properties: Any) -> LoggedMessage:
    content = encode(encode_properties(properties), b"body %d" % sequence)
    return LoggedMessage((sequence,), "shop", key, True, 0, "acked", content)


class ReplayWorld:
    """A broker with a queue `target`, and a replay that was begun."""

    def __init__(self, **given: Any) -> None:
        self.world = World()
        self.client = self.world.client()
        self.client.declare("target")
        self.job = MessageReplay(order(**given), self.world.broker, "replay-1")
        session = self.world.broker.open_session(self.world.connect(), self.job, self.world.now)
        self.job.begin(session)

    def publish(self, *messages: LoggedMessage) -> None:
        for message in messages:
            self.job.publish(message, self.world.now)

    def hold_confirms(self) -> list[Receipt]:
        """What the queues owe from now on."""
        owed: list[Receipt] = []
        kind = self.world.kind

        def publish(queues: list[object], run: object, receipt: Receipt | None, now: int) -> None:
            type(kind).publish(kind, queues, run, None, now)  # type: ignore[arg-type]
            if receipt is not None:
                owed.append(receipt)

        kind.publish = publish  # type: ignore[method-assign, assignment]
        return owed


def test_a_replayed_message_is_the_same_and_says_what_it_is_of() -> None:
    replay = ReplayWorld()
    replay.publish(logged(17, message_id="m", headers={"colour": "red"}))
    replay.world.end_turn()
    found = replay.client.properties_of("target")
    assert found["message_id"] == "m"
    assert found["headers"] == {
        "colour": "red", "x-replay-of": "orders", "x-replay-place": "17", "x-replay-end": "acked", "x-replay-id": "replay-1",
    }  # fmt: skip
    assert (replay.job.moved, replay.job.answered_to) == (1, (17,))


def test_what_a_replay_published_is_not_published_again() -> None:
    replay = ReplayWorld()
    replay.publish(logged(1, headers={"x-replay-of": "orders"}), logged(2))
    replay.world.end_turn()
    assert replay.client.bodies_of("target") == [b"body 2"]
    assert (replay.job.fates[ReplayFate.IS_REPLAY], replay.job.answered_to) == (1, (2,))


def test_further_keys_of_the_first_publish_are_no_targets_of_the_replay() -> None:
    made = marked(order(), "1", logged(1, headers={"CC": ["other"], "BCC": ["secret"]})).run
    assert made is not None
    assert set(decode_properties(one(made.content, 0)[0])["headers"]) == {
        "x-replay-of", "x-replay-place", "x-replay-end", "x-replay-id",
    }  # fmt: skip


def test_a_key_of_the_order_goes_before_the_one_of_the_message() -> None:
    replay = ReplayWorld(routing_key="target")
    replay.publish(logged(1, key="elsewhere"))
    replay.world.end_turn()
    assert replay.world.ready("target") == 1


def test_what_no_queue_gets_or_the_log_has_no_more_is_counted_and_passed() -> None:
    replay = ReplayWorld()
    replay.publish(logged(1, key="nowhere"), logged(2)._replace(content=b""), logged(3))
    replay.world.end_turn()
    fates = replay.job.fates
    assert (fates[ReplayFate.UNROUTABLE], fates[ReplayFate.GONE], replay.job.moved) == (1, 1, 1)
    assert replay.job.answered_to == (3,)


def test_it_tells_the_place_before_the_first_that_is_not_confirmed() -> None:
    replay = ReplayWorld(after=(9,))
    owed = replay.hold_confirms()
    replay.publish(logged(10), logged(11), logged(12))
    for receipt in (owed[2], owed[0]):
        receipt.accepted()
        replay.world.end_turn()
    assert (replay.job.moved, replay.job.answered_to, replay.job.under_way) == (2, (10,), 1)
    owed[1].accepted()
    replay.world.end_turn()
    assert replay.job.answered_to == (12,)


def test_what_is_refused_stops_it_before_its_place() -> None:
    replay = ReplayWorld()
    replay.client.declare("full", max_length=1, overflow="reject-publish")
    replay.publish(logged(1, key="full"), logged(2, key="full"))
    replay.world.end_turn()
    assert (replay.job.state, replay.job.answered_to) == (RedriveState.FAILED, (1,))
    assert replay.job.error == "a queue refused a message: exchange '' with their own keys"


def test_an_alarm_stops_it() -> None:
    replay = ReplayWorld()
    replay.world.broker.alarms.raise_alarm("memory", "low on memory", replay.world.now)
    replay.publish(logged(1))
    assert (replay.job.state, replay.job.answered_to, replay.world.ready("target")) == (RedriveState.FAILED, (), 0)


def test_only_so_many_are_under_way() -> None:
    replay = ReplayWorld()
    replay.hold_confirms()
    replay.publish(*map(logged, range(IN_FLIGHT_MAX)))
    assert (replay.job.under_way, replay.job.may_go_on) == (IN_FLIGHT_MAX, False)


def test_what_is_under_way_has_a_bound_in_bytes_that_confirms_give_back() -> None:
    replay, woken = ReplayWorld(), list[bool]()
    replay.job.woken = lambda: woken.append(replay.job.may_go_on)
    owed = replay.hold_confirms()
    large = encode(encode_properties({}), bytes(IN_FLIGHT_BYTES_MAX // 2))
    for sequence in range(1, 5):
        replay.publish(logged(sequence)._replace(content=large))
        assert replay.job.may_go_on is (sequence % 2 == 1)
        if sequence % 2 == 0:
            for receipt in owed[sequence - 2 : sequence]:
                receipt.accepted()
            replay.world.end_turn()
            assert woken[-1], "who waits is called when there is room"
            assert replay.job.may_go_on


def test_nothing_follows_a_message_for_very_many_queues_until_all_have_it() -> None:
    replay, woken = ReplayWorld(exchange="wide"), list[bool]()
    replay.job.woken = lambda: woken.append(replay.job.may_go_on)
    replay.world.broker.queues_per_step = 2
    replay.client.declare_exchange("wide", "fanout")
    for name in "abcdefgh":
        replay.client.declare(name)
        replay.client.bind(name, "wide", "")
    later = LaterTurns(replay.world, steps_max=1)
    replay.publish(logged(1))
    assert not replay.job.may_go_on
    while later.one():
        replay.world.end_turn()
    assert replay.job.may_go_on and True in woken
    assert all(replay.world.ready(name) == 1 for name in "abcdefgh")


def test_what_cannot_be_published_stops_it_with_the_reason() -> None:
    replay = ReplayWorld(exchange="nowhere")
    replay.publish(logged(1))
    assert (replay.job.state, replay.job.error) == (RedriveState.FAILED, "no exchange 'nowhere' in vhost '/'")
    assert (replay.job.answered_to, replay.job.under_way) == ((), 0)


def test_what_not_all_of_very_many_queues_get_stops_it(monkeypatch: pytest.MonkeyPatch) -> None:
    replay, over = ReplayWorld(), Pending[None]()
    publish = Publisher.publish

    def to_many(publisher: Publisher, run: Run, now: int) -> Pending[None]:
        publish(publisher, run, now)
        return over

    monkeypatch.setattr(Publisher, "publish", to_many)
    replay.publish(logged(1))
    over.fail(ResourceExhausted("its disk failed"))
    assert (replay.job.state, replay.job.error) == (RedriveState.FAILED, "its disk failed")
    assert replay.job.may_go_on, "whoever waits for that is not kept"


def test_it_is_done_when_its_log_has_ended() -> None:
    job = ReplayWorld().job
    assert job.is_running
    job.done()
    assert (job.is_running, job.state) == (False, RedriveState.DONE)


def test_it_stays_what_it_ended_as_and_says_the_first_of_its_troubles() -> None:
    replay = ReplayWorld()
    replay.job.fail(ResourceExhausted("first"))
    replay.job.fail(ResourceExhausted("second"))
    replay.job.done()
    assert (replay.job.state, replay.job.error) == (RedriveState.FAILED, "first")
    cancelled = ReplayWorld().job
    cancelled.cancel()
    cancelled.done()
    assert cancelled.state is RedriveState.CANCELLED


def test_it_is_stored_and_routed_by_what_it_says_as_when_it_was_published() -> None:
    replay = ReplayWorld(exchange="amq.headers")
    replay.client.bind("target", "amq.headers", "", colour="red")
    runs: list[Run] = []
    publish = replay.world.kind.publish

    def noted(queues: Any, run: Run, *rest: Any) -> None:
        runs.append(run)
        publish(queues, run, *rest)

    replay.world.kind.publish = noted  # type: ignore[method-assign, assignment]
    made = logged(1, headers={"colour": "red"}, expiration="60000", priority=7)
    replay.publish(made._replace(persistent=False, priority=7), made, logged(2, headers={"colour": "blue"}))
    replay.world.end_turn()
    assert [(run.persistent, run.priority, run.expiration_ms) for run in runs] == [
        (False, 7, 60_000),
        (True, 0, 60_000),
    ]
    assert (replay.job.moved, replay.job.fates[ReplayFate.UNROUTABLE]) == (2, 1)


@pytest.mark.parametrize(
    "properties", [b"\x20\x00\x00\x00\x00\x09", encode_properties({"headers": {"x": "y" * 131_000}})]
)
def test_one_whose_headers_cannot_be_read_or_have_no_room_for_the_marks_is_counted_and_passed(
    properties: bytes,
) -> None:
    replay = ReplayWorld()
    replay.publish(logged(1)._replace(content=encode(properties, b"body")), logged(2))
    replay.world.end_turn()
    assert replay.job.fates[ReplayFate.UNREADABLE] == 1
    assert (replay.job.state, replay.job.answered_to) == (RedriveState.RUNNING, (2,))


@pytest.mark.parametrize(
    "given", [{"ends": ("lost",)}, {"ends": ()}, {"limit": -1}, {"rate": -1}, {"since": 5, "until": 5}]
)
def test_orders_that_mean_nothing_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        order(**given).check()
    with pytest.raises(InvalidRequest):
        Replays(World().broker).forecast(ADMIN, order(**given))


@pytest.mark.parametrize("given", [{}, {"since": 5}, {"until": 5}, {"since": 4, "until": 5}, {"since": 0, "until": 1}])
def test_times_may_be_open_on_both_sides(given: dict[str, Any]) -> None:
    order(**given).check()
    Replays(World().broker).forecast(ADMIN, order(**given))


def test_a_key_that_nothing_can_be_published_with_is_refused() -> None:
    order(routing_key="k" * 255).check()
    with pytest.raises(BrokerError, match="routing key"):
        order(routing_key="k" * 256).check()


@pytest.mark.parametrize(("key", "told"), [(None, "with their own keys"), ("k", "with key 'k'")])
def test_operators_read_where_messages_go(key: str | None, told: str) -> None:
    assert order(exchange="x", routing_key=key).target == f"exchange 'x' {told}"


def test_places_are_those_that_a_replay_tells() -> None:
    assert [read_place(text) for text in ("", "17", "5/31/0")] == [(), (17,), (5, 31, 0)]
    for text in ("5/31", "-1", "x", "٣", "1" * 19, "5/31/" + "1" * 19):
        with pytest.raises(InvalidRequest):
            read_place(text)


def test_only_administrators_are_told_what_the_log_has_and_a_queue_has_one_replay() -> None:
    replays = Replays(World().broker)
    with pytest.raises(AccessRefused):
        replays.admit(Operator("m", ("monitoring",)), order(), 0)
    view = replays.admit(ADMIN, order(), 0)
    with pytest.raises(PreconditionFailed, match="a replay of queue 'orders' runs already"):
        replays.admit(ADMIN, order(), 0)
    replays.ended(view, 5)
    assert (view.job.state, view.job.error) == (RedriveState.FAILED, "it was given up")
