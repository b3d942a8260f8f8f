"""Users for whom a token vouches, as tests need them."""

from __future__ import annotations

from broker.vouched.scopes import ScopeRights
from broker.vouched.vouched_user import VouchedUser


def bearer(name: str, *scopes: str, until_ms: int | None = None) -> VouchedUser:
    rights = ScopeRights(scopes)
    return VouchedUser(name, None, rights.tags, rights=rights, until_ms=until_ms)
