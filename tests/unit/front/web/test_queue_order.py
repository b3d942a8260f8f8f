"""Lists of queues that are sorted once: whose they are, and when they are sorted again."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace
from importlib.resources import files
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import MagicMock

from broker.operations.operator import Operator
from broker.queues.queue_type import QueueStatistics
from broker.records import QueueRecord
from front.web.everywhere import Everywhere
from front.web.lists.queue_order import LISTS_KEPT, OrderedQueues, is_in_catalog, value_of
from front.web.resources.queues_api import QueuesApi
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


def test_only_so_many_lists_are_kept() -> None:
    ordered, declared = OrderedQueues(), Declared()
    for number in range(3 * LISTS_KEPT):
        names(ordered, declared, Operator(str(number), ()))
    assert len(ordered._lists) <= LISTS_KEPT


def test_a_column_is_a_count_or_its_rate() -> None:
    book, counts = SampleBook(QUEUE, DETAILED), QueueStatistics(ready=7, unacknowledged=3, published=20)
    book.add(1, 0, counts_row(QueueStatistics(published=10)))
    book.add(1, 5_000, counts_row(counts))
    queue = SimpleNamespace(counts=lambda: counts, sizes=lambda: QueueStatistics(ready_bytes=5, memory_bytes=6))
    front: Any = SimpleNamespace(
        samples=SimpleNamespace(queues=book),
        wall_ms=lambda: 5_000,
        broker=SimpleNamespace(find_queue=lambda vhost, name: SimpleNamespace(queue=queue) if name == "q" else None),
    )
    expected = {
        "name": "q", "messages": 10, "messages_ready": 7, "messages_details.rate": 2.0, "message_bytes": 5,
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


def test_a_queue_is_on_the_node_that_leads_it_or_else_at_its_home() -> None:
    api = object.__new__(QueuesApi)
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
    value = asyncio.run(api._value(ANNE, None, "messages"))
    assert value is not None
    assert [value(replace(record("q"), id=number)) for number in (1, 2, 3, 4)] == [5, 7, 6, 0]
