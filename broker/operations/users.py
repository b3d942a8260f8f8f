"""Users: to look at, to make, to change and to delete, and their limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from broker.catalog.commands import catalog_commands as commands
from broker.catalog.definitions.definitions_writer import DEFAULT_HASHING, PasswordHashes
from broker.errors import PreconditionFailed
from broker.login.audit import as_actor_of_now
from broker.operations.node_facts import NodePort
from broker.operations.operator import (
    ADMINISTRATOR,
    MANAGEMENT,
    MONITORING,
    Operator,
    check_administrator_remains,
    check_named,
)
from broker.operations.vhosts import changed_limits
from broker.pending import Pending
from broker.records import UserRecord

if TYPE_CHECKING:
    from broker.broker import Broker

PASSWORD_BYTES_MAX = 1024


@dataclass(slots=True, frozen=True)
class UserView:
    """For administrators only: with the hash, which they may export and set anyway."""

    name: str
    tags: tuple[str, ...]
    has_password: bool
    limits: Mapping[str, int]
    hashing_algorithm: str
    password_hash: str = field(repr=False)  # empty without a password

    @classmethod
    def of(cls, record: UserRecord, hashes: PasswordHashes) -> UserView:
        kept = record.password_hash
        algorithm, password_hash = (DEFAULT_HASHING, "") if kept is None else hashes.exported(kept)
        return cls(record.name, tuple(record.tags), kept is not None, record.limits, algorithm, password_hash)


@dataclass(slots=True, frozen=True)
class UserChange:
    """What is not given stays as it is; a new user has no tags and no password."""

    name: str
    tags: tuple[str, ...] | None = None
    password: str | None = None
    password_hash: tuple[str, str] | None = None  # algorithm and hash, as definitions have them
    clear_password: bool = False  # where neither of the two is given: no password lets them in
    create_only: bool = False
    change_only: bool = False


class Users:
    def __init__(self, broker: Broker, node: NodePort) -> None:
        self._catalog = broker.catalog
        self._submit = broker.metadata.submit
        self._node = node

    def listed(self, who: Operator) -> list[UserView]:
        who.require_tag(ADMINISTRATOR)
        hashes = self._node.password_hashes
        return [UserView.of(record, hashes) for record in self._catalog.users.values()]

    def one(self, who: Operator, name: str) -> UserView:
        who.require_tag(ADMINISTRATOR)
        return UserView.of(self._catalog.existing_user(name), self._node.password_hashes)

    def limits(self, who: Operator, name: str) -> Mapping[str, int]:
        """Their own, or with monitoring everybody's. Raises TagMissing or NotFound."""
        who.require_tag(MANAGEMENT if who.name == name else MONITORING)
        return self._catalog.existing_user(name).limits

    def put(self, who: Operator, change: UserChange) -> Pending[bool]:
        """Answers whether the user existed."""
        who.require_tag(ADMINISTRATOR)
        check_named("user", change.name)
        current = self._catalog.users.get(change.name)
        if change.create_only and current is not None:
            raise PreconditionFailed(f"user '{change.name}' exists already")
        if change.change_only:
            self._catalog.existing_user(change.name)
        record = current or UserRecord(change.name, password_hash=None)
        if change.tags is not None:
            record = replace(record, tags=change.tags)
        loses_password = record.password_hash is not None and self._takes_password(change)
        if ADMINISTRATOR not in record.tags or loses_password:
            self._check_administrator_remains(who, change.name)

        def put(password_hash: str | None) -> Pending[Any]:
            return self._submit(commands.PutUser(replace(record, password_hash=password_hash)))

        answer = self._password_hash(change, record).then_ask(as_actor_of_now(put))
        return answer.map(lambda _: current is not None)

    def _check_administrator_remains(self, who: Operator, losing: str) -> None:
        """Who asks remains one, unless it is themselves that they shut out. Raises PreconditionFailed."""
        if who.name == losing:
            check_administrator_remains(who, [one for one in self._catalog.users.values() if one.name != losing])

    @staticmethod
    def _takes_password(change: UserChange) -> bool:
        return change.clear_password and change.password is None and change.password_hash is None

    def _password_hash(self, change: UserChange, record: UserRecord) -> Pending[str | None]:
        if change.password is not None:
            raw = change.password.encode()
            if not 0 < len(raw) <= PASSWORD_BYTES_MAX:
                raise PreconditionFailed(f"a password has 1 to {PASSWORD_BYTES_MAX} bytes, not {len(raw)}")
            return self._node.hash_password(raw).map(lambda hashed: hashed)
        if change.password_hash is not None:
            return Pending.of(self._node.password_hashes.imported(*change.password_hash))
        return Pending.of(None if change.clear_password else record.password_hash)

    def delete(self, who: Operator, name: str) -> Pending[Any]:
        who.require_tag(ADMINISTRATOR)
        check_named("user", name)
        self._check_administrator_remains(who, name)
        return self._submit(commands.DeleteUser(name))

    def set_limits(self, who: Operator, name: str, limits: Mapping[str, int]) -> Pending[Any]:
        """What is not named is lifted."""
        who.require_tag(ADMINISTRATOR)
        check_named("user", name)
        return self._submit(commands.SetUserLimits(name, dict(limits)))

    def set_limit(self, who: Operator, name: str, limit: str, value: int | None) -> Pending[Any]:
        """One of them; None lifts it. Raises NotFound."""
        who.require_tag(ADMINISTRATOR)
        limits = changed_limits(self._catalog.existing_user(name).limits, limit, value)
        return self.set_limits(who, name, limits)
