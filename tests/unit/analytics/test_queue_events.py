"""analytics/queue_events.py: numbers that it shares with the broker without importing it."""

from __future__ import annotations

from analytics.queue_events import CATALOG_GROUP
from broker.catalog.commands.metadata_entry import METADATA_GROUP


def test_the_number_of_the_catalogs_log_is_that_of_the_broker() -> None:
    assert CATALOG_GROUP == METADATA_GROUP
