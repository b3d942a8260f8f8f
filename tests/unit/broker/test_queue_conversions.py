"""broker/operations/queue_conversions.py: who may convert a queue, and what they are told of it."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from broker.catalog.catalog import Catalog
from broker.catalog.commands.catalog_commands import (
    ConvertQueue,
    DeclareQueue,
    JoinNode,
    PutPermission,
    PutUser,
    PutVhost,
)
from broker.errors import AccessRefused, NotFound, PreconditionFailed, ResourceExhausted
from broker.names import becoming_queue
from broker.operations.operator import Operator
from broker.operations.queue_conversions import ConversionView, QueueConversions
from broker.queues.queue_type import QueueStatistics
from broker.records import NodeRecord, PermissionRecord, QueueRecord, UserRecord, VhostRecord
from tests.unit.broker.answers import answer
from tests.unit.broker.catalog_at_once import CatalogAtOnce

WHO = Operator("ada", ("management",))
BECOMING = becoming_queue("q")


class Node:
    """With a classic queue `q` that has 5 messages, and what it is to become, as soon as that is there, 2."""

    def __init__(self) -> None:
        self.catalog = Catalog()
        self.metadata = CatalogAtOnce(self.catalog)
        self.figures = {
            "q": QueueStatistics(ready=4, unacknowledged=1),
            BECOMING: QueueStatistics(ready=2, details={"leader": 7}),
        }
        self.copies_wait_ms = 0
        for vhost in ("/", "other"):
            self.done(PutVhost(VhostRecord(vhost)))
        self.done(JoinNode(NodeRecord("n1", 0, 7, "n1:1"), "j1", 1))
        self.done(DeclareQueue("/", "q", "classic", arguments={"x-message-ttl": 1000}, home="n1"))
        self.done(PutUser(UserRecord("ada", "hash")))
        self.may("q|missing")
        broker: Any = SimpleNamespace(
            catalog=self.catalog,
            metadata=self.metadata,
            queue=self.queue,
            find_queue=self.find_queue,
            copies_wait_ms=lambda queue_id: self.copies_wait_ms,
        )
        self.conversions = QueueConversions(broker)

    def done(self, command: Any) -> Any:
        return answer(self.metadata.submit(command))

    def may(self, configure: str) -> None:
        self.done(PutPermission(PermissionRecord("ada", "/", configure, "", "")))

    def queue(self, vhost: str, name: str) -> Any:
        if name not in self.figures:
            raise NotFound(f"no queue '{name}'")
        return SimpleNamespace(statistics=lambda: self.figures[name])

    def find_queue(self, vhost: str, name: str) -> Any:
        return SimpleNamespace(queue=self.queue(vhost, name)) if name in self.figures else None

    def record(self, name: str = "q") -> QueueRecord:
        found = self.catalog.queue("/", name)
        assert found is not None, f"there is no queue {name}"
        return found

    def begin(self) -> ConversionView:
        return answer(self.conversions.begin(WHO, "/", "q"))


@pytest.fixture
def node() -> Node:
    return Node()


def test_a_plan_says_what_would_come_of_it_and_changes_nothing(node: Node) -> None:
    found = node.conversions.plan(WHO, "/", "q")
    assert (found.state, found.messages, found.copied) == ("classic", 5, 0)
    assert found.arguments["x-queue-type"] == "quorum"
    assert node.catalog.queue("/", BECOMING) is None


def test_one_that_has_begun_is_converting_with_what_has_been_copied(node: Node) -> None:
    begun = node.begin()
    assert (begun.state, begun.messages, begun.copied) == ("converting", 5, 2)
    assert begun.arguments == node.record(BECOMING).arguments
    assert node.conversions.progress(WHO, "/", "q") == begun
    assert node.conversions.under_way(node.record()) == begun


@pytest.mark.parametrize(
    ("leader", "waited_ms", "said"),
    [
        (7, 1_999, ""),
        (7, 2_000, "a majority of its group on n1, node 9, for 2 s: start these nodes, or cancel it and lose nothing"),
        (None, 0, "a majority of its group on n1, node 9: start these nodes, or cancel it and lose nothing"),
    ],
)
def test_one_whose_copies_come_to_no_majority_says_what_it_waits_for(
    node: Node, leader: int | None, waited_ms: int, said: str
) -> None:
    node.figures[BECOMING] = QueueStatistics(details={"leader": leader, "members": (1, 9)})
    node.copies_wait_ms = waited_ms
    assert node.begin().waits_for == said


def test_one_that_is_on_its_way_is_not_begun_again(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = node.begin()
    node.metadata.refusal = ResourceExhausted("nothing is to be submitted")
    assert node.begin() == begun


def test_before_and_behind_it_a_queue_is_what_it_is(node: Node) -> None:
    before = node.conversions.progress(WHO, "/", "q")
    assert (before.state, before.messages, before.copied, before.arguments) == ("classic", 5, 0, {})
    assert node.conversions.under_way(node.record()) is None
    node.begin()
    node.done(ConvertQueue("/", "q", node.record().id, node.record(BECOMING).id))
    after = node.conversions.progress(WHO, "/", "q")
    assert (after.state, after.copied, after.arguments) == ("quorum", 0, {})
    assert node.conversions.under_way(node.record()) is None


def test_a_quorum_queue_is_not_being_converted_whatever_name_is_beside_it(node: Node) -> None:
    """A copy may be left there, which its home has not heard of yet."""
    node.begin()
    node.done(ConvertQueue("/", "q", node.record().id, node.record(BECOMING).id))
    node.done(DeclareQueue("/", BECOMING, "quorum", home="n1", members=("n1",)))
    assert node.conversions.under_way(node.record()) is None
    assert node.conversions.progress(WHO, "/", "q").state == "quorum"


def test_a_queue_that_is_just_opened_has_no_figures_yet(node: Node) -> None:
    node.figures.clear()
    found = node.conversions.plan(WHO, "/", "q")
    assert (found.messages, found.copied) == (0, 0)


def test_cancelled_the_queue_stays_and_what_it_was_to_become_goes(node: Node) -> None:
    node.begin()
    answer(node.conversions.cancel(WHO, "/", "q"))
    assert (node.record().kind, node.catalog.queue("/", BECOMING)) == ("classic", None)


def test_what_is_not_converted_cannot_be_cancelled(node: Node) -> None:
    with pytest.raises(PreconditionFailed, match="queue 'q' in vhost '/' is not being converted"):
        node.conversions.cancel(WHO, "/", "q")


EACH = pytest.mark.parametrize(
    "ask",
    [
        lambda of, vhost, queue: of.plan(WHO, vhost, queue),
        lambda of, vhost, queue: of.begin(WHO, vhost, queue),
        lambda of, vhost, queue: of.progress(WHO, vhost, queue),
        lambda of, vhost, queue: of.cancel(WHO, vhost, queue),
    ],
    ids=["plan", "begin", "progress", "cancel"],
)
Ask = Callable[[QueueConversions, str, str], object]


@EACH
def test_it_is_for_those_who_may_configure_the_queue(node: Node, ask: Ask) -> None:
    node.begin()
    node.may("r")
    with pytest.raises(AccessRefused):
        ask(node.conversions, "/", "q")
    assert (node.record().kind, node.record(BECOMING).kind) == ("classic", "quorum")


@EACH
def test_it_is_for_those_who_may_enter_the_vhost(node: Node, ask: Ask) -> None:
    for vhost in ("other", "nowhere"):
        with pytest.raises((AccessRefused, NotFound), match=vhost):
            ask(node.conversions, vhost, "q")


@EACH
def test_it_is_of_queues_that_are_there(node: Node, ask: Ask) -> None:
    with pytest.raises(NotFound, match="no queue 'missing' in vhost '/'"):
        ask(node.conversions, "/", "missing")
