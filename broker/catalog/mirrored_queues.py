"""Classic queues that are to be mirrored become quorum queues: policies and declarations of RabbitMQ 3.x keep their meaning.

A queue that is durable, neither exclusive nor auto-delete, and that is declared under a policy with ha-mode (or with the
argument x-ha-policy, as before there were policies) is declared as a quorum queue: with members on all disk nodes, on so many,
or on those named. Failures count without limit, as they did there. It keeps the argument x-ha-policy, by which it is known:
who declares it again as a classic queue finds it as it should be, whatever has become of the policy. What quorum queues lack
has it stay a classic one: that is told with the queue. One that was there before its policy is converted (node/conversion/).

The kind is decided before anything is submitted, so nodes of any version carry the declaration out alike.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from broker.catalog.arguments import QueueWish, arguments_of_kind
from broker.catalog.commands.catalog_commands import DeclareQueue
from broker.catalog.mirroring import Mirroring, mirroring_of
from broker.catalog.policy import EffectiveArguments, applying
from broker.catalog.proposed_queue import kind_of, proposed_queue
from broker.errors import PreconditionFailed
from broker.names import becoming_queue, is_reserved
from broker.records import Arguments, NodeRecord, PolicyRecord, QueueRecord

if TYPE_CHECKING:
    from broker.catalog.catalog import Catalog

HA_POLICY = "x-ha-policy"
HA_NODES = "x-ha-nodes"  # names of the nodes that members go to
GROUP_SIZE, DELIVERY_LIMIT = "x-quorum-initial-group-size", "x-delivery-limit"
_OF_ITS_OWN = (HA_POLICY, HA_NODES, GROUP_SIZE, DELIVERY_LIMIT)
_WITHOUT_MEANING = frozenset({"x-queue-mode", "x-queue-version", "x-ha-policy-params"})
NO_LIMIT = -1
COPIES_DEFAULT = 3


class MirroringTold(NamedTuple):
    """What became of the wish to have a queue mirrored."""

    mode: str
    active: bool
    notice: str  # why it is not


def as_replicated(catalog: Catalog, wish: DeclareQueue) -> DeclareQueue:
    """The wish, as a quorum queue if its queue is to be mirrored, or is there as such a one. Raises PreconditionFailed for a
    kind that there is not."""
    if wish.vhost not in catalog.vhosts or kind_of(wish, catalog.vhosts) != "classic":
        return wish
    current = catalog.queue(wish.vhost, wish.name)
    if current is not None:
        is_one = current.kind == "quorum" and HA_POLICY in current.arguments
        return _changed(wish, current.arguments) if is_one else wish
    wanted = _wanted(wish, _policy_of(catalog, wish, "classic"))
    if wanted is None or obstacle(catalog, wish):
        return wish
    return _changed(wish, _own_arguments(wanted, list(catalog.nodes.values())))


def as_converted(catalog: Catalog, record: QueueRecord) -> DeclareQueue:
    """The quorum queue that this classic one can become: on as many nodes as its policy says, or three, its home among them.
    Raises PreconditionFailed when it cannot."""
    why = f"it is a {record.kind} queue" if record.kind != "classic" else obstacle(catalog, record)
    wanted = mirroring_of(catalog.effective(record).definition) or _of_argument(record.arguments)
    own = _own_arguments(wanted or Mirroring("exactly", copies=COPIES_DEFAULT), list(catalog.nodes.values()))
    home = catalog.nodes.get(record.home)
    if not why and (home is None or home.kind != "disk" or home.name not in own.get(HA_NODES, [home.name])):
        why = f"its home '{record.home}' is none of the nodes that it could be on"
    if why:
        raise PreconditionFailed(f"{record.label} cannot be converted: {why}")
    name, arguments = becoming_queue(record.name), {**record.arguments, "x-queue-type": "quorum"}
    wish = _changed(DeclareQueue(record.vhost, name, arguments=arguments, home=record.home), own)
    catalog.declared_queue(wish)
    return wish


def told_of(catalog: Catalog, record: QueueRecord, effective: EffectiveArguments) -> MirroringTold | None:
    """None: nobody wants it mirrored."""
    wanted = mirroring_of(effective.definition)
    if record.kind != "classic":
        mode = record.arguments.get(HA_POLICY) or (wanted.mode if wanted is not None else None)
        return MirroringTold(str(mode), True, "") if mode is not None else None
    wanted = wanted or _of_argument(record.arguments)
    if wanted is None:
        return None
    why = obstacle(catalog, record) or "it was there before its policy, and is to be converted"
    return MirroringTold(wanted.mode, False, f"mirroring wanted, not active: {why}")


def stays_alone(catalog: Catalog, wish: DeclareQueue) -> str:
    """Why a queue that is not there yet, and is to be mirrored, will not be; empty: it need not be, or will."""
    record = proposed_queue(wish, catalog.vhosts)
    if record.kind != "classic" or catalog.queue(wish.vhost, wish.name) is not None:
        return ""
    wanted = _wanted(wish, _policy_of(catalog, wish, "classic"))
    return f"mirroring wanted, not active: {obstacle(catalog, wish)}" if wanted is not None else ""


def obstacle(catalog: Catalog, wish: QueueWish) -> str:
    """Why a queue that is to be mirrored stays a classic one; empty: it need not."""
    for holds, text in (
        (wish.exclusive, "it is exclusive"),
        (not wish.durable, "it is not durable"),
        (wish.auto_delete, "it is auto-delete"),
        (is_reserved(wish.name), "its name is the server's"),
    ):
        if holds:
            return text
    lacking = arguments_of_kind("classic") - arguments_of_kind("quorum") - _WITHOUT_MEANING
    for argument in sorted(lacking & wish.arguments.keys()):
        return f"quorum queues have no '{argument}'"
    policy = _policy_of(catalog, wish, "classic")
    if policy is not None and policy != _policy_of(catalog, wish, "quorum"):
        return f"policy '{policy.name}' would not apply to it as a quorum queue"
    return ""


def _policy_of(catalog: Catalog, wish: QueueWish, kind: str) -> PolicyRecord | None:
    return applying(catalog.policies(wish.vhost), kind, wish.name)


def _wanted(wish: QueueWish, policy: PolicyRecord | None) -> Mirroring | None:
    by_policy = mirroring_of(policy.definition) if policy is not None else None
    return by_policy or _of_argument(wish.arguments)


def _of_argument(arguments: Arguments) -> Mirroring | None:
    mode, params = arguments.get(HA_POLICY), arguments.get("x-ha-policy-params")
    if mode == "all":
        return Mirroring("all")
    if mode == "nodes" and isinstance(params, list) and params:
        return Mirroring("nodes", nodes=tuple(map(str, params)))
    return None


def _own_arguments(wanted: Mirroring, nodes: list[NodeRecord]) -> dict[str, Any]:
    named = [node.name for node in nodes if any(_is_named(node.name, one) for one in wanted.nodes)]
    size = {"all": sum(node.kind == "disk" for node in nodes), "exactly": wanted.copies, "nodes": len(wanted.nodes)}
    own: dict[str, Any] = {HA_POLICY: wanted.mode, GROUP_SIZE: len(named) or max(1, size[wanted.mode])}
    return {**own, HA_NODES: named} if named else own


def _is_named(node: str, wanted: str) -> bool:
    """Nodes of RabbitMQ are called rabbit@host."""
    return node in (wanted, wanted.partition("@")[2])


def _changed(wish: DeclareQueue, own: Arguments) -> DeclareQueue:
    kept = {name: value for name, value in wish.arguments.items() if name not in _WITHOUT_MEANING}
    added = {name: own[name] for name in _OF_ITS_OWN if name in own}
    return replace(wish, arguments={DELIVERY_LIMIT: NO_LIMIT, **kept, **added, "x-queue-type": "quorum"}, kind="quorum")
