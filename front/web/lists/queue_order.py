"""In which order queues are listed: all of them sorted once for each version of the catalog, and figures that are read alone.

Ten thousand queues that are sorted by a figure are looked at for that figure only; the rest is made for a page.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from broker.catalog.policy import EffectiveArguments
from broker.operations.operator import Operator
from broker.operations.resources import Resources
from broker.queues.queue_type import QueueStatistics
from broker.records import QueueRecord
from front.slices import made_in_slices
from front.web.handlers import WebFront
from front.web.lists.sorting import sorted_part
from front.web.samples.node_samples import COUNTS
from front.web.samples.shapes import QUEUE

LISTS_KEPT = 8  # of different operators, or vhosts


def queue_order(record: QueueRecord) -> tuple[str, str]:
    return record.vhost, record.name


def _order_key(record: QueueRecord) -> str:
    """The same order as one text, which is compared in a third of the time, and is nothing that the collector looks through."""
    return f"{record.vhost}\0{record.name}"


class OrderedQueues:
    """The lists that were asked for last."""

    def __init__(self) -> None:
        self._version = -1  # of the catalog
        self._lists: dict[tuple[tuple[Any, ...], str | None], list[QueueRecord]] = {}

    async def records(self, resources: Resources, who: Operator, vhost: str | None) -> list[QueueRecord]:
        version, key = resources.version, (who.rights_key, vhost)
        if version != self._version or len(self._lists) >= LISTS_KEPT:
            self._version = version
            self._lists.clear()
        found = self._lists.get(key)
        if found is None:
            records = [one async for one in made_in_slices(resources.queue_records(who, vhost))]
            found = await sorted_part(records, _order_key, reverse=False, start=0, end=len(records))
            if resources.version == version:
                self._lists[key] = found
        return found


# What the record itself says.
DECLARED: dict[str, Callable[[QueueRecord], Any]] = {
    "name": lambda record: record.name,
    "vhost": lambda record: record.vhost,
    "type": lambda record: record.kind,
    "durable": lambda record: record.durable,
    "auto_delete": lambda record: record.auto_delete,
    "exclusive": lambda record: record.exclusive,
}
# Which policies it has, as every node knows.
_POLICIES: dict[str, Callable[[EffectiveArguments], str | None]] = {
    "policy": lambda effective: effective.policy,
    "operator_policy": lambda effective: effective.operator_policy,
}
# What its queue counts.
_STATISTICS: dict[str, Callable[[QueueStatistics], Any]] = {
    "message_bytes": lambda figures: figures.ready_bytes + figures.unacknowledged_bytes,
    "message_bytes_ready": lambda figures: figures.ready_bytes,
    "message_bytes_unacknowledged": lambda figures: figures.unacknowledged_bytes,
    "message_bytes_persistent": lambda figures: figures.persistent_bytes,
    "message_bytes_ram": lambda figures: figures.ram_bytes,
    "messages_persistent": lambda figures: figures.persistent,
    "messages_ram": lambda figures: figures.ram,
    "memory": lambda figures: figures.memory_bytes,
    "state": lambda figures: figures.state,
    "consumer_capacity": lambda figures: figures.consumer_capacity,
    "consumer_utilisation": lambda figures: figures.consumer_capacity,
}
_PLACES = {name: places for name, (_, places) in QUEUE.shown().items()}
_DETAILS, _STATS = "_details.rate", "message_stats."


def is_traffic(column: str) -> bool:
    """What clients of each node have done with a queue."""
    return column.startswith(_STATS)


def is_rate(column: str) -> bool:
    """Of samples, which each node has of its own queues."""
    return column.endswith(_DETAILS)


def is_in_catalog(column: str) -> bool:
    """No other node has more to say."""
    return column in DECLARED or column in _POLICIES


def value_of(column: str, front: WebFront) -> Callable[[QueueRecord], Any] | None:
    """None: it takes all that is shown of a queue to tell."""
    if column in DECLARED:
        return DECLARED[column]
    if column in _POLICIES:
        return _policy(column, front)
    figure = column.removeprefix(_STATS).removesuffix(_DETAILS)
    if figure in _PLACES and column.startswith(_STATS) != figure.startswith("messages"):
        return _rate(figure, front) if column.endswith(_DETAILS) else _count(figure, front)
    if column == "consumers":
        return _consumers(front)
    return _statistic(column, front) if column in _STATISTICS else None


def _policy(column: str, front: WebFront) -> Callable[[QueueRecord], str]:
    """Those without come first, as whatever is missing."""
    read, effective = _POLICIES[column], front.broker.catalog.effective
    return lambda record: read(effective(record)) or ""


def _rate(figure: str, front: WebFront) -> Callable[[QueueRecord], float]:
    book, now = front.samples.queues, front.wall_ms()
    return lambda record: book.rate(record.id, figure, now)


def _count(figure: str, front: WebFront) -> Callable[[QueueRecord], int]:
    names, find = [COUNTS[place] for place in _PLACES[figure]], front.broker.find_queue
    read: Callable[[QueueStatistics], Any] = attrgetter(*names)
    if len(names) == 1:
        return lambda record: 0 if (found := find(record.vhost, record.name)) is None else read(found.queue.counts())
    return lambda record: 0 if (found := find(record.vhost, record.name)) is None else sum(read(found.queue.counts()))


def _consumers(front: WebFront) -> Callable[[QueueRecord], int]:
    """As the statistics have them, without making those."""
    find = front.broker.find_queue
    return lambda record: 0 if (found := find(record.vhost, record.name)) is None else found.queue.consumer_count


def _statistic(column: str, front: WebFront) -> Callable[[QueueRecord], Any]:
    read, find = _STATISTICS[column], front.broker.find_queue
    missing = read(QueueStatistics(state=""))

    def statistic(record: QueueRecord) -> Any:
        found = find(record.vhost, record.name)
        return missing if found is None else read(found.queue.sizes())

    return statistic
