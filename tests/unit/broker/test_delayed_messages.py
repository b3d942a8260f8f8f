"""broker/session/delayed_messages.py: which messages that wait a user sees and may cancel, and by which ids."""

from __future__ import annotations

from typing import Any

import pytest

from broker.actors import LogActor
from broker.catalog.commands.catalog_commands import DeclareExchange, DeclareQueue, PutPermission
from broker.errors import AccessRefused, BrokerError, InvalidRequest, NotFound, PreconditionFailed
from broker.messages.browsed import Browsed
from broker.names import holding_queue, holding_queue_of
from broker.pending import Pending
from broker.queues.holding_contract import FIRST_PLACE, LISTED_MAX, ListOrder, WaitingMessage, WaitingPlace
from broker.records import ExchangeRecord, PermissionRecord
from broker.session.delayed_messages import DelayedMessages, Delayer
from tests.contract.memory_queue import MemoryQueue, MemoryQueues
from tests.unit.broker.answers import answer
from tests.unit.broker.broker_world import Client, World

EXCHANGE, QUEUE = Delayer("exchange", "later"), Delayer("queue", "waits")
DELAYERS = pytest.mark.parametrize("delayer", [EXCHANGE, QUEUE], ids=["of an exchange", "of a queue"])
PLACES = [WaitingPlace(5, 1, 0), WaitingPlace(5, 1, 1), WaitingPlace(8, 0, 0)]
BROWSED = Browsed("later", "key", b"", True)


class Holding:
    """What a queue of delayed messages adds: it notes what it is asked for, and has PLACES."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[tuple[int, Any]] = []  # number of the queue, and what
        self.left = set(PLACES)
        holding = self

        def waiting(
            queue: MemoryQueue, order: ListOrder, after: WaitingPlace, limit: int, now: int
        ) -> Pending[list[WaitingMessage]]:
            holding.asked.append((queue.record.id, (order, after, limit)))
            some = [place for place in PLACES if place > after][:limit]
            return Pending.of([WaitingMessage(place, 1_000 + place.entry, BROWSED) for place in some])

        def withdraw(queue: MemoryQueue, place: WaitingPlace, now: int, by: LogActor | None = None) -> Pending[int]:
            holding.asked.append((queue.record.id, place))
            taken = place in holding.left
            holding.left.discard(place)
            return Pending.of(int(taken))

        monkeypatch.setattr(MemoryQueue, "waiting", waiting, raising=False)
        monkeypatch.setattr(MemoryQueue, "withdraw", withdraw, raising=False)


class Node:
    """With an exchange and a queue that delay, and an exchange and a queue that do not."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.holding, self.world = Holding(monkeypatch), World()
        quorum = MemoryQueues(self.world.broker)
        quorum.name = "quorum"
        self.world.broker.add_kind(quorum)
        self.world.submit(
            DeclareExchange(
                ExchangeRecord("/", "later", "x-delayed-message", True, False, False, {"x-delayed-type": "direct"})
            ),
            DeclareExchange(ExchangeRecord("/", "plain", "direct", True, False, False, {})),
            DeclareQueue("/", "waits", "quorum", arguments={"x-queue-type": "quorum", "x-delayed-messages": True}),
            DeclareQueue("/", "now", "quorum", arguments={"x-queue-type": "quorum"}),
            DeclareQueue("/", holding_queue("later"), "quorum", arguments={"x-queue-type": "quorum"}),
            DeclareQueue("/", holding_queue_of("waits"), "quorum", arguments={"x-queue-type": "quorum"}),
        )
        self.client: Client = self.world.client()

    def of(self, client: Client | None = None) -> DelayedMessages:
        session = (client or self.client).session
        return DelayedMessages(self.world.catalog, session.topology, "/")

    def number(self, delayer: Delayer) -> int:
        name = holding_queue("later") if delayer is EXCHANGE else holding_queue_of("waits")
        found = self.world.catalog.queue("/", name)
        assert found is not None
        return found.id

    def user(self, read: str) -> Client:
        self.world.add_user("ada")
        self.world.submit(PutPermission(PermissionRecord("ada", "/", "", "", read)))
        return self.world.client("ada")


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Node:
    return Node(monkeypatch)


@DELAYERS
def test_the_next_come_from_the_first_on_by_their_times(node: Node, delayer: Delayer) -> None:
    found = answer(node.of().next_due(delayer, 2, 0))
    number = node.number(delayer)
    assert [(one.id, one.due_ms) for one in found] == [(f"{number}-5-1-0", 1_005), (f"{number}-5-1-1", 1_005)]
    assert node.holding.asked == [(number, (ListOrder.DUE, FIRST_PLACE, 2))]


@DELAYERS
def test_a_page_goes_on_behind_the_last_of_the_one_before(node: Node, delayer: Delayer) -> None:
    first = answer(node.of().published_after(delayer, "", 2, 0))
    rest = answer(node.of().published_after(delayer, first[-1].id, 2, 0))
    assert [one.id for one in rest] == [f"{node.number(delayer)}-8-0-0"]
    assert [what[:2] for _, what in node.holding.asked] == [
        (ListOrder.PUBLISHED, FIRST_PLACE),
        (ListOrder.PUBLISHED, PLACES[1]),
    ]


@DELAYERS
def test_one_is_cancelled_once(node: Node, delayer: Delayer) -> None:
    id_ = f"{node.number(delayer)}-5-1-1"
    answer(node.of().cancel(delayer, id_, 0))
    assert node.holding.left == {PLACES[0], PLACES[2]}
    with pytest.raises(NotFound, match=rf"no message '{id_}' waits in {delayer} \(any more\)"):
        answer(node.of().cancel(delayer, id_, 0))


@pytest.mark.parametrize("id_", ["", "x", "1-2-3", "1-2-3-4-5", "-1-2-3-4", "1-2-3-٣", "1" * 19 + "-2-3-4"])
def test_what_is_no_id_is_said_to_be_none(node: Node, id_: str) -> None:
    with pytest.raises(InvalidRequest, match="is no id of a delayed message"):
        node.of().cancel(EXCHANGE, id_, 0)
    if id_:
        with pytest.raises(InvalidRequest):
            node.of().published_after(EXCHANGE, id_, 10, 0)
    assert node.holding.asked == []


@DELAYERS
def test_a_message_of_another_queue_is_not_touched(node: Node, delayer: Delayer) -> None:
    """An exchange that was deleted and declared again has the same places, of other messages."""
    id_ = f"{node.number(delayer) + 1}-5-1-1"
    with pytest.raises(NotFound, match="waited in another queue than is there now"):
        node.of().cancel(delayer, id_, 0)
    with pytest.raises(NotFound):
        node.of().published_after(delayer, id_, 10, 0)
    assert (node.holding.asked, node.holding.left) == ([], set(PLACES))


@DELAYERS
def test_so_many_are_listed_in_one_go(node: Node, delayer: Delayer) -> None:
    for limit in (1, LISTED_MAX):
        answer(node.of().next_due(delayer, limit, 0))
    for limit in (-1, 0, LISTED_MAX + 1):
        with pytest.raises(PreconditionFailed, match=f"1 to {LISTED_MAX} delayed messages"):
            node.of().next_due(delayer, limit, 0)


@pytest.mark.parametrize(
    ("delayer", "error", "why"),
    [
        (Delayer("exchange", "none"), NotFound, "no exchange 'none'"),
        (Delayer("queue", "none"), NotFound, "no queue 'none'"),
        (Delayer("exchange", "plain"), PreconditionFailed, "it is of the type direct"),
        (Delayer("queue", "now"), PreconditionFailed, "it was declared without x-delayed-messages"),
        (Delayer("exchange", "waits"), NotFound, "no exchange 'waits'"),
        (Delayer("queue", "later"), NotFound, "no queue 'later'"),
    ],
)
def test_messages_wait_where_they_are_delayed_and_nowhere_else(
    node: Node, delayer: Delayer, error: type[BrokerError], why: str
) -> None:
    with pytest.raises(error, match=why):
        node.of().next_due(delayer, 10, 0)


@pytest.mark.parametrize(
    ("delayer", "read"), [(EXCHANGE, holding_queue("later")), (QUEUE, "waits")], ids=["exchange", "queue"]
)
def test_who_may_not_read_them_neither_sees_nor_cancels_them(node: Node, delayer: Delayer, read: str) -> None:
    refused = node.of(node.user("^later$"))
    for ask in (
        lambda: refused.next_due(delayer, 10, 0),
        lambda: refused.published_after(delayer, "", 10, 0),
        lambda: refused.cancel(delayer, f"{node.number(delayer)}-5-1-1", 0),
    ):
        with pytest.raises(AccessRefused):
            ask()
    assert node.holding.asked == []
    node.world.submit(PutPermission(PermissionRecord("ada", "/", "", "", f"^({read}|{holding_queue_of('waits')})$")))
    assert len(answer(node.of(node.world.client("ada")).next_due(delayer, 10, 0))) == 3
