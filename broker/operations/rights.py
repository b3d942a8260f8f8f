"""Permissions and topic permissions of users: to look at, to set and to clear."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from broker.catalog import permissions
from broker.catalog.catalog import Catalog
from broker.catalog.commands import catalog_commands as commands
from broker.errors import NotFound
from broker.names import DEFAULT_EXCHANGE_ALIAS
from broker.operations.operator import ADMINISTRATOR, Operator, check_named
from broker.pending import Pending
from broker.records import PermissionRecord, TopicPermissionRecord

if TYPE_CHECKING:
    from broker.broker import Broker

Right = TypeVar("Right", PermissionRecord, TopicPermissionRecord)


class Rights:
    def __init__(self, broker: Broker) -> None:
        self._catalog = broker.catalog
        self._submit = broker.metadata.submit

    # permissions

    def listed(self, who: Operator, vhost: str | None = None, user: str | None = None) -> list[PermissionRecord]:
        """Of one vhost or all, and of one user or all. Raises NotFound for a vhost or user that does not exist."""
        who.require_tag(ADMINISTRATOR)
        return _selected(self._catalog, self._catalog.all_permissions(), vhost, user)

    def one(self, who: Operator, vhost: str, user: str) -> PermissionRecord:
        who.require_tag(ADMINISTRATOR)
        record = self._catalog.permissions(user, vhost)
        if record is None:
            raise NotFound(f"user '{user}' has no permissions in vhost '{vhost}'")
        return record

    def access(self, who: Operator, user: str, vhost: str, name: str) -> dict[str, bool]:
        """What the user may do with a queue or exchange of this name, whether it exists or not. Raises NotFound."""
        who.require_tag(ADMINISTRATOR)
        record = self._catalog.users.get(user)
        if record is None:
            raise NotFound(f"no user '{user}'")
        if vhost not in self._catalog.vhosts:
            raise NotFound(f"no vhost '{vhost}'")
        name = name or DEFAULT_EXCHANGE_ALIAS
        found = {"enter": permissions.may_enter(self._catalog, record, vhost)}
        for access in permissions.ACCESSES:
            found[access] = permissions.allowed(self._catalog, record, vhost, access, name)
        return found

    def set(self, who: Operator, record: PermissionRecord) -> Pending[bool]:
        """Answers whether the user had some there."""
        who.require_tag(ADMINISTRATOR)
        check_named("user", record.user)
        existed = self._catalog.permissions(record.user, record.vhost) is not None
        return self._submit(commands.PutPermission(record)).map(lambda _: existed)

    def clear(self, who: Operator, vhost: str, user: str) -> Pending[Any]:
        """A user who has none is fine."""
        who.require_tag(ADMINISTRATOR)
        check_named("user", user)
        return self._submit(commands.DeletePermission(user, vhost))

    # topic permissions

    def listed_topics(
        self, who: Operator, vhost: str | None = None, user: str | None = None
    ) -> list[TopicPermissionRecord]:
        """As `listed`."""
        who.require_tag(ADMINISTRATOR)
        return _selected(self._catalog, self._catalog.all_topic_permissions(), vhost, user)

    def set_topic(self, who: Operator, record: TopicPermissionRecord) -> Pending[Any]:
        who.require_tag(ADMINISTRATOR)
        check_named("user", record.user)
        return self._submit(commands.PutTopicPermission(record))

    def clear_topics(self, who: Operator, vhost: str, user: str, exchange: str | None = None) -> Pending[Any]:
        """On one exchange or on all. A user who has none is fine."""
        who.require_tag(ADMINISTRATOR)
        check_named("user", user)
        return self._submit(commands.DeleteTopicPermission(user, vhost, exchange))


def _selected(catalog: Catalog, records: Iterable[Right], vhost: str | None, user: str | None) -> list[Right]:
    if vhost is not None:
        catalog.namespace(vhost)
    if user is not None:
        catalog.existing_user(user)
    return [record for record in records if vhost in (None, record.vhost) and user in (None, record.user)]
