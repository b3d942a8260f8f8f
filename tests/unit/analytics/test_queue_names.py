"""A queue is told of under the name that clients have for it."""

from __future__ import annotations

import pytest

from analytics.queue_events import queue_name
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
