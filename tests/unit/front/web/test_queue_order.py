"""Lists of queues that are sorted once: whose they are, and when they are sorted again."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable
from dataclasses import replace
from importlib.resources import files
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import MagicMock

import pytest

from broker.operations.operator import Operator
from broker.queues.queue_type import QueueStatistics
from broker.records import QueueRecord
from front.web.everywhere import Everywhere
from front.web.lists.queue_order import LISTS_KEPT, OrderedQueues, is_in_catalog, value_of
from front.web.resources.queues_api import VALUES_IN_A_ROW, QueuesApi
from front.web.samples.books import DETAILED, SampleBook
from front.web.samples.node_samples import counts_row
from front.web.samples.shapes import QUEUE
from tests.unit.broker.vouched.bearers import bearer

ANNE, BERT = Operator("anne", ("management",)), Operator("bert", ("management",))


class Declared:
    """Each operator sees the queue of their name, and those of `more`."""

    def __init__(self) -> None:
        self.version = 1
        self.more: list[str] = []
        self.asked = 0

    def queue_records(self, who: Operator, vhost: str | None) -> list[QueueRecord]:
        self.asked += 1
        return [record(name) for name in (*self.more, f"{who.name}{len(who.tags)} in {vhost}")]


def record(name: str) -> QueueRecord:
    return QueueRecord("v", name, "classic", True, False, False, {}, 1)


def names(ordered: OrderedQueues, declared: Any, who: Operator, vhost: str | None = None) -> list[str]:
    return [one.name for one in asyncio.run(ordered.records(declared, who, vhost))]


def test_a_list_is_sorted_once_for_each_operator_and_vhost() -> None:
    ordered, declared = OrderedQueues(), Declared()
    tagged = Operator("anne", ("management", "monitoring"))
    for _ in range(2):
        assert names(ordered, declared, ANNE) == ["anne1 in None"]
        assert names(ordered, declared, tagged) == ["anne2 in None"]
        assert names(ordered, declared, BERT) == ["bert1 in None"]
        assert names(ordered, declared, ANNE, "v") == ["anne1 in v"]
    assert declared.asked == 4


def test_a_list_is_kept_for_these_scopes_and_no_others() -> None:
    """A token was shown the queues of a user with a password, or of another token, with the same name and tags."""
    ordered, declared = OrderedQueues(), Declared()
    bearers = [Operator.of(bearer("anne", "tag:management", *more)) for more in ((), ("read:a/*",), ("read:b/*",))]
    for who in (ANNE, *bearers, *bearers):
        names(ordered, declared, who)
    assert declared.asked == 4


def test_a_list_is_sorted_again_when_something_was_declared() -> None:
    ordered, declared = OrderedQueues(), Declared()
    names(ordered, declared, ANNE)
    declared.more, declared.version = ["z", "a"], 2
    assert names(ordered, declared, ANNE) == ["a", "anne1 in None", "z"]


def test_a_list_during_whose_sorting_something_was_declared_is_not_kept() -> None:
    ordered, declared = OrderedQueues(), Declared()

    async def declared_meanwhile() -> None:
        asked = asyncio.ensure_future(ordered.records(declared, ANNE, None))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        assert declared.asked == 1 and not asked.done()
        declared.more, declared.version = [], 2
        await ordered.records(declared, BERT, None)  # type: ignore[arg-type]
        assert len(await asked) > 1, "what there was when it was asked for"

    declared.more = [f"q{number}" for number in range(50_000)]  # more than a slice
    asyncio.run(declared_meanwhile())
    assert names(ordered, declared, ANNE) == ["anne1 in None"]


def test_queues_are_in_the_order_of_their_vhosts_first() -> None:
    found = [replace(record(name), vhost=vhost) for vhost, name in (("ab", "a"), ("a", "z"), ("a", "c"))]
    declared: Any = SimpleNamespace(version=1, queue_records=lambda who, vhost: list(found))
    assert names(OrderedQueues(), declared, ANNE) == ["c", "z", "a"]


def test_only_so_many_lists_are_kept() -> None:
    ordered, declared = OrderedQueues(), Declared()
    for number in range(3 * LISTS_KEPT):
        names(ordered, declared, Operator(str(number), ()))
    assert len(ordered._lists) <= LISTS_KEPT


def test_a_column_is_a_count_or_its_rate() -> None:
    book, counts = SampleBook(QUEUE, DETAILED), QueueStatistics(ready=7, unacknowledged=3, published=20)
    book.add(1, 0, counts_row(QueueStatistics(published=10)))
    book.add(1, 5_000, counts_row(counts))
    told_of = QueueStatistics(ready_bytes=5, unacknowledged_bytes=1, persistent_bytes=4, ram_bytes=3, memory_bytes=6)
    queue = SimpleNamespace(counts=lambda: counts, sizes=lambda: told_of)
    front: Any = SimpleNamespace(
        samples=SimpleNamespace(queues=book),
        wall_ms=lambda: 5_000,
        broker=SimpleNamespace(find_queue=lambda vhost, name: SimpleNamespace(queue=queue) if name == "q" else None),
    )
    expected = {
        "name": "q", "messages": 10, "messages_ready": 7, "messages_details.rate": 2.0, "message_bytes": 6,
        "message_bytes_ready": 5, "message_bytes_unacknowledged": 1, "message_bytes_persistent": 4, "message_bytes_ram": 3,
        "memory": 6, "message_stats.publish": 20, "message_stats.publish_details.rate": 2.0,
    }  # fmt: skip
    for column, value in expected.items():
        told = value_of(column, front)
        assert told is not None and told(record("q")) == value, column
        assert column == "name" or column.endswith("rate") or told(record("gone")) == 0, column
    for column in ("publish", "message_stats.messages", "arguments.x-max-length"):
        assert value_of(column, front) is None, column


def test_policies_are_told_by_the_catalog_and_none_comes_first() -> None:
    policies = {"q": SimpleNamespace(policy="limits", operator_policy=None)}
    none = SimpleNamespace(policy=None, operator_policy=None)
    catalog = SimpleNamespace(effective=lambda record: policies.get(record.name, none))
    front: Any = SimpleNamespace(broker=SimpleNamespace(catalog=catalog))
    told = [value_of(column, front) for column in ("policy", "operator_policy")]
    assert [[one(record(name)) for name in ("q", "r")] for one in told if one] == [["limits", ""], ["", ""]]
    assert is_in_catalog("policy") and is_in_catalog("operator_policy")


def resources(*records: QueueRecord) -> Any:
    """What is declared, and which of it was looked at elsewhere."""
    looked_at: list[QueueRecord] = []

    async def look(some: Iterable[QueueRecord] | None) -> list[str]:
        looked_at.extend(records if some is None else some)
        return []

    return SimpleNamespace(queue_records=lambda *_: iter(records), look_elsewhere=look, looked_at=looked_at)


@pytest.mark.parametrize(
    ("column", "looks"),
    [("messages", True), ("state", True), ("node", True), ("name", False), ("message_stats.publish", False)],
)
def test_queues_of_other_nodes_are_looked_at_before_they_are_sorted_by_how_they_are(column: str, looks: bool) -> None:
    api = object.__new__(QueuesApi)
    api._front, api._everywhere, api._members = cast(Any, MagicMock()), Everywhere(None), None
    api._resources = resources(record("q"))
    asyncio.run(api._value(ANNE, None, column))
    assert api._resources.looked_at == [record("q")] * looks


def test_a_queue_is_on_the_node_that_leads_it_or_else_at_its_home() -> None:
    api = object.__new__(QueuesApi)
    api._resources = resources()
    api._members = SimpleNamespace(places=lambda record: SimpleNamespace(leader="b"))  # type: ignore[assignment]
    value = asyncio.run(api._value(ANNE, None, "node"))
    assert value is not None
    homes = [replace(record("q"), kind=kind, home="a") for kind in ("classic", "quorum")]
    assert [value(one) for one in homes] == ["a", "b"]


def test_no_column_that_the_page_sorts_by_takes_all_that_is_shown_of_a_queue() -> None:
    """By the policy it did: of 100,000 queues that took seconds."""
    api = object.__new__(QueuesApi)
    api._front = cast(Any, MagicMock())
    api._everywhere = Everywhere(None)
    api._resources = resources()
    columns = re.findall(r'\bsort: "([^"]+)"', files("front.web.page").joinpath("views/queues.js").read_text())
    assert "policy" in columns and "node" in columns
    assert [one for one in columns if asyncio.run(api._value(ANNE, None, one)) is None] == []


class OldAndNew:
    """Two other nodes; `old` does not know how many values are told at once."""

    async def ask(self, question: bytes, node: str | None = None) -> dict[str, bytes | None]:
        if json.loads(question)["what"] == "many values of queues":
            return {"new": b'{"ids":[1,3],"values":[5,6]},{"ids":[],"values":[]}', "old": b""}
        assert node == "old", "only a node that has told nothing is asked again"
        return {"old": b'{"id":2,"value":7}'}


def test_figures_of_nodes_of_an_older_version_are_asked_for_one_by_one() -> None:
    api = object.__new__(QueuesApi)
    api._front = SimpleNamespace(broker=SimpleNamespace(find_queue=lambda *_: None))  # type: ignore[assignment]
    api._everywhere = Everywhere(OldAndNew())
    api._resources = resources()
    value = asyncio.run(api._value(ANNE, None, "message_stats.publish"))
    assert value is not None
    assert [value(replace(record("q"), id=number)) for number in (1, 2, 3, 4)] == [5, 7, 6, 0]


class Silent:
    async def ask(self, question: bytes, node: str | None = None) -> dict[str, bytes | None]:
        raise AssertionError("homes tell how their queues are by themselves")


def test_rates_of_a_classic_queue_are_asked_of_its_home() -> None:
    api = object.__new__(QueuesApi)
    api._front, api._everywhere, api._resources = cast(Any, MagicMock()), Everywhere(OldAndNew()), resources()
    value = asyncio.run(api._value(ANNE, None, "messages_details.rate"))
    assert value is not None and [value(replace(record("q"), id=number)) for number in (1, 2)] == [5, 7]


@pytest.mark.parametrize("column", ["messages", "messages_ready", "memory", "state", "consumers"])
def test_no_other_node_is_asked_for_ten_thousand_queues_to_sort_them_by_what_it_has_told(column: str) -> None:
    """It took 130 ms for 10,000, and most of it there."""
    api = object.__new__(QueuesApi)
    api._front, api._everywhere, api._resources = cast(Any, MagicMock()), Everywhere(Silent()), resources()
    assert asyncio.run(api._value(ANNE, None, column)) is not None


def of_node_n1(records: list[QueueRecord], ready: int = 0) -> QueuesApi:
    """Each of these queues has `ready` messages there, and was published to so often."""
    api = object.__new__(QueuesApi)
    counts = QueueStatistics(ready=ready, published=ready)
    found = SimpleNamespace(queue=SimpleNamespace(counts=lambda: counts))
    broker = SimpleNamespace(find_queue=lambda *_: found)
    api._front = SimpleNamespace(broker=broker)  # type: ignore[assignment]
    api._resources = SimpleNamespace(queue_records=lambda who, vhost: list(records))  # type: ignore[assignment]
    api._node = "n1"
    return api


class TwoOthers:
    """Both tell of queues 1 and 2."""

    async def ask(self, question: bytes, node: str | None = None) -> dict[str, bytes | None]:
        return dict.fromkeys(("n2", "n3"), b'{"ids":[1,2],"values":[5,6]},{"ids":[],"values":[]}')


def test_what_all_nodes_tell_of_a_queue_is_its_traffic_and_a_classic_one_is_told_of_by_its_home() -> None:
    api = of_node_n1([], ready=1)
    api._everywhere = Everywhere(TwoOthers())
    value = asyncio.run(api._value(ANNE, None, "message_stats.publish"))
    assert value is not None
    assert value(replace(record("q"), id=1)) == 5 + 5
    assert [value(replace(record("q"), id=number, kind="quorum")) for number in (2, 3)] == [6 + 6 + 1, 1]


def test_a_node_tells_of_its_own_queues_a_thousand_to_a_row_each_once() -> None:
    here = [replace(record("q"), id=number, home="n1") for number in range(2 * VALUES_IN_A_ROW + 5)]
    others = [replace(record("q"), id=-1, home="n2"), replace(record("q"), id=-2, kind="quorum")]
    api = of_node_n1([*here, *others], ready=3)

    async def told(column: str) -> list[dict[str, Any]]:
        return [row async for row in api._many_values(ANNE, None, column)]

    rows = asyncio.run(told("messages"))
    assert [len(row["ids"]) for row in rows] == [VALUES_IN_A_ROW, VALUES_IN_A_ROW, 5]
    assert [id_ for row in rows for id_ in row["ids"]] == [one.id for one in here]
    assert {value for row in rows for value in row["values"]} == {3}
    assert [row["ids"][-1] for row in asyncio.run(told("message_stats.publish"))][-1] == -2, "clients are anywhere"
    assert asyncio.run(told("unheard of")) == [{"ids": [], "values": []}], "a row in any case"
