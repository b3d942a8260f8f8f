"""Who asks for an operation: a user with tags, and the vhosts that they may see."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from broker.catalog import permissions
from broker.catalog.catalog import Catalog
from broker.errors import AccessRefused, InvalidRequest, NotFound, PreconditionFailed
from broker.records import UserRecord
from broker.vouched.scopes import ScopeRights
from broker.vouched.vouched_user import VouchedUser

MANAGEMENT = "management"
POLICYMAKER = "policymaker"
MONITORING = "monitoring"
ADMINISTRATOR = "administrator"

# Each includes those beside it.
INCLUDED_TAGS = {
    ADMINISTRATOR: frozenset({ADMINISTRATOR, MONITORING, POLICYMAKER, MANAGEMENT}),
    MONITORING: frozenset({MONITORING, MANAGEMENT}),
    POLICYMAKER: frozenset({POLICYMAKER, MANAGEMENT}),
    MANAGEMENT: frozenset({MANAGEMENT}),
}


class TagMissing(AccessRefused):
    """Returned when the operation needs a tag that its user does not have."""


@dataclass(slots=True, frozen=True)
class Operator:
    """A user who administers, as far as their tags allow it."""

    name: str
    tags: tuple[str, ...]
    vouched: ScopeRights | None = None  # as UserRecord has it

    @classmethod
    def of(cls, user: UserRecord) -> Operator:
        return cls(user.name, tuple(user.tags), user.vouched)

    @property
    def login(self) -> UserRecord:
        """As a connection of theirs has it."""
        if self.vouched is None:
            return UserRecord(self.name, None, self.tags)
        return VouchedUser(self.name, None, self.tags, rights=self.vouched, until_ms=None)

    @property
    def rights_key(self) -> tuple[Any, ...]:
        """The same for those who may do the same while the catalog does not change."""
        return (self.name, self.tags, None if self.vouched is None else self.vouched.scopes)

    def is_user(self, user: UserRecord | None) -> bool:
        """Whether that login is theirs. One who is vouched for and a user of the catalog are two, also with the same name."""
        return user is not None and user.name == self.name and (user.vouched is None) == (self.vouched is None)

    def has_tag(self, tag: str) -> bool:
        """Or one that includes it."""
        return any(tag in INCLUDED_TAGS.get(one, ()) for one in self.tags)

    def require_tag(self, tag: str) -> None:
        """Raises TagMissing."""
        if not self.has_tag(tag):
            tags = ", ".join(self.tags) or "none"
            raise TagMissing(f"user '{self.name}' needs the tag '{tag}' for this; its tags are: {tags}")

    # vhosts

    def may_see(self, catalog: Catalog, vhost: str) -> bool:
        """Monitoring sees every vhost, others those that they may enter."""
        return self.has_tag(MONITORING) or permissions.may_enter(catalog, self, vhost)

    def check_may_see(self, catalog: Catalog, vhost: str) -> None:
        """Only those who may see a vhost learn whether it exists. Raises AccessRefused or NotFound."""
        if not self.may_see(catalog, vhost):
            raise no_access(self, vhost)
        if vhost not in catalog.vhosts:
            raise NotFound(f"no vhost '{vhost}'")

    def vhosts(self, catalog: Catalog, vhost: str | None) -> list[str]:
        """The one that a listing is limited to, or all that they may see. Raises AccessRefused or NotFound."""
        if vhost is None:
            return [name for name in catalog.vhosts if self.may_see(catalog, name)]
        self.check_may_see(catalog, vhost)
        return [vhost]


def check_named(what: str, name: str) -> None:
    """Raises InvalidRequest."""
    if not name:
        raise InvalidRequest(f"the name of the {what} is missing")


def no_access(who: Operator, vhost: str) -> AccessRefused:
    return AccessRefused(f"user '{who.name}' has no access to vhost '{vhost}'")


def has_administrator(users: Iterable[UserRecord]) -> bool:
    """Whether one of them can log in with a password, and do everything."""
    return any(ADMINISTRATOR in one.tags and one.password_hash is not None for one in users)


def check_administrator_remains(who: Operator, users: Iterable[UserRecord]) -> None:
    """`users`: as they would be when who asks has shut themselves out. Raises PreconditionFailed."""
    if who.vouched is None and not has_administrator(users):
        raise PreconditionFailed(
            f"user '{who.name}' is the last administrator with a password, and nobody could undo this: "
            "first give another user the tag administrator"
        )
