"""A publish to more queues than a turn has room for: they get it over several, and nothing overtakes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from broker.background_work import BackgroundWork
from broker.catalog.commands import catalog_commands as commands
from broker.errors import PreconditionFailed, ResourceExhausted
from broker.messages.confirms import Receipt
from broker.messages.message import Run
from broker.names import becoming_queue
from broker.pending import Pending
from broker.queues.queue_type import Queue
from native.content import encode
from tests.unit.broker.broker_world import Client, World
from tests.unit.broker.later_turns import LaterTurns

QUEUES = [f"q{number}" for number in range(10)]


class Wide:
    """A fanout exchange with queues that get two at a time what is published; each turn has room for one such step."""

    def __init__(self) -> None:
        self.world = World()
        self.world.broker.queues_per_step = 2
        self.client = self.world.client()
        self.client.declare_exchange("wide", "fanout")
        for name in QUEUES:
            self.client.declare(name)
            self.client.bind(name, "wide", "")
        self.later = LaterTurns(self.world, steps_max=1)

    def publish(self, client: Client, body: bytes, exchange: str = "wide", key: str = "") -> Pending[None] | None:
        later = client.session.publisher.publish(Run(exchange, key, encode(b"", body), 1, len(body)), self.world.now)
        self.world.end_turn()
        return later

    def turn(self) -> bool:
        went_on = self.later.one()
        self.world.end_turn()
        return went_on

    def turns(self) -> None:
        while self.turn():
            pass

    def holding(self) -> int:
        """How many queues have something."""
        found = [self.world.broker.queue("/", name) for name in QUEUES if self.world.broker.find_queue("/", name)]
        return sum(queue.ready_count > 0 for queue in found)


@pytest.fixture
def wide() -> Wide:
    return Wide()


def over(later: Pending[None] | None) -> list[str]:
    """What is said when it is over."""
    said: list[str] = []
    assert later is not None, "all of it was done at once"
    later.then(lambda _: said.append("over"), lambda error: said.append(error.text))
    return said


def test_queues_get_it_over_several_turns_and_it_is_confirmed_when_the_last_one_has(wide: Wide) -> None:
    wide.client.session.publisher.select_confirms()
    said = over(wide.publish(wide.client, b"1"))
    held = [wide.holding()]
    while wide.turn():
        held.append(wide.holding())
        if held[-1] < len(QUEUES):
            assert (said, wide.client.take_confirms()) == ([], [])
    assert held[:5] == [2, 4, 6, 8, 10]
    assert (said, wide.client.take_confirms()) == (["over"], [(1, 1, True, True)])


def test_what_its_session_publishes_next_does_not_overtake_it(wide: Wide) -> None:
    said = over(wide.publish(wide.client, b"1"))
    assert wide.publish(wide.client, b"2", "", QUEUES[-1]) is not None
    assert wide.publish(wide.client, b"3") is not None
    wide.publish(wide.world.client(), b"of another session", "", QUEUES[-1])
    wide.turns()
    assert said == ["over"]
    assert wide.client.bodies_of(QUEUES[0]) == [b"1", b"3"]
    assert wide.client.bodies_of(QUEUES[-1]) == [b"of another session", b"1", b"2", b"3"]
    assert wide.publish(wide.client, b"4", "", QUEUES[0]) is None, "nothing is under way any more"


def test_a_queue_that_is_deleted_before_its_turn_owes_no_confirm(wide: Wide, monkeypatch: pytest.MonkeyPatch) -> None:
    wide.client.session.publisher.select_confirms()
    said = over(wide.publish(wide.client, b"1"))
    other = wide.world.client()
    opened = wide.world.broker.find_queue("/", QUEUES[0])
    assert opened is not None
    publish, given = opened.kind.publish, list[Any]()

    def noting(queues: Sequence[Any], *what: Any) -> None:
        given.extend(queues)
        publish(queues, *what)

    monkeypatch.setattr(opened.kind, "publish", noting)
    gone = [wide.world.broker.queue("/", name) for name in QUEUES[-2:]]
    other.delete(QUEUES[-1])
    other.delete(QUEUES[-2])
    other.declare(QUEUES[-2])
    wide.turns()
    assert (said, wide.client.take_confirms()) == (["over"], [(1, 1, True, True)])
    assert wide.holding() == len(QUEUES) - 2
    assert other.bodies_of(QUEUES[-2]) == [], "it has the same name, and is another queue"
    assert given and not set(map(id, given)) & set(map(id, gone)), "what is deleted is given nothing"


def test_a_queue_that_is_converted_before_its_turn_has_not_taken_it(wide: Wide) -> None:
    """What it has become lacks the message."""
    broker, now, name = wide.world.broker, wide.world.now, becoming_queue(QUEUES[-1])
    wide.client.session.publisher.select_confirms()
    wide.publish(wide.client, b"1")
    before = broker.queue("/", QUEUES[-1]).record
    broker.submit(commands.DeclareQueue("/", name, home=before.home), now)
    broker.submit(commands.ConvertQueue("/", QUEUES[-1], before.id, broker.queue("/", name).record.id), now)
    wide.turns()
    assert wide.holding() == len(QUEUES) - 1
    assert wide.client.take_confirms() == [(1, 1, False, False)]


def test_a_time_to_live_counts_from_when_a_queue_gets_the_message(wide: Wide) -> None:
    """Counted from the publish, it was over in the last queues before they got the message."""
    run = Run("wide", "", encode(b"", b"1"), 1, 1, expiration_ms=2_000)
    said = over(wide.client.session.publisher.publish(run, wide.world.now))
    while not said:
        wide.world.now += 600
        wide.turn()
    assert [wide.client.bodies_of(name) for name in (QUEUES[0], QUEUES[-1])] == [[], [b"1"]]


def test_a_client_that_leaves_has_published_all_the_same(wide: Wide) -> None:
    wide.publish(wide.client, b"1")
    wide.world.disconnect(wide.client)
    wide.turns()
    assert wide.holding() == len(QUEUES)


def test_a_commit_with_such_publishes_is_answered_when_all_have_them(wide: Wide) -> None:
    wide.client.session.select_transactions()
    for body in (b"1", b"2"):
        assert wide.publish(wide.client, body) is None
    wide.publish(wide.client, b"3", "", QUEUES[-1])
    answers: list[None] = []
    wide.client.session.commit(wide.world.now).then(answers.append, lambda error: pytest.fail(error.text))
    assert answers == []
    wide.turns()
    assert answers == [None]
    assert [wide.client.bodies_of(name) for name in (QUEUES[0], QUEUES[-1])] == [[b"1", b"2"], [b"1", b"2", b"3"]]


def refusing(wide: Wide, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The kind cannot take anything for this queue."""
    publish = wide.world.kind.publish

    def refused(queues: Sequence[Queue], run: Run, receipt: Receipt | None, now: int) -> None:
        if any(queue.record.name == name for queue in queues):
            raise ResourceExhausted("the disk failed")
        publish(queues, run, receipt, now)

    monkeypatch.setattr(wide.world.kind, "publish", refused)


def test_a_failure_on_the_way_refuses_it_and_what_follows_goes_on(wide: Wide, monkeypatch: pytest.MonkeyPatch) -> None:
    refusing(wide, monkeypatch, QUEUES[4])
    wide.client.session.publisher.select_confirms()
    said = over(wide.publish(wide.client, b"1"))
    wide.publish(wide.client, b"2", "", QUEUES[0])
    wide.turns()
    assert said == ["over"]
    assert sorted(wide.client.take_confirms()) == [(1, 1, False, False), (2, 2, False, True)]


def test_a_failure_that_no_confirm_can_tell_is_told_at_the_end(wide: Wide, monkeypatch: pytest.MonkeyPatch) -> None:
    refusing(wide, monkeypatch, QUEUES[4])
    said = over(wide.publish(wide.client, b"1"))
    wide.turns()
    assert said == ["the disk failed"]
    assert wide.publish(wide.client, b"2", "", QUEUES[0]) is None


def test_a_failure_at_once_is_raised_as_by_any_publish(wide: Wide, monkeypatch: pytest.MonkeyPatch) -> None:
    refusing(wide, monkeypatch, QUEUES[0])
    wide.world.broker.work = BackgroundWork(wide.later.soon.append, lambda: 0.0)
    with pytest.raises(ResourceExhausted, match="the disk failed"):
        wide.publish(wide.client, b"1")


def test_a_transaction_with_a_refused_one_says_so(wide: Wide, monkeypatch: pytest.MonkeyPatch) -> None:
    refusing(wide, monkeypatch, QUEUES[4])
    wide.client.session.select_transactions()
    wide.publish(wide.client, b"1")
    errors: list[type] = []
    wide.client.session.commit(wide.world.now).then(
        lambda _: pytest.fail("done"), lambda error: errors.append(type(error))
    )
    wide.turns()
    assert errors == [PreconditionFailed]
