"""What a declaration would make, for whoever looks at it first: the one place that decides the kind of a queue."""

from __future__ import annotations

from collections.abc import Mapping

from broker.catalog.arguments import kind_of_queue
from broker.catalog.commands.catalog_commands import DeclareQueue
from broker.records import QueueRecord, VhostRecord


def kind_of(wish: DeclareQueue, vhosts: Mapping[str, VhostRecord]) -> str:
    """As its argument says, or the declaration, or its virtual host, in this order."""
    default = wish.kind or vhosts[wish.vhost].default_queue_type
    return kind_of_queue(wish.vhost, wish.name, wish.arguments, default)


def proposed_queue(wish: DeclareQueue, vhosts: Mapping[str, VhostRecord]) -> QueueRecord:
    """The queue without what its declaration adds."""
    return QueueRecord(
        vhost=wish.vhost,
        name=wish.name,
        kind=kind_of(wish, vhosts),
        durable=wish.durable,
        exclusive=wish.exclusive,
        auto_delete=wish.auto_delete,
        arguments=wish.arguments,
        id=0,
    )
