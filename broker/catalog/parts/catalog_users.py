"""The part of the catalog that says who the users are, and what they may do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from broker.catalog.commands import catalog_commands as commands
from broker.catalog.parts.catalog_limits import check_count
from broker.catalog.parts.catalog_part import CatalogPart
from broker.catalog.permission_patterns import check_permission, check_topic_permission
from broker.errors import NotFound, PreconditionFailed
from broker.limits import USER_LIMITS, check_limits, given_limits
from broker.names import check_length, check_name
from broker.records import PermissionRecord, TopicPermissionRecord, UserRecord

USER_TAGS_MAX = 32


class CatalogUsers(CatalogPart):
    """A user goes with all permissions that it has."""

    users: dict[str, UserRecord]
    _permissions: dict[tuple[str, str], PermissionRecord]  # by user and vhost
    _topic_permissions: dict[tuple[str, str], dict[str, TopicPermissionRecord]]  # the same; then by exchange

    def existing_user(self, name: str) -> UserRecord:
        """Raises NotFound."""
        record = self.users.get(name)
        if record is None:
            raise NotFound(f"no user '{name}'")
        return record

    def permissions(self, user: str, vhost: str) -> PermissionRecord | None:
        return self._permissions.get((user, vhost))

    def all_permissions(self) -> Iterable[PermissionRecord]:
        return self._permissions.values()

    def topic_permissions(self, user: str, vhost: str) -> Mapping[str, TopicPermissionRecord]:
        """By exchange."""
        return self._topic_permissions.get((user, vhost), {})

    def all_topic_permissions(self) -> Iterable[TopicPermissionRecord]:
        return (record for of_vhost in self._topic_permissions.values() for record in of_vhost.values())

    # commands

    def put_user(self, command: commands.PutUser) -> UserRecord:
        record = command.record
        check_name("user", record.name)
        check_limits(record.limits, USER_LIMITS)
        if len(record.tags) > USER_TAGS_MAX:
            raise PreconditionFailed(
                f"user '{record.name}': {len(record.tags)} tags, and at most {USER_TAGS_MAX} are allowed"
            )
        current = self.users.get(record.name)
        if current is None:
            check_count("users", len(self.users), self.limits.users)
        else:
            record = replace(record, limits=current.limits)
        self._keep_user(record)
        self._changed(record, True)
        return record

    def delete_user(self, command: commands.DeleteUser) -> UserRecord:
        record = self.existing_user(command.name)
        self._delete_permissions(lambda user, vhost: user == command.name)
        del self.users[command.name]
        self._note_rates("user", command.name, {})
        self._changed(record, False)
        return record

    def set_user_limits(self, command: commands.SetUserLimits) -> UserRecord:
        record = self.existing_user(command.user)
        check_limits(command.limits, USER_LIMITS)
        record = replace(record, limits=given_limits(command.limits))
        self._keep_user(record)
        self._changed(record, True)
        return record

    def _keep_user(self, record: UserRecord) -> None:
        self.users[record.name] = record
        self._note_rates("user", record.name, record.limits)

    def put_permission(self, command: commands.PutPermission) -> PermissionRecord:
        record = command.record
        self.existing_user(record.user)
        self.namespace(record.vhost)
        check_permission(record, self.limits.regex_length)
        self._permissions[record.user, record.vhost] = record
        self._changed(record, True)
        return record

    def delete_permission(self, command: commands.DeletePermission) -> PermissionRecord | None:
        record = self._permissions.pop((command.user, command.vhost), None)
        if record is not None:
            self._changed(record, False)
        return record

    def put_topic_permission(self, command: commands.PutTopicPermission) -> TopicPermissionRecord:
        record = command.record
        self.existing_user(record.user)
        self.namespace(record.vhost)
        check_topic_permission(record, self.limits.regex_length)
        check_length("exchange", record.exchange)
        self._topic_permissions.setdefault((record.user, record.vhost), {})[record.exchange] = record
        self._changed(record, True)
        return record

    def delete_topic_permission(self, command: commands.DeleteTopicPermission) -> list[TopicPermissionRecord]:
        key = command.user, command.vhost
        records = self._topic_permissions.get(key, {})
        exchanges = list(records) if command.exchange is None else [command.exchange]
        gone = [records.pop(exchange) for exchange in exchanges if exchange in records]
        if not records:
            self._topic_permissions.pop(key, None)
        for record in gone:
            self._changed(record, False)
        return gone

    def _delete_permissions(self, concerned: Callable[[str, str], bool]) -> None:
        for key in [key for key in self._permissions if concerned(*key)]:
            self._changed(self._permissions.pop(key), False)
        for key in [key for key in self._topic_permissions if concerned(*key)]:
            for record in self._topic_permissions.pop(key).values():
                self._changed(record, False)

    # taking back what was stored

    def _load_user(self, record: UserRecord) -> None:
        self._keep_user(record)

    def _load_permission(self, record: PermissionRecord) -> None:
        self._permissions[record.user, record.vhost] = record

    def _load_topic_permission(self, record: TopicPermissionRecord) -> None:
        self._topic_permissions.setdefault((record.user, record.vhost), {})[record.exchange] = record
