"""Who may do what: three patterns for each user and vhost, and two more for each topic exchange.

    configure   declare and delete
    write       publish to an exchange, bind a queue or an exchange that receives
    read        consume, get, purge; bind from an exchange

A pattern is searched for in the name, so it anchors itself: `^orders-` or `^$`. The empty pattern allows nothing, and no
record allows nothing. The default exchange is asked about under the name `amq.default`. Topic permissions restrict: a
user without any for an exchange may use every routing key there.

A user for whom somebody else vouches (broker/vouched/) may do what that allows, and nothing of this counts. There topic
permissions grant: without one for it no routing key may be used at a topic exchange.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Protocol

from broker.catalog.catalog import Catalog
from broker.catalog.patterns import permits
from broker.catalog.permission_patterns import filled_in
from broker.errors import AccessRefused
from broker.names import DEFAULT_EXCHANGE, DEFAULT_EXCHANGE_ALIAS, labelled
from broker.vouched.scopes import ScopeRights

Access = Literal["configure", "write", "read"]
ACCESSES: tuple[Access, ...] = ("configure", "write", "read")
ResourceKind = Literal["queue", "exchange"]


class WhoAsks(Protocol):
    """A user, whoever says what they may do."""

    @property
    def name(self) -> str: ...

    @property
    def vouched(self) -> ScopeRights | None:
        """As UserRecord has it."""


def may_enter(catalog: Catalog, who: WhoAsks, vhost: str) -> bool:
    """Whether the user has any permission for the vhost."""
    if who.vouched is not None:
        return who.vouched.may_enter(vhost)
    return catalog.permissions(who.name, vhost) is not None


def allowed(catalog: Catalog, who: WhoAsks, vhost: str, access: Access, name: str) -> bool:
    if who.vouched is not None:
        return who.vouched.allows(vhost, access, name)
    permission = catalog.permissions(who.name, vhost)
    if permission is None:
        return False
    pattern = {"configure": permission.configure, "write": permission.write, "read": permission.read}[access]
    return permits(pattern, name)


def check(catalog: Catalog, who: WhoAsks, vhost: str, access: Access, kind: ResourceKind, name: str) -> None:
    """Raises AccessRefused when the user may not do this to the queue or exchange of this name, existing or not."""
    if kind == "exchange" and name == DEFAULT_EXCHANGE:
        name = DEFAULT_EXCHANGE_ALIAS
    if not allowed(catalog, who, vhost, access, name):
        raise AccessRefused(f"{access} access to {labelled(kind, name, vhost)} refused for user '{who.name}'")


def check_any(catalog: Catalog, who: WhoAsks, vhost: str, kind: ResourceKind, name: str) -> None:
    """Raises AccessRefused when the user may do nothing at all with this name: then even whether it exists is not told.

    Who only publishes or only consumes may ask whether what it uses is there, as many clients do when they start.
    """
    if not any(allowed(catalog, who, vhost, access, name) for access in ACCESSES):
        raise AccessRefused(f"access to {labelled(kind, name, vhost)} refused for user '{who.name}'")


def check_topic(
    catalog: Catalog,
    who: WhoAsks,
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
    permission = catalog.topic_permissions(who.name, vhost).get(exchange)
    if permission is None and who.vouched is None:
        return
    record = catalog.exchange(vhost, exchange)
    if record is None or record.kind != "topic":
        return
    if who.vouched is not None:
        may = who.vouched.allows_topic(vhost, access, exchange, routing_key)
    else:
        assert permission is not None, "the catalog says what this user may do, and nothing about this exchange"
        pattern = permission.write if access == "write" else permission.read
        may = permits(filled_in(pattern, {"username": who.name, "vhost": vhost, **(variables or {})}), routing_key)
    if not may:
        raise AccessRefused(
            f"{access} access to topic '{routing_key}' in {labelled('exchange', exchange, vhost)} "
            f"refused for user '{who.name}'"
        )
