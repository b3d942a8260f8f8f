"""node/catalog/fetch.py: whom a node without a catalog asks. Real links: tests/e2e/test_ram_node.py."""

from __future__ import annotations

from node.catalog.fetch import whom_to_ask
from node.identity import DISK, RAM, KnownNode, Place


def test_a_node_that_was_a_ram_node_is_asked_for_the_catalog_too() -> None:
    """Two nodes became RAM nodes at once, and one of them remained a disk node and led: the other waited for ever."""
    was_ram, disk = KnownNode(1, "n1", "n1:1", RAM), KnownNode(3, "n3", "n3:1", DISK)
    place = Place("c1", 2, "n2", RAM, disk_id=7, incarnation=1, founds=False, others=(was_ram, disk))
    assert whom_to_ask(place) == [disk, was_ram]
