"""A queue is told of under the name that clients have for it."""

from __future__ import annotations

import pytest

from analytics.queue_events import CLASSIC, QueueName, note_name, queue_name
from broker.names import becoming_queue
from storage.history.name_records import NameRow


@pytest.mark.parametrize(
    ("vhost", "name", "told"),
    [
        ("/", "orders", "//orders"),
        ("", "//orders", "//orders"),  # as the log of a group has it
        ("", f"//{becoming_queue('orders')}", "//orders"),
        ("shop/eu", becoming_queue("a/b"), "shop/eu/a/b"),
        ("/", "not.amq.becoming.orders", "//not.amq.becoming.orders"),
    ],
)
def test_a_quorum_queue_that_a_classic_one_became_has_its_name(vhost: str, name: str, told: str) -> None:
    """Whoever asked for `orders` was told of the classic queue only, and that all of its messages were deleted."""
    assert queue_name(7, NameRow("quorum", vhost, name)).name == told


@pytest.mark.parametrize("is_named_last", [False, True])
def test_the_log_of_the_catalog_gives_no_queue_its_name(is_named_last: bool) -> None:
    """The life of a message of the queue that was declared first was told as one of `metadata`."""
    catalog, queue = QueueName(1, "metadata", "metadata"), QueueName(1, CLASSIC, "//orders")
    names: dict[int, QueueName] = {}
    for one in (catalog, queue) if is_named_last else (queue, catalog):
        note_name(names, one)
    assert names == {1: queue}
