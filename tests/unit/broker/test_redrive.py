"""Redrive: which messages move, where to, and that none is lost whatever refuses them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.actors import LogActor
from broker.errors import (
    AccessRefused,
    BrokerError,
    InvalidRequest,
    NotFound,
    NotSupported,
    PreconditionFailed,
    ResourceExhausted,
)
from broker.login.audit import DONE, REFUSED
from broker.messages.confirms import Receipt
from broker.messages.message import Run
from broker.operations.message_jobs import ENDED_KEPT, RUNNING_MAX
from broker.operations.operator import Operator
from broker.operations.redrives import Redrives
from broker.pending import Pending
from broker.queues.queue_type import Got
from broker.records import ExchangeRecord
from broker.redrive import forecast, redrive
from broker.redrive.counts import CAUSES_MAX, RedriveCause, RedriveCounts
from broker.redrive.forecast import Forecast
from broker.redrive.order import RedriveFate, RedriveOrder, last_death
from broker.redrive.redrive import IN_FLIGHT_MAX, STALL_MS, Redrive, RedriveState
from broker.session.publish import Publisher
from broker.session.session import GotMessage, Session
from tests.contract.memory_queue import MemoryQueue
from tests.unit.broker.broker_world import Client, World, refused
from tests.unit.broker.later_turns import LaterTurns
from tests.unit.broker.vouched.bearers import bearer
from wire.amqp.tables import encode_properties

GUEST = Operator("guest", ("administrator",))


class DeadLetters:
    """Queues `work` and `other`, whose rejected messages go to `dead`."""

    def __init__(self, world: World | None = None) -> None:
        self.world = world or World()
        self.client: Client = self.world.client()
        self.client.declare("dead")
        for name in ("work", "other"):
            self.client.declare(name, dead_letter_exchange="", dead_letter_routing_key="dead")

    def kill(self, *bodies: bytes, queue: str = "work", exchange: str = "") -> None:
        for body in bodies:
            self.client.publish(exchange, queue, body)
            got = self.client.get(queue)
            assert got is not None
            self.client.reject(got.tag)

    def ready(self) -> tuple[int, int, int]:
        return self.world.ready("work"), self.world.ready("other"), self.world.ready("dead")

    # redriving

    def redriving(self, order: RedriveOrder, user: str = "guest") -> Redrive:
        """It has begun, and gets as far as it gets within a turn."""
        connection = self.world.connect(user)
        job = Redrive(order, self.world.broker)
        session = self.world.broker.open_session(connection, job, self.world.now)
        job.begin(session, self.world.now).then(lambda _: session.close(self.world.now), _never)
        self.world.end_turn()
        return job

    def redrive(self, order: RedriveOrder, user: str = "guest") -> Redrive:
        """The same, to its end."""
        job = self.redriving(order, user)
        for _ in range(1_000):
            if job.over.answered:
                break
            self.world.end_turn()
        assert job.over.answered, "it has no end"
        self.world.end_turn()
        return job

    def forecast(self, order: RedriveOrder) -> RedriveCounts:
        session: Session = self.client.session
        return self.world.answer(Forecast(order, self.world.broker).begin(session, self.world.now))


def _never(error: Exception) -> None:
    raise AssertionError(f"a redrive that is over has failed: {error}")


@pytest.fixture
def letters() -> DeadLetters:
    return DeadLetters()


def order(**given: object) -> RedriveOrder:
    return RedriveOrder("/", "dead", **given)  # type: ignore[arg-type]


# where messages go


def test_messages_go_back_to_the_queues_in_which_they_died(letters: DeadLetters) -> None:
    letters.kill(b"one", b"two")
    letters.kill(b"three", queue="other")
    job = letters.redrive(order())
    assert (job.state, job.moved, letters.ready()) == (RedriveState.DONE, 3, (2, 1, 0))
    assert letters.client.bodies_of("work") == [b"one", b"two"]


def test_a_redriven_message_has_no_history_and_dies_as_for_the_first_time(letters: DeadLetters) -> None:
    letters.kill(b"one")
    letters.redrive(order())
    got = letters.client.get("work")
    assert got is not None
    letters.client.reject(got.tag)
    (death,) = letters.client.properties_of("dead")["headers"]["x-death"]
    assert (death["queue"], death["count"]) == ("work", 1)


def test_messages_go_to_an_exchange_with_the_keys_that_they_were_published_with(letters: DeadLetters) -> None:
    letters.client.declare_exchange("retry", "topic")
    letters.client.declare("orders")
    letters.client.bind("orders", "retry", "work")
    letters.kill(b"one")
    letters.kill(b"two", queue="other")
    job = letters.redrive(order(exchange="retry"))
    assert (job.moved, job.counts.by_fate[RedriveFate.UNROUTABLE]) == (1, 1)
    assert (letters.world.ready("orders"), letters.world.ready("dead")) == (1, 1)


def test_messages_go_to_an_exchange_with_one_key(letters: DeadLetters) -> None:
    letters.client.declare("parked")
    letters.kill(b"one")
    assert letters.redrive(order(exchange="", routing_key="parked")).moved == 1
    assert letters.world.ready("parked") == 1


def test_a_message_that_never_died_stays_unless_an_exchange_is_named(letters: DeadLetters) -> None:
    letters.client.publish("", "dead", b"sent here")
    job = letters.redrive(order())
    assert (job.moved, job.counts.by_fate[RedriveFate.NO_DEATH], letters.world.ready("dead")) == (0, 1, 1)
    assert letters.redrive(order(exchange="", routing_key="work")).moved == 1


def test_a_message_that_never_died_goes_with_the_key_that_it_has(letters: DeadLetters) -> None:
    letters.client.declare_exchange("retry", "topic")
    letters.client.declare("orders")
    letters.client.bind("orders", "retry", "dead")
    letters.client.publish("", "dead", b"sent here")
    assert letters.redrive(order(exchange="retry")).moved == 1
    assert letters.client.bodies_of("orders") == [b"sent here"]


def test_a_message_that_would_come_back_stays(letters: DeadLetters) -> None:
    letters.kill(b"one")
    job = letters.redrive(order(exchange="", routing_key="dead"))
    assert (job.state, job.moved, job.counts.by_fate[RedriveFate.COMES_BACK]) == (RedriveState.DONE, 0, 1)


def test_a_header_decides_where_an_exchange_of_headers_has_it_go(letters: DeadLetters) -> None:
    letters.client.declare_exchange("by-header", "headers")
    letters.client.declare("red")
    letters.world.answer(
        letters.client.session.topology.bind_queue("red", "by-header", "", {"colour": "red"}, letters.world.now)
    )
    for colour in ("red", "blue"):
        letters.client.publish("", "work", colour.encode(), headers={"colour": colour})
        got = letters.client.get("work")
        assert got is not None
        letters.client.reject(got.tag)
    job = letters.redrive(order(exchange="by-header"))
    assert (job.moved, letters.client.bodies_of("red"), letters.client.bodies_of("dead")) == (1, [b"red"], [b"blue"])


# which messages


def test_filters_leave_others_where_they_are_and_as_they_are(letters: DeadLetters) -> None:
    letters.client.publish("", "dead", b"sent here")
    letters.kill(b"two")
    letters.kill(b"three", queue="other")
    job = letters.redrive(order(died_in="other"))
    assert (job.moved, job.counts.by_fate[RedriveFate.FILTERED], letters.ready()) == (1, 2, (0, 1, 2))
    got = letters.client.get("dead")
    assert got is not None and not got.piece.redelivered
    assert letters.redrive(order(reason="expired")).moved == 0


@pytest.mark.parametrize("given", [{"reason": "rejected"}, {"died_in": "work"}])
def test_a_message_that_never_died_did_not_die_as_a_filter_says(letters: DeadLetters, given: dict[str, str]) -> None:
    letters.client.publish("", "dead", b"sent here")
    job = letters.redrive(order(exchange="", routing_key="work", **given))
    assert (job.moved, job.counts.by_fate[RedriveFate.FILTERED], letters.world.ready("dead")) == (0, 1, 1)


def test_what_has_a_time_to_live_has_it_where_it_goes(letters: DeadLetters) -> None:
    letters.client.publish("", "dead", b"one", expiration="60000")
    assert letters.redrive(order(exchange="", routing_key="work")).moved == 1
    letters.world.pass_ms(59_000)
    assert letters.world.ready("work") == 1
    letters.world.pass_ms(1_001)
    assert letters.world.ready("work") == 0


def test_a_limit_counts_what_is_moved_and_not_what_is_passed_over(letters: DeadLetters) -> None:
    letters.kill(b"other", queue="other")
    letters.kill(b"one", b"two", b"three")
    job = letters.redrive(order(died_in="work", limit=2))
    assert (job.moved, letters.client.bodies_of("work"), letters.client.bodies_of("dead")) == (
        2,
        [b"one", b"two"],
        [b"other", b"three"],
    )


def test_messages_that_die_again_meanwhile_are_not_moved_again(letters: DeadLetters) -> None:
    letters.client.declare("refuses", max_length=0, dead_letter_exchange="", dead_letter_routing_key="dead")
    letters.kill(b"one", b"two")
    job = letters.redrive(order(exchange="", routing_key="refuses"))
    assert job.state is RedriveState.DONE and job.moved <= 2 and letters.world.ready("dead") == 2


def test_more_messages_than_may_be_under_way_are_all_moved(letters: DeadLetters) -> None:
    letters.kill(*(b"%d" % number for number in range(IN_FLIGHT_MAX * 3 + 7)))
    assert letters.redrive(order()).moved == IN_FLIGHT_MAX * 3 + 7


# dry runs


def test_a_dry_run_counts_by_cause_and_target_and_changes_nothing(letters: DeadLetters) -> None:
    letters.kill(b"one", b"two")
    letters.kill(b"three", queue="other")
    letters.client.delete("other")
    counts = letters.forecast(order())
    assert counts.causes == {
        RedriveCause(RedriveFate.MOVES, "rejected", "work", "", "work", "", "work"): 2,
        RedriveCause(RedriveFate.UNROUTABLE, "rejected", "other", "", "other", "", "other"): 1,
    }
    assert (counts.ready, letters.world.ready("dead"), letters.world.ready("work")) == (3, 3, 0)


def test_a_dry_run_ends_at_the_limit(letters: DeadLetters) -> None:
    letters.kill(b"one", b"two", b"three")
    assert letters.forecast(order(limit=2)).seen == 2


def test_a_dry_run_looks_at_so_many_and_no_more(letters: DeadLetters, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forecast, "SEEN_MAX", 2)
    letters.kill(b"one", b"two", b"three")
    counts = letters.forecast(order())
    assert (counts.seen, counts.ready) == (2, 3)


@pytest.mark.parametrize(
    ("given", "target"),
    [
        ({}, "where they died"),
        ({"exchange": "x"}, "exchange 'x' with their own keys"),
        ({"exchange": "x", "routing_key": "k"}, "exchange 'x' with key 'k'"),
    ],
)
def test_operators_read_where_messages_go(given: dict[str, str], target: str) -> None:
    assert order(**given).target == target


def test_causes_are_told_apart_up_to_a_number(letters: DeadLetters) -> None:
    for number in range(CAUSES_MAX + 3):
        letters.client.publish("", "dead", b"")
        letters.client.declare(f"q{number}", dead_letter_exchange="", dead_letter_routing_key="dead")
        letters.kill(b"", queue=f"q{number}")
    causes = letters.forecast(order()).causes
    assert len(causes) == CAUSES_MAX + 1
    assert sum(causes.values()) == 2 * (CAUSES_MAX + 3)


# nothing is lost


def late_letters() -> tuple[DeadLetters, list[Receipt]]:
    letters = DeadLetters()
    letters.kill(b"one", b"two")
    owed: list[Receipt] = []
    kind = letters.world.kind

    def publish(queues: list[object], run: object, receipt: Receipt | None, now: int) -> None:
        type(kind).publish(kind, queues, run, None, now)  # type: ignore[arg-type]
        if receipt is not None:
            owed.append(receipt)

    kind.publish = publish  # type: ignore[method-assign, assignment]
    return letters, owed


def test_a_message_stays_out_until_its_target_has_confirmed() -> None:
    letters, owed = late_letters()
    job = letters.redriving(order())
    letters.world.end_turn()
    assert (job.moved, job.over.answered, len(owed)) == (0, False, 2)
    letters.world.disconnect(letters.client)
    for receipt in owed:
        receipt.accepted()
    letters.world.end_turn()
    letters.world.end_turn()
    assert (job.moved, job.state) == (2, RedriveState.DONE)


def test_a_refused_message_is_back_in_its_place_and_the_rest_is_not_tried(letters: DeadLetters) -> None:
    letters.client.declare("full", max_length=1, overflow="reject-publish")
    letters.kill(b"one", b"two", b"three")
    job = letters.redrive(order(exchange="", routing_key="full"))
    assert (job.state, job.moved) == (RedriveState.FAILED, 1)
    assert job.error == "a queue refused a message: exchange '', key 'full'"
    assert letters.client.bodies_of("dead") == [b"two", b"three"]


def test_without_an_answer_it_ends_and_what_is_unconfirmed_returns() -> None:
    letters, _ = late_letters()
    job = letters.redriving(order())
    letters.world.pass_ms(STALL_MS + 1)
    letters.world.pass_ms(STALL_MS + 1)
    letters.world.end_turn()
    assert (job.state, job.error) == (
        RedriveState.FAILED,
        "no queue has answered for 30 s: 0 gets and 2 publishes are open",
    )
    assert letters.world.ready("dead") == 2


def test_cancelled_it_finishes_what_is_under_way() -> None:
    letters, owed = late_letters()
    letters.kill(*[b"more"] * IN_FLIGHT_MAX)
    job = letters.redriving(order())
    job.cancel()
    letters.world.end_turn()
    assert not job.over.answered
    for receipt in owed:
        receipt.accepted()
    letters.world.end_turn()
    letters.world.end_turn()
    assert (job.state, job.moved, letters.world.ready("dead")) == (RedriveState.CANCELLED, IN_FLIGHT_MAX, 2)


def test_an_alarm_stops_it(letters: DeadLetters) -> None:
    letters.kill(b"one")
    letters.world.broker.alarms.raise_alarm("memory", "low on memory", letters.world.now)
    job = letters.redrive(order())
    assert (job.state, job.moved, letters.world.ready("dead")) == (RedriveState.FAILED, 0, 1)
    assert job.error == "publishers are held: low on memory. Redrive again when that is over"


def test_what_comes_back_unroutable_all_the_same_stays_where_it_was(
    letters: DeadLetters, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A queue that goes between the look and the publish: acknowledged, the message would be in no queue."""
    letters.kill(b"gone", queue="other")
    letters.kill(b"one")
    letters.client.delete("other")
    monkeypatch.setattr(Publisher, "queues_of", lambda publisher, run: ["some"])
    job = letters.redrive(order())
    assert (job.state, job.moved, job.counts.by_fate[RedriveFate.UNROUTABLE]) == (RedriveState.DONE, 1, 1)
    assert (letters.client.bodies_of("work"), letters.client.bodies_of("dead")) == ([b"one"], [b"gone"])


class LateGets:
    """Gets of all queues are answered when the test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.owed: list[tuple[Pending[Got | None], Pending[Got | None]]] = []
        get = MemoryQueue.get

        def late(queue: MemoryQueue, no_ack: bool, now: int, actor: LogActor) -> Pending[Got | None]:
            answer: Pending[Got | None] = Pending()
            self.owed.append((get(queue, no_ack, now, actor), answer))
            return answer

        monkeypatch.setattr(MemoryQueue, "get", late)

    def answer(self) -> None:
        found, answer = self.owed.pop(0)
        found.then(answer.resolve, answer.fail)


def test_it_is_not_over_while_a_message_is_on_its_way_to_it(
    letters: DeadLetters, monkeypatch: pytest.MonkeyPatch
) -> None:
    letters.kill(b"one", b"two")
    late = LateGets(monkeypatch)
    job = letters.redriving(order())
    late.answer()
    letters.world.end_turn()
    letters.world.end_turn()
    assert (job.moved, job.over.answered) == (1, False)
    late.answer()
    letters.world.end_turn()
    letters.world.end_turn()
    assert (job.moved, job.state, job.over.answered) == (2, RedriveState.DONE, True)


def test_where_others_have_taken_the_rest_it_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    letters, owed = late_letters()
    monkeypatch.setattr(redrive, "IN_FLIGHT_MAX", 1)
    job = letters.redriving(order())
    assert (job.counts.ready, len(owed)) == (2, 1)
    letters.client.purge("dead")
    owed[0].accepted()
    for _ in range(3):
        letters.world.end_turn()
    assert (job.state, job.over.answered, job.moved) == (RedriveState.DONE, True, 1)


@pytest.mark.parametrize("at_once", [True, False])
def test_a_queue_that_cannot_be_read_ends_it_with_the_reason(
    letters: DeadLetters, monkeypatch: pytest.MonkeyPatch, at_once: bool
) -> None:
    letters.kill(b"one")
    error = ResourceExhausted("its disk failed")

    def get(*_: object) -> Pending[GotMessage | None]:
        if at_once:
            raise error
        return Pending.failed(error)

    monkeypatch.setattr(Session, "get", get)
    job = letters.redrive(order())
    assert (job.state, job.error) == (RedriveState.FAILED, "its disk failed")


def test_one_that_moves_slowly_has_not_stalled() -> None:
    letters, owed = late_letters()
    letters.kill(b"three", b"four", b"five")
    job = letters.redriving(order())
    assert len(owed) > 3
    for receipt in list(owed):
        letters.world.pass_ms(STALL_MS * 3 // 4)
        receipt.accepted()
        letters.world.end_turn()
    assert job.state is not RedriveState.FAILED, job.error


def test_one_that_is_over_is_not_said_to_stall(letters: DeadLetters) -> None:
    letters.kill(b"one")
    job = letters.redrive(order())
    for _ in range(3):
        letters.world.pass_ms(STALL_MS + 1)
    assert (job.state, job.error) == (RedriveState.DONE, "")


def test_it_stays_what_it_ended_as_and_says_the_first_of_its_troubles() -> None:
    letters, _ = late_letters()
    job = letters.redriving(order())
    job.fail(ResourceExhausted("first"))
    job.fail(ResourceExhausted("second"))
    job.cancel()
    assert (job.state, job.error) == (RedriveState.FAILED, "first")


# how much at a time


def test_what_is_under_way_has_a_bound_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    letters, owed = late_letters()
    monkeypatch.setattr(redrive, "IN_FLIGHT_BYTES_MAX", 1)
    job = letters.redriving(order())
    assert (len(owed), job.moved) == (1, 0), "one is moved whatever its size"
    owed[0].accepted()
    for _ in range(3):
        letters.world.end_turn()
    assert (len(owed), job.moved) == (2, 1)


def test_what_is_passed_over_is_held_up_to_a_number(letters: DeadLetters, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redrive, "HELD_MAX", 2)
    letters.kill(b"one", b"two", b"three", b"four")
    job = letters.redrive(order(reason="expired"))
    assert (job.state, job.counts.by_fate[RedriveFate.FILTERED]) == (RedriveState.FAILED, 2)
    assert job.error == "2 messages were passed over, and no more can be held: filter less, or purge"
    assert letters.client.bodies_of("dead") == [b"one", b"two", b"three", b"four"]


def wide(letters: DeadLetters) -> list[str]:
    """Queues that get all that is published to the exchange `wide`, two in each step."""
    letters.world.broker.queues_per_step = 2
    letters.client.declare_exchange("wide", "fanout")
    names = list("abcdefgh")
    for name in names:
        letters.client.declare(name)
        letters.client.bind(name, "wide", "")
    return names


def test_nothing_follows_a_message_for_very_many_queues_until_all_have_it(letters: DeadLetters) -> None:
    """And it is not over before: it was, where the message was confirmed a turn before its last step, with the rest unmoved."""
    names = wide(letters)
    letters.kill(b"one", b"two")
    later = LaterTurns(letters.world, steps_max=1)
    job = letters.redriving(order(exchange="wide"))
    while letters.world.ready("a") == 0:
        assert later.one()
    assert letters.world.ready("dead") == 1, "the next one was not got"
    while later.one():
        letters.world.end_turn()
    assert (job.state, job.moved) == (RedriveState.DONE, 2)
    assert all(letters.client.bodies_of(name) == [b"one", b"two"] for name in names)


@pytest.mark.parametrize("ended", [False, True], ids=["running", "cancelled"])
def test_it_ends_where_not_all_of_very_many_queues_get_a_message(
    letters: DeadLetters, monkeypatch: pytest.MonkeyPatch, ended: bool
) -> None:
    letters.kill(b"one")
    over: Pending[None] = Pending()
    publish = Publisher.publish

    def to_many(publisher: Publisher, run: Run, now: int) -> Pending[None]:
        publish(publisher, run, now)
        return over

    monkeypatch.setattr(Publisher, "publish", to_many)
    job = letters.redriving(order())
    for _ in range(3):
        letters.world.end_turn()
    if ended:
        job.cancel()
    assert not job.over.answered
    over.fail(ResourceExhausted("its disk failed"))
    letters.world.end_turn()
    assert job.over.answered
    assert job.error == "its disk failed"
    assert job.state is (RedriveState.CANCELLED if ended else RedriveState.FAILED)


# what is refused


def test_orders_that_mean_nothing_are_refused() -> None:
    refused(
        InvalidRequest,
        "reason is one of rejected, expired, maxlen, delivery_limit, not 'bored'",
        lambda: order(reason="bored").check(),
    )
    with pytest.raises(InvalidRequest):
        order(routing_key="k").check()
    with pytest.raises(InvalidRequest):
        order(limit=-1).check()
    with pytest.raises(BrokerError, match="routing key"):
        order(exchange="", routing_key="k" * 256).check()


def test_a_dry_run_refuses_what_a_redrive_would(letters: DeadLetters, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidRequest):
        letters.forecast(order(limit=-1))
    letters.kill(b"one")
    refused(NotFound, "no exchange 'nowhere' in vhost '/'", lambda: letters.forecast(order(exchange="nowhere")))
    stream = replace(letters.world.broker.queue("/", "dead").record, kind="stream")
    monkeypatch.setattr(letters.world.broker.queue("/", "dead"), "record", stream)
    with pytest.raises(NotSupported):
        letters.forecast(order())


def test_a_user_redrives_what_they_may_read_to_where_they_may_write(letters: DeadLetters) -> None:
    letters.kill(b"one")
    letters.world.add_user("reader", write="^$")
    letters.world.add_user("writer", read="^$")
    job = letters.redrive(order(), "reader")
    assert (job.state, job.moved, letters.world.ready("dead")) == (RedriveState.FAILED, 0, 1)
    with pytest.raises(AccessRefused):
        letters.redriving(order(), "writer")


def test_queues_and_exchanges_must_be_there(letters: DeadLetters) -> None:
    letters.kill(b"one")
    with pytest.raises(NotFound):
        letters.redriving(RedriveOrder("/", "nowhere"))
    job = letters.redrive(order(exchange="gone"))
    assert (job.state, letters.world.ready("dead")) == (RedriveState.FAILED, 1)
    assert ExchangeRecord("/", "gone", "direct").name in job.error


def test_a_stream_is_not_redriven(letters: DeadLetters, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = letters.world.broker.queue("/", "dead")
    monkeypatch.setattr(queue, "record", replace(queue.record, kind="stream"))
    with pytest.raises(NotSupported, match="is a stream: nothing can be taken out of it"):
        letters.redriving(order())


def test_headers_that_nobody_can_read_tell_of_no_death() -> None:
    assert last_death(encode_properties({})) is None
    assert last_death(encode_properties({"headers": {"a": 1}})) is None


# those of a node


def test_one_queue_is_redriven_once_at_a_time_and_a_node_has_a_few() -> None:
    letters = DeadLetters()
    redrives = Redrives(letters.world.broker)
    view = redrives.admit(GUEST, order(), 1)
    with pytest.raises(PreconditionFailed, match=r"a redrive of queue 'dead' runs already"):
        redrives.admit(GUEST, order(), 1)
    for number in range(RUNNING_MAX - 1):
        redrives.admit(GUEST, RedriveOrder("/", f"q{number}"), 1)
    with pytest.raises(ResourceExhausted):
        redrives.admit(GUEST, RedriveOrder("/", "more"), 1)
    redrives.ended(view, 2)
    assert redrives.admit(GUEST, order(), 3).id != view.id


def test_a_redrive_is_cancelled_by_its_operator_or_an_administrator() -> None:
    letters = DeadLetters()
    redrives = Redrives(letters.world.broker)
    view = redrives.admit(GUEST, order(), 1)
    for stranger in (Operator("other", ("management",)), Operator.of(bearer(GUEST.name, "tag:management"))):
        with pytest.raises(NotFound):
            redrives.cancel(stranger, view.id)
    with pytest.raises(NotFound):
        redrives.cancel(GUEST, "none")
    redrives.cancel(GUEST, view.id)
    assert view.job.state is RedriveState.CANCELLED
    redrives.ended(view, 2)
    owner = Operator("owner", ("management",))
    for who in (owner, Operator("admin", ("administrator",))):
        view = redrives.admit(owner, order(), 1)
        redrives.cancel(who, view.id)
        assert view.job.state is RedriveState.CANCELLED
        redrives.ended(view, 2)


def test_what_became_of_a_redrive_is_in_the_audit(letters: DeadLetters) -> None:
    redrives = Redrives(letters.world.broker)
    cancelled = redrives.admit(GUEST, order(), 1)
    redrives.cancel(GUEST, cancelled.id)
    redrives.ended(cancelled, 2)
    given_up = redrives.admit(GUEST, order(), 3)
    redrives.ended(given_up, 4)
    assert (cancelled.job.state, cancelled.job.error) == (RedriveState.CANCELLED, "")
    assert (given_up.job.state, given_up.job.error) == (RedriveState.FAILED, "it was given up")
    lines = [one for one in (line for _, line in letters.world.broker.audit.lines.after(0)) if one.kind == "Redrive"]
    what = "redrive queue 'dead' in vhost '/' to where they died"
    assert sorted((one.what, one.outcome, one.why) for one in lines) == [
        (f"{what}: cancelled, 0 moved", DONE, ""),
        (f"{what}: failed, 0 moved", REFUSED, "it was given up"),
    ]


def test_one_that_runs_is_kept_however_many_have_ended(letters: DeadLetters) -> None:
    redrives = Redrives(letters.world.broker)
    running = redrives.admit(GUEST, order(), 0)
    for number in range(ENDED_KEPT + 2):
        redrives.ended(redrives.admit(GUEST, RedriveOrder("/", "work"), number), number + 1)
    assert [one.id for one in redrives.all(GUEST)][-1] == running.id


def test_redrives_are_seen_by_who_may_see_their_vhost_the_newest_first_and_the_last_that_ended_are_kept() -> None:
    letters = DeadLetters()
    redrives = Redrives(letters.world.broker)
    views = []
    for number in range(ENDED_KEPT + 2):
        views.append(redrives.admit(GUEST, order(), number))
        redrives.ended(views[-1], number + 1)
    running = redrives.admit(GUEST, order(), 100)
    kept = [running.id, *(one.id for one in reversed(views[2:]))]
    assert [one.id for one in redrives.all(GUEST)] == kept
    assert [one.id for one in redrives.all(Operator("other", ("monitoring",)))] == kept
    assert list(redrives.all(Operator("other", ("management",)))) == []
