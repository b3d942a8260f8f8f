"""A user whom the catalog need not know: somebody else vouches for the name, the tags, and what they may do."""

from __future__ import annotations

from dataclasses import dataclass

from broker.records import UserRecord
from broker.vouched.scopes import ScopeRights


@dataclass(slots=True, frozen=True, kw_only=True)
class VouchedUser(UserRecord):
    """Never stored. Permissions that the catalog has for a user of this name are another's."""

    rights: ScopeRights
    until_ms: int | None  # from then on nobody vouches any more; None: it was not said

    @property
    def vouched(self) -> ScopeRights | None:
        return self.rights

    def has_ended(self, now: int) -> bool:
        return self.until_ms is not None and now >= self.until_ms
