"""Redrive: which messages move, where to, and that none is lost whatever refuses them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.errors import AccessRefused, InvalidRequest, NotFound, NotSupported, PreconditionFailed, ResourceExhausted
from broker.messages.confirms import Receipt
from broker.operations.message_jobs import ENDED_KEPT, RUNNING_MAX
from broker.operations.operator import Operator
from broker.operations.redrives import Redrives
from broker.records import ExchangeRecord
from broker.redrive.counts import CAUSES_MAX, RedriveCause, RedriveCounts
from broker.redrive.forecast import Forecast
from broker.redrive.order import RedriveFate, RedriveOrder, last_death
from broker.redrive.redrive import IN_FLIGHT_MAX, STALL_MS, Redrive, RedriveState
from broker.session.session import Session
from tests.unit.broker.broker_world import Client, World, refused
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
    redrives.cancel(GUEST, view.id)
    assert view.job.state is RedriveState.CANCELLED


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
