"""The sums of all files: what reached no queue, by exchange and client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from analytics.coverage import DELETED, iso_time
from analytics.unroutable.count_look import CountedAs, CountedSum, FileCounts
from broker.unlogged import Unlogged
from native.log_tables import UNLOGGED

# What `unroutable` is about; the rest was given to a queue or a consumer, and is in no log all the same.
NOT_QUEUED = frozenset({Unlogged.UNROUTABLE, Unlogged.RETURNED, Unlogged.REFUSED, Unlogged.DEAD_UNROUTABLE})


class CountedRow(NamedTuple):
    """Messages of one client to one exchange. None: the logs that were read do not say it, or no client published them."""

    node: str
    what: str
    exchange: str
    routing_key: str  # of the last of them
    messages: int
    body_bytes: int
    peak_per_second: int
    first_at: str | None
    last_at: str | None
    user: str | None = None
    vhost: str | None = None
    address: str | None = None
    connection: str | None = None  # as its client calls it
    product: str | None = None


COUNTED_COLUMNS = [
    ("node", "string"), ("what", "string"), ("exchange", "string"), ("routing_key", "string"), ("messages", "bigint"),
    ("body_bytes", "bigint"), ("peak_per_second", "bigint"), ("first_at", "string"), ("last_at", "string"),
    ("user", "string"), ("vhost", "string"), ("address", "string"), ("connection", "string"), ("product", "string"),
]  # fmt: skip


def counted_rows(seen: Sequence[FileCounts], *, all_of_them: bool = False) -> list[CountedRow]:
    """The most first. `seen`: node by node in the order of the log. `all_of_them`: also what is not NOT_QUEUED."""
    sums: dict[tuple[str, CountedAs], CountedSum] = {}
    for one in seen:
        for key, found in one.sums.items():
            if all_of_them or key.what in NOT_QUEUED:
                sums.setdefault((one.file.node, key), CountedSum()).add(found)
    rows = [_row(node, key, found) for (node, key), found in sums.items()]
    return sorted(rows, key=lambda row: (-row.messages, row.node, row.what, row.exchange))


def not_counted(seen: Sequence[FileCounts]) -> list[tuple[str, int, int]]:
    """The nodes that did not count in each of their files: how many files, and in how many of them not. A file that was deleted
    before it was read does not say."""
    seen = [one for one in seen if all(lost.reason != DELETED for lost in one.damage)]
    nodes = sorted({one.file.node for one in seen})
    told = [(node, [one.is_counted for one in seen if one.file.node == node]) for node in nodes]
    return [(node, len(files), files.count(False)) for node, files in told if not all(files)]


def _row(node: str, key: CountedAs, found: CountedSum) -> CountedRow:
    name = UNLOGGED[key.what] if key.what < len(UNLOGGED) else None
    row = CountedRow(
        node,
        name or str(key.what),
        key.exchange,
        found.routing_key,
        found.messages,
        found.body_bytes,
        round(found.peak),
        iso_time(found.first),
        iso_time(found.last),
    )
    client = key.client
    if client is None:
        return row
    return row._replace(
        user=client.user,
        vhost=client.vhost,
        address=client.address,
        connection=client.connection_name,
        product=client.product,
    )
