"""Claims in the catalog: who takes one knows of the last word of who held it."""

from __future__ import annotations

from typing import Any

import pytest

from broker.catalog.catalog import Catalog
from broker.catalog.catalog_state import CatalogState, Position, decode_state, replace_catalog
from broker.catalog.commands.catalog_commands import AddNode, ReleaseClaim, RemoveNode, RenewClaims, TakeClaim
from broker.catalog.known_by_all import KnownByAll
from broker.errors import PreconditionFailed
from broker.records import ClaimBeatRecord, ClaimRecord, NodeRecord
from tests.unit.broker.catalog_at_once import CatalogAtOnce


def claim(node: str, epoch: int = 0, name: str = "s") -> ClaimRecord:
    return ClaimRecord("shovel", "/", name, node, epoch)


@pytest.fixture
def catalog() -> Catalog:
    found = Catalog()
    for name in ("a", "b"):
        found.apply(AddNode(NodeRecord(name, 0, 1, f"{name}:1")))
    return found


def test_what_is_free_is_taken_and_each_taking_has_its_epoch(catalog: Catalog) -> None:
    version = catalog.version
    assert catalog.apply(TakeClaim(claim("a"))) == claim("a", 1)
    assert catalog.apply(TakeClaim(claim("a"))) == claim("a", 2)
    assert catalog.claim("shovel", "/", "s") == claim("a", 2)
    assert catalog.claim("federation", "/", "s") is None
    assert catalog.version == version  # nothing is routed by it


def test_only_who_knows_the_last_word_of_its_holder_takes_it(catalog: Catalog) -> None:
    catalog.apply(TakeClaim(claim("a")))
    seen = catalog.beat_of("a")
    for wrong in (TakeClaim(claim("b")), TakeClaim(claim("b", 0), "a", seen), TakeClaim(claim("b", 1), "b", seen)):
        with pytest.raises(PreconditionFailed, match="node 'a' holds the claim on shovel 's'"):
            catalog.apply(wrong)
    assert catalog.apply(RenewClaims("a")) == seen + 1
    with pytest.raises(PreconditionFailed, match="node 'a' holds"):
        catalog.apply(TakeClaim(claim("b", 1), "a", seen))
    assert catalog.apply(TakeClaim(claim("b", 1), "a", seen + 1)) == claim("b", 2)


def test_one_is_released_by_who_holds_it(catalog: Catalog) -> None:
    catalog.apply(TakeClaim(claim("a")))
    assert not catalog.apply(ReleaseClaim(claim("a", 7)))
    assert not catalog.apply(ReleaseClaim(claim("b", 1)))
    assert catalog.apply(ReleaseClaim(claim("a", 1)))
    assert catalog.apply(TakeClaim(claim("b"))) == claim("b", 1)


def test_a_node_that_belongs_to_the_cluster_no_more_holds_nothing(catalog: Catalog) -> None:
    catalog.apply(TakeClaim(claim("a")))
    catalog.apply(RemoveNode("a"))
    assert list(catalog.claim_records()) == []
    for late in (TakeClaim(claim("a")), RenewClaims("a")):
        with pytest.raises(PreconditionFailed, match="does not belong"):
            catalog.apply(late)


def test_who_is_removed_takes_nobody_else_s_claims_along(catalog: Catalog) -> None:
    """A claim that was forgotten while its holder runs the link would be taken by another node at once."""
    catalog.apply(TakeClaim(claim("a")))
    catalog.apply(TakeClaim(claim("b", name="t")))
    catalog.apply(RemoveNode("a"))
    assert list(catalog.claims()) == [claim("b", 1, "t")]
    assert catalog.beat_of("b") == 1


def test_whoever_keeps_what_changes_has_what_the_catalog_has(catalog: Catalog) -> None:
    """What is not told is not on disk: after a start the node would know of other claims than the others."""
    kept: set[Any] = set()

    def note(record: Any, present: bool) -> None:
        if isinstance(record, ClaimBeatRecord):
            kept.difference_update(
                [one for one in kept if isinstance(one, ClaimBeatRecord) and one.node == record.node]
            )
        if isinstance(record, ClaimRecord):
            kept.difference_update([one for one in kept if isinstance(one, ClaimRecord) and one.name == record.name])
        if present:
            kept.add(record)

    catalog.observer = note
    for command in (
        TakeClaim(claim("a")), TakeClaim(claim("a")), TakeClaim(claim("b", name="t")), RenewClaims("b"),
        ReleaseClaim(claim("a", 2)), TakeClaim(claim("a")), RemoveNode("a"),
    ):  # fmt: skip
        catalog.apply(command)
        told = {one for one in kept if isinstance(one, ClaimRecord | ClaimBeatRecord)}
        assert told == set(catalog.claim_records()), command


def test_claims_are_in_a_snapshot(catalog: Catalog) -> None:
    catalog.apply(TakeClaim(claim("a")))
    catalog.apply(TakeClaim(claim("b", name="t")))
    _, head, records = decode_state(b"".join(CatalogState(catalog, Position(5))))
    other = Catalog()
    replace_catalog(other, head, records)
    assert list(other.claim_records()) == list(catalog.claim_records())
    assert other.beat_of("b") == 1
    replace_catalog(other, head, [])
    assert list(other.claim_records()) == []


def test_the_first_claim_waits_until_all_nodes_know_of_claims(catalog: Catalog) -> None:
    behind = ["b"]
    metadata = KnownByAll(CatalogAtOnce(catalog), catalog, lambda version: behind)
    refused = metadata.submit(TakeClaim(claim("a"))).error
    assert refused is not None
    assert "claims on shovels can be declared once all nodes know of them" in refused.text
    behind.clear()
    assert metadata.submit(TakeClaim(claim("a"))).error is None
    behind.append("b")  # it is down now, and nobody knows: its claims are taken all the same
    assert metadata.submit(TakeClaim(claim("a"))).error is None
