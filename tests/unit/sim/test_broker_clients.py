"""What clients of simulated brokers do besides publishing to one queue: it happens, and a broker that gets it wrong is caught.

The plans are written by hand and have no faults, so that they are small, and reach what they are for whatever changes.
"""

from __future__ import annotations

from typing import Any

import pytest

from broker.confirms import Receipt
from broker.publish import Publishing
from broker.session import Session
from broker.transactions import Completion
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
    def hand_over_at_once(session: Any, run: Any, target: Any, now: int) -> None:
        session._hand_over(run, target, None, now)

    monkeypatch.setattr(Publishing, "_pass_on", hand_over_at_once)
    assert transactions().invariant == "uncommitted_is_nowhere"


def test_nothing_is_settled_before_its_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    settle = Session._settle

    def settle_at_once(session: Any, *arguments: Any) -> None:
        transaction, session._transaction = session._transaction, None
        settle(session, *arguments)
        session._transaction = transaction

    monkeypatch.setattr(Session, "_settle", settle_at_once)
    assert transactions().invariant == "only_what_was_acknowledged_is_gone"


def test_a_big_campaign_must_reach_all_of_this() -> None:
    reached = {**several_queues("topic").counted, **transactions().counted}
    own = [path for path in RARE_PATHS if path.startswith(("message to several", "transaction", "settlements"))]
    assert len(own) == 7
    assert [path for path in own if not reached.get(path)] == []
