"""The part of the catalog that says which node runs a link: a claim on it, which lasts for as long as its node renews.

Nobody's clock is in the catalog. A node that holds claims says from time to time that it is there (RenewClaims): a beat, which
is counted. Another one may take its claim if it names the last beat: then the holder has said nothing since, and how long
that has lasted is measured by who takes (links/link_claims.py). The epoch of a claim grows each time that it is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from broker.catalog.commands import catalog_commands as commands
from broker.catalog.parts.catalog_part import CatalogPart
from broker.errors import PreconditionFailed
from broker.names import check_name
from broker.records import ClaimBeatRecord, ClaimRecord, NodeRecord

ClaimKey = tuple[str, str, str]  # kind of link, vhost, name
Noted = Callable[[Any, bool], None]


class CatalogClaims(CatalogPart):
    """Claims are no part of what routes are found by, so the catalog's version stays as it is when they change."""

    nodes: dict[str, NodeRecord]
    observer: Noted | None
    _claims: dict[ClaimKey, ClaimRecord]
    _beats: dict[str, ClaimBeatRecord]  # by node

    def claims(self) -> Iterator[ClaimRecord]:
        yield from self._claims.values()

    def claim(self, kind: str, vhost: str, name: str) -> ClaimRecord | None:
        return self._claims.get((kind, vhost, name))

    def beat_of(self, node: str) -> int:
        """How often this node has said that it is there, while it has held claims. 0: never."""
        found = self._beats.get(node)
        return 0 if found is None else found.beat

    def claim_records(self) -> Iterator[ClaimRecord | ClaimBeatRecord]:
        yield from self._beats.values()
        yield from self._claims.values()

    # commands

    def take_claim(self, command: commands.TakeClaim) -> ClaimRecord:
        wish = command.record
        check_name("link", wish.name)
        if wish.node not in self.nodes:
            raise PreconditionFailed(f"node '{wish.node}' does not belong to the cluster, and can run no link")
        key = wish.kind, wish.vhost, wish.name
        current = self._claims.get(key)
        if current is not None and current.node != wish.node:
            self._check_seen(command, current)
        epoch = 1 if current is None else current.epoch + 1
        record = self._claims[key] = ClaimRecord(*key, wish.node, epoch)
        self._claim_changed(record, True)
        self._count_beat(wish.node)
        return record

    def _check_seen(self, command: commands.TakeClaim, current: ClaimRecord) -> None:
        seen = command.node_seen, command.record.epoch, command.beat_seen
        if seen != (current.node, current.epoch, self.beat_of(current.node)):
            raise PreconditionFailed(f"node '{current.node}' holds the claim on {current.kind} '{current.name}'")

    def renew_claims(self, command: commands.RenewClaims) -> int:
        """Answers the beat."""
        if command.node not in self.nodes:
            raise PreconditionFailed(f"node '{command.node}' does not belong to the cluster")
        return self._count_beat(command.node)

    def release_claim(self, command: commands.ReleaseClaim) -> bool:
        """Answers whether it was held so."""
        wish = command.record
        key = wish.kind, wish.vhost, wish.name
        held = self._claims.get(key) == wish
        if held:
            self._claim_changed(self._claims.pop(key), False)
        return held

    def _forget_claims(self, node: str) -> None:
        """Of a node that belongs to the cluster no more."""
        for key in [key for key, one in self._claims.items() if one.node == node]:
            self._claim_changed(self._claims.pop(key), False)
        beat = self._beats.pop(node, None)
        if beat is not None:
            self._claim_changed(beat, False)

    def _count_beat(self, node: str) -> int:
        record = self._beats[node] = ClaimBeatRecord(node, self.beat_of(node) + 1)
        self._claim_changed(record, True)
        return record.beat

    def _claim_changed(self, record: ClaimRecord | ClaimBeatRecord, present: bool) -> None:
        if self.observer is not None:
            self.observer(record, present)

    # taking back what was stored

    def _load_claim(self, record: ClaimRecord) -> None:
        self._claims[record.kind, record.vhost, record.name] = record

    def _load_beat(self, record: ClaimBeatRecord) -> None:
        self._beats[record.node] = record


CLAIM_COMMANDS: dict[type[Any], Callable[[Any, Any], Any]] = {
    commands.TakeClaim: CatalogClaims.take_claim,
    commands.RenewClaims: CatalogClaims.renew_claims,
    commands.ReleaseClaim: CatalogClaims.release_claim,
}
CLAIM_RECORDS: dict[type[Any], Callable[[Any, Any], None]] = {
    ClaimBeatRecord: CatalogClaims._load_beat,
    ClaimRecord: CatalogClaims._load_claim,
}
