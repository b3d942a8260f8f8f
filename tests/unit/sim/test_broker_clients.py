"""What clients of simulated brokers do besides publishing to one queue: it happens, and a broker that gets it wrong is caught.

The plans are written by hand and have no faults, so that they are small, and reach what they are for whatever changes.
"""

from __future__ import annotations

from typing import Any

import pytest

from broker.broker import Broker
from broker.catalog import catalog as catalog_module
from broker.catalog.catalog import Catalog
from broker.catalog.commands.catalog_commands import DeclareQueue
from broker.messages.confirms import Receipt
from broker.queues.queue_type import Arrival
from broker.session.publish import Publisher
from broker.session.session import Session
from broker.session.transactions import Completion
from quorum.dead_letters import DeadLetterWorker
from tests.sim.brokers.layer import RARE_PATHS
from tests.sim.brokers.plan import CAST_KEYS, EVERYWHERE, BrokerShape
from tests.sim.plan import Ask, Plan
from tests.sim.run import Outcome, run

SECONDS = 24.0
ASKED_UNTIL_S = 9.0


def outcome_of(shape: BrokerShape, *kinds: tuple[int, str, str], every_s: float = 0.2) -> Outcome:
    """Each of (client, what it asks for, of what), again and again."""
    times = [0.3 + every_s * at for at in range(int(ASKED_UNTIL_S / every_s))]
    asks = [Ask(round(at, 3), client, 0, kind, key, 20) for at in times for client, kind, key in kinds]
    return run(Plan(1, shape, (), tuple(asks), "brokers"))


def several_queues(cast_by: str) -> Outcome:
    shape = BrokerShape(
        seconds=SECONDS, groups=0, queues="plain+full", classics="classic-full", publishers=1, takers=2,
        cast="plain+full+classic-full", cast_by=cast_by,
    )  # fmt: skip
    return outcome_of(shape, (1, "publish", EVERYWHERE), (1, "consume", "full"), (2, "consume", "classic-full"))


def transactions() -> Outcome:
    shape = BrokerShape(
        seconds=SECONDS, groups=0, queues="plain+full", classics="classic-plain", publishers=1, takers=2,
        cast="plain+full", committers=1, settlers=1,
    )  # fmt: skip
    return outcome_of(
        shape,
        (2, "publish", EVERYWHERE),
        (2, "publish", "classic-plain"),
        (1, "get", "full"),
        (3, "consume", "plain"),
    )


def refused_dead_letters(*queues: str) -> Outcome:
    """Nobody consumes what they go to, and an exchange that some go through comes and goes. One queue has a consumer, which
    rejects now and then; from the others all expires."""
    shape = BrokerShape(seconds=SECONDS, groups=0, queues="+".join(queues), publishers=1, takers=1)
    asks = ((1, "publish", queue) for queue in queues)
    return outcome_of(shape, *asks, (1, "consume", "refused" if "refused" in queues else "dead"), (1, "graves", "dead"))


def queue_that_comes_and_goes(name: str, lives: int = 3) -> Outcome:
    """It is deleted with messages in it, ready and out to a consumer."""
    shape = BrokerShape(seconds=SECONDS, groups=0, guests=name, publishers=2, takers=2)
    asks = []
    for at in (0.3 + 2.4 * life for life in range(lives)):
        kinds = ("declare", "publish", "consume", "burst", "publish", "publish", "delete", "publish")
        asks += [Ask(round(at + 0.3 * step, 3), 1, 0, kind, name, 20) for step, kind in enumerate(kinds)]
        asks += [Ask(round(at + 0.2 * step, 3), 2, 0, "publish", name, 20) for step in range(12)]
    asks.append(Ask(2.4 * lives + 0.5, 1, 0, "declare", name, 20))
    asks += [Ask(2.4 * lives + 1 + 0.1 * step, 1, 0, "publish", name, 20) for step in range(5)]
    return run(Plan(1, shape, (), tuple(asks), "brokers"))


@pytest.mark.parametrize("cast_by", CAST_KEYS)
def test_messages_go_to_several_queues_and_are_confirmed_by_all(cast_by: str) -> None:
    outcome = several_queues(cast_by)
    assert outcome.is_good, outcome.message
    assert outcome.counted["message to several queues confirmed"] > 10
    assert outcome.counted["message to several queues refused"] > 10, "a queue that is full has others that are not"
    assert outcome.checked["confirmed_by_every_queue"] == outcome.counted["message to several queues confirmed"]


def test_a_run_that_one_of_several_queues_refused_is_not_confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Receipt, "refused", Receipt.accepted)
    assert several_queues("fanout").invariant == "confirmed_by_every_queue"


def test_transactions_are_committed_and_rolled_back() -> None:
    outcome = transactions()
    assert outcome.is_good, outcome.message
    for path in ("transaction committed", "transaction rolled back", "transaction refused in part"):
        assert outcome.counted.get(path), path
    for path in ("settlements committed", "settlements rolled back"):
        assert outcome.counted.get(path), path
    assert outcome.checked["committed_as_a_whole"] == outcome.counted["transaction committed"]


def test_a_commit_is_not_answered_well_when_a_queue_refused_some_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Completion, "answered", lambda completion, receipt: completion.close())
    assert transactions().invariant == "committed_as_a_whole"


def test_nothing_is_stored_before_its_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    def hand_over_at_once(publisher: Any, run: Any, target: Any, now: int) -> None:
        publisher._hand_over(run, target, None, now)

    monkeypatch.setattr(Publisher, "_pass_on", hand_over_at_once)
    assert transactions().invariant == "uncommitted_is_nowhere"


def test_nothing_is_settled_before_its_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    settle = Session._settle

    def settle_at_once(session: Any, *arguments: Any) -> None:
        transactions = session._transactions
        current, transactions.current = transactions.current, None
        settle(session, *arguments)
        transactions.current = current

    monkeypatch.setattr(Session, "_settle", settle_at_once)
    assert transactions().invariant == "only_what_was_acknowledged_is_gone"


def test_dead_letters_that_are_refused_stay_or_are_dropped_and_come_no_more_often_than_promised() -> None:
    outcome = refused_dead_letters("refused", "refused-late", "refused-far", "refused-once", "buried")
    assert outcome.is_good, outcome.message
    for strategy in ("least", "most"):
        assert outcome.counted[f"dead letter at {strategy} once is refused"] > 10
    for answer in ("arrived", "refused", "nowhere"):
        assert outcome.counted[f"dead letter {answer}"] > 10
    assert outcome.checked["dead_letters_leave_when_they_have_arrived"] > 10
    assert outcome.checked["at_most_once_is_not_twice"] > 0


@pytest.mark.parametrize("queue", ["refused-late", "refused-far"])
def test_a_dead_letter_that_its_target_refused_has_not_arrived(queue: str, monkeypatch: pytest.MonkeyPatch) -> None:
    published = DeadLetterWorker._published

    def given_up(worker: DeadLetterWorker, number: int, arrived: Arrival) -> None:
        published(worker, number, Arrival.ARRIVED if arrived is Arrival.REFUSED else arrived)

    monkeypatch.setattr(DeadLetterWorker, "_published", given_up)
    assert refused_dead_letters(queue).invariant == "dead_letters_leave_when_they_have_arrived"


def test_a_dead_letter_without_its_exchange_has_not_arrived(monkeypatch: pytest.MonkeyPatch) -> None:
    published = DeadLetterWorker._published

    def given_up(worker: DeadLetterWorker, number: int, arrived: Arrival) -> None:
        published(worker, number, Arrival.ARRIVED)

    monkeypatch.setattr(DeadLetterWorker, "_published", given_up)
    assert refused_dead_letters("buried").invariant == "dead_letters_leave_when_they_have_arrived"


def test_a_dead_letter_at_most_once_is_not_published_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    dead_letter = Broker.dead_letter

    def twice(broker: Broker, *arguments: Any) -> None:
        dead_letter(broker, *arguments)
        dead_letter(broker, *arguments)

    monkeypatch.setattr(Broker, "dead_letter", twice)
    assert refused_dead_letters("refused-once").invariant == "at_most_once_is_not_twice"


@pytest.mark.parametrize("name", ["guest", "classic-guest"])
def test_queues_come_and_go_and_nothing_of_a_former_life_comes_out(name: str) -> None:
    outcome = queue_that_comes_and_goes(name)
    assert outcome.is_good, outcome.message
    assert outcome.counted["queue declared again"] == 3
    assert outcome.counted["message of a later life confirmed"] > 10
    assert outcome.counted["message returned"] > 0, "while it does not exist"
    checked = "nothing_comes_of_another_life" if name == "classic-guest" else "delivered_is_checked_out"
    assert outcome.checked[checked] > 10


def test_a_number_that_another_queue_had_is_not_given_again(monkeypatch: pytest.MonkeyPatch) -> None:
    declare = Catalog._declare_queue

    def again(catalog: Catalog, command: Any) -> Any:
        catalog.next_queue_id = 1 + max((record.id for record in catalog.queues("/")), default=0)
        return declare(catalog, command)

    monkeypatch.setitem(catalog_module._APPLY, DeclareQueue, again)
    assert queue_that_comes_and_goes("guest").invariant == "lives_have_numbers_of_their_own"


def test_a_big_campaign_must_reach_all_of_this() -> None:
    reached = {
        **several_queues("topic").counted,
        **transactions().counted,
        **refused_dead_letters("refused", "refused-once", "buried").counted,
        **queue_that_comes_and_goes("guest").counted,
    }
    begins = (
        "message to several",
        "message of a later life",
        "transaction",
        "settlements",
        "dead letter",
        "queue declared",
    )
    own = [path for path in RARE_PATHS if path.startswith(begins)]
    assert len(own) == 13
    assert [path for path in own if not reached.get(path)] == []
