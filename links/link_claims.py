"""Which links this node runs: those on which it holds a claim in the metadata log, each by one node at a time.

A claim is held for LEASE_S from when its node last asked to renew it, by the clock of that node, and only what was answered
counts. Another node takes a claim once it has seen nothing of its holder for TAKE_S, by its own clock: it sees a renewal after
its holder asked for it, so the holder has ended its links by then, whatever either sees of the cluster. The catalog refuses a
claim that its holder has renewed meanwhile (broker/catalog/parts/held_links.py). Clocks only have to run equally fast, to
a quarter.

    free, or its holder silent → taken → held ⇄ lapsed, where no renewal is answered → free, when its link has ended here

A node that stops or is drained releases its claims, once their links have ended: another one takes them at once. Which one
should is reckoned by each alike (rendezvous hashing): the first of the nodes that may, and a little later the next, which may
be the only one that knows of the link. A claim moves for no other reason.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from hashlib import blake2b
from typing import Any

from broker.catalog.catalog import Catalog
from broker.catalog.commands.catalog_commands import Command, ReleaseClaim, RenewClaims, TakeClaim
from broker.pending import Pending
from broker.records import ClaimRecord
from links.world import LinkClock

LEASE_S = 5.0
RENEW_S = 1.5
TAKE_S = LEASE_S * 1.25
TURN_S = 1.0  # between two nodes that could take the same claim

LinkKey = tuple[str, str]  # vhost, name


class LinkClaims:
    """Of one kind of links. Call `look` about once a second, and when claims, nodes or links have changed."""

    def __init__(
        self,
        kind: str,
        node: str,
        catalog: Catalog,
        candidates: Callable[[], Collection[str]],
        submit: Callable[[Command], Pending[Any]],
        clock: LinkClock,
    ) -> None:
        """`candidates`: the nodes that may run links, as this one sees it; none while it has no majority."""
        self._kind = kind
        self._node = node
        self._catalog = catalog
        self._candidates = candidates
        self._submit = submit
        self._clock = clock
        self._held_until = float("-inf")  # all that is this node's, if nobody has taken it
        self._asked_at = float("-inf")  # for a renewal
        self._asking: set[LinkKey] = set()  # for a claim, or to be rid of it
        self._wanted: set[LinkKey] = set()
        self._leaves = False
        self._seen: dict[LinkKey, tuple[tuple[str, int, int], float]] = {}  # node, epoch and beat, and since when

    def look(self, wanted: Iterable[LinkKey]) -> set[LinkKey]:
        """Which of the links that are wanted may run here now; all others are to be ended, and then `release_ended` called.
        Takes and renews claims for the next looks."""
        now, candidates = self._clock.monotonic(), self._candidates()
        self._wanted = set(wanted)
        self._seen = {key: seen for key, seen in self._seen.items() if key in self._wanted}
        self._leaves = bool(candidates) and self._node not in candidates
        if self._node not in candidates:
            return set()
        for key in self._wanted:
            self._maybe_take(key, now, candidates)
        mine = {key for key in self._wanted if self._is_mine(key)}
        self._renew(now, mine)
        return mine if now < self._held_until else set()

    def release_ended(self) -> None:
        """Claims of this node on links that are not wanted any more; all of them where it is drained."""
        for record in list(self._catalog.claims()):
            key = record.vhost, record.name
            if (record.kind, record.node) == (self._kind, self._node) and (self._leaves or key not in self._wanted):
                self._release(key, record)

    def release_all(self) -> None:
        """This node stops, and all of its links have ended."""
        self._leaves = True
        self.release_ended()

    @property
    def held_until(self) -> float:
        """Until when what `look` has answered holds, by the clock, unless it is renewed."""
        return self._held_until

    def epoch(self, key: LinkKey) -> int:
        """Of the claim; 0: there is none."""
        record = self._record(key)
        return 0 if record is None else record.epoch

    # renewing

    def _renew(self, now: float, mine: Collection[LinkKey]) -> None:
        if mine and now - self._asked_at >= RENEW_S:
            self._asked_at = now
            self._submit(RenewClaims(self._node)).then(lambda _: self._renewed(now), lambda _: None)

    def _renewed(self, asked_at: float) -> None:
        self._held_until = max(self._held_until, asked_at + LEASE_S)

    # taking

    def _maybe_take(self, key: LinkKey, now: float, candidates: Collection[str]) -> None:
        record = self._record(key)
        if key in self._asking or (record is not None and record.node == self._node):
            return
        waited_s = now - self._unchanged_since(key, record, now) - (0 if record is None else TAKE_S)
        if waited_s >= 0 and waited_s >= TURN_S * ranked(self._kind, key, candidates).index(self._node):
            self._take(key, now)

    def _unchanged_since(self, key: LinkKey, record: ClaimRecord | None, now: float) -> float:
        standing = ("", 0, 0) if record is None else (record.node, record.epoch, self._catalog.beat_of(record.node))
        seen, since = self._seen.get(key, (None, now))
        if seen != standing:
            since = now
            self._seen[key] = standing, now
        return since

    def _take(self, key: LinkKey, now: float) -> None:
        (node_seen, epoch_seen, beat_seen), _ = self._seen[key]
        self._asking.add(key)
        wish = ClaimRecord(self._kind, *key, self._node, epoch_seen)
        self._submit(TakeClaim(wish, node_seen, beat_seen)).then(
            lambda _: self._taken(key, now), lambda _: self._asking.discard(key)
        )

    def _taken(self, key: LinkKey, asked_at: float) -> None:
        self._asking.discard(key)
        self._renewed(asked_at)

    def _release(self, key: LinkKey, record: ClaimRecord) -> None:
        if key not in self._asking:
            self._asking.add(key)
            self._submit(ReleaseClaim(record)).then(
                lambda _: self._asking.discard(key), lambda _: self._asking.discard(key)
            )

    # what is known

    def _record(self, key: LinkKey) -> ClaimRecord | None:
        return self._catalog.claim(self._kind, *key)

    def _is_mine(self, key: LinkKey) -> bool:
        record = self._record(key)
        return record is not None and record.node == self._node


def ranked(kind: str, key: LinkKey, nodes: Iterable[str]) -> list[str]:
    """The nodes in the order in which they should run it. When one goes, only what it ran moves."""
    return sorted(nodes, key=lambda node: (_weight(node, kind, *key), node), reverse=True)


def _weight(*parts: str) -> bytes:
    return blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=8).digest()
