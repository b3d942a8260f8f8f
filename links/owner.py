"""On which node a link runs: the one that hashes highest with its name, of those that can take it.

Every node reckons this by itself from the catalog and from whom it reaches. When a node goes, only what ran there moves
(rendezvous hashing). Two nodes that see the cluster differently may run a link at once for a moment: then a message may
arrive twice, as after every restart of a link, and none is lost.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b


def owner_of(vhost: str, name: str, nodes: Iterable[str]) -> str | None:
    """None: there is no node."""
    return max(nodes, key=lambda node: (_weight(node, vhost, name), node), default=None)


def _weight(node: str, vhost: str, name: str) -> bytes:
    return blake2b("\0".join((node, vhost, name)).encode("utf-8", "surrogatepass"), digest_size=8).digest()
