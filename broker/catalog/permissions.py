"""Who may do what: three patterns for each user and vhost, and two more for each topic exchange.

    configure   declare and delete
    write       publish to an exchange, bind a queue or an exchange that receives
    read        consume, get, purge; bind from an exchange

A pattern is searched for in the name, so it anchors itself: `^orders-` or `^$`. The empty pattern allows nothing, and no
record allows nothing. The default exchange is asked about under the name `amq.default`. Topic permissions restrict: a
user without any for an exchange may use every routing key there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from broker.catalog.catalog import Catalog
from broker.catalog.patterns import matches
from broker.catalog.permission_patterns import filled_in
from broker.errors import AccessRefused
from broker.names import DEFAULT_EXCHANGE, DEFAULT_EXCHANGE_ALIAS, labelled

Access = Literal["configure", "write", "read"]
ACCESSES: tuple[Access, ...] = ("configure", "write", "read")
ResourceKind = Literal["queue", "exchange"]


def may_enter(catalog: Catalog, user: str, vhost: str) -> bool:
    """Whether the user has any permission record for the vhost."""
    return catalog.permissions(user, vhost) is not None


def allowed(catalog: Catalog, user: str, vhost: str, access: Access, name: str) -> bool:
    permission = catalog.permissions(user, vhost)
    if permission is None:
        return False
    pattern = {"configure": permission.configure, "write": permission.write, "read": permission.read}[access]
    return matches(pattern, name)


def check(catalog: Catalog, user: str, vhost: str, access: Access, kind: ResourceKind, name: str) -> None:
    """Raises AccessRefused when the user may not do this to the queue or exchange of this name, existing or not."""
    if kind == "exchange" and name == DEFAULT_EXCHANGE:
        name = DEFAULT_EXCHANGE_ALIAS
    if not allowed(catalog, user, vhost, access, name):
        raise AccessRefused(f"{access} access to {labelled(kind, name, vhost)} refused for user '{user}'")


def check_any(catalog: Catalog, user: str, vhost: str, kind: ResourceKind, name: str) -> None:
    """Raises AccessRefused when the user may do nothing at all with this name: then even whether it exists is not told.

    Who only publishes or only consumes may ask whether what it uses is there, as many clients do when they start.
    """
    if not any(allowed(catalog, user, vhost, access, name) for access in ACCESSES):
        raise AccessRefused(f"access to {labelled(kind, name, vhost)} refused for user '{user}'")


def check_topic(
    catalog: Catalog,
    user: str,
    vhost: str,
    access: Literal["write", "read"],
    exchange: str,
    routing_key: str,
    variables: Mapping[str, str] | None = None,
) -> None:
    """Raises AccessRefused when the user may not publish (write) or bind (read) with this key at this topic exchange.

    For exchanges of other kinds, and where no topic permission was set, every key is allowed. `variables` may add
    client_id; username and vhost are known.
    """
    permission = catalog.topic_permissions(user, vhost).get(exchange)
    if permission is None:
        return
    record = catalog.exchange(vhost, exchange)
    if record is None or record.kind != "topic":
        return
    pattern = permission.write if access == "write" else permission.read
    if not matches(filled_in(pattern, {"username": user, "vhost": vhost, **(variables or {})}), routing_key):
        raise AccessRefused(
            f"{access} access to topic '{routing_key}' in {labelled('exchange', exchange, vhost)} "
            f"refused for user '{user}'"
        )
