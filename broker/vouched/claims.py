"""Who a token says its bearer is: from the claims of a token, whose signature was found to be right, to a user.

As RabbitMQ reads them: `aud` names this resource server, `exp` is in the future, the name is the first of the preferred claims
that is there, and scopes are collected from `scope`, from Keycloak's permissions, from the places that the operator has named
beside them, and from aliases. Those with the prefix of this resource server count, without it. Claims are a stranger's JSON:
what has another type than it should have counts as not there.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from broker.vouched.scopes import ASKED_VHOST, ScopeRights
from broker.vouched.vouched_user import VouchedUser
from broker.vouched.wildcard import literally

Claims = Mapping[str, Any]

SCOPES_MAX = 2_048
NAME_BYTES_MAX = 255
NAMELESS = "unknown"  # whose token has none of the preferred claims
PERMISSION_TICKET = "authorization.permissions.scopes"  # where Keycloak has the scopes of a requesting party token
PATH_STEPS_MAX = 8  # of a path into claims
_VARIABLE = re.compile(r"\{([^{}]+)\}")


class TokenRefused(Exception):
    """Returned when a token does not let in. The text says why, for the log, and never holds the token."""


@dataclass(slots=True, frozen=True)
class TokenTerms:
    """What this resource server asks of tokens."""

    resource_server_id: str
    scope_prefix: str
    verify_aud: bool = True
    issuer: str = ""  # empty: whoever has a key
    require_exp: bool = True
    leeway_s: float = 0.0
    additional_scopes: Sequence[str] = ()  # paths to scopes, steps with dots between them
    scope_aliases: Mapping[str, Sequence[str]] = field(default_factory=dict)
    username_claims: Sequence[str] = ("sub", "client_id")


def user_of(claims: Claims, terms: TokenTerms, now_ms: int) -> VouchedUser:
    """Raises TokenRefused."""
    until_ms = _until_ms(claims, terms, now_ms)
    if terms.issuer and claims.get("iss") != terms.issuer:
        raise TokenRefused("its issuer (iss) is not oauth2.issuer")
    if terms.verify_aud and terms.resource_server_id not in _texts(claims.get("aud")):
        raise TokenRefused(f"its audience (aud) does not name '{terms.resource_server_id}'")
    rights = ScopeRights(_filled_in(scope, claims) for scope in _own_scopes(claims, terms))
    return VouchedUser(_name(claims, terms), None, rights.tags, rights=rights, until_ms=until_ms)


def _until_ms(claims: Claims, terms: TokenTerms, now_ms: int) -> int | None:
    leeway_ms = round(terms.leeway_s * 1000)
    not_before = _time_ms(claims, "nbf")
    if not_before is not None and now_ms < not_before - leeway_ms:
        raise TokenRefused("it is not valid yet (nbf)")
    expires = _time_ms(claims, "exp")
    if expires is None:
        if terms.require_exp:
            raise TokenRefused("it has no exp claim")
        return None
    if now_ms >= expires + leeway_ms:
        raise TokenRefused("it has expired (exp)")
    return expires + leeway_ms


def _time_ms(claims: Claims, name: str) -> int | None:
    """Whole seconds count, as with RabbitMQ."""
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise TokenRefused(f"its {name} claim is not a number")
    return math.floor(value) * 1000


def _name(claims: Claims, terms: TokenTerms) -> str:
    found = (claims.get(claim) for claim in terms.username_claims)
    name = next((one for one in found if isinstance(one, str) and one), NAMELESS)
    if not name.isprintable() or len(name.encode()) > NAME_BYTES_MAX:
        raise TokenRefused(f"its user name has characters that cannot be shown, or more than {NAME_BYTES_MAX} bytes")
    return name


def _own_scopes(claims: Claims, terms: TokenTerms) -> Iterable[str]:
    """Those with the prefix of this resource server, without it. Raises TokenRefused."""
    scopes = list(_all_scopes(claims, terms))
    scopes += [expanded for one in scopes for expanded in terms.scope_aliases.get(one, ())]
    prefix = terms.scope_prefix
    own = dict.fromkeys(one.removeprefix(prefix) for one in scopes if one.startswith(prefix))
    if len(own) > SCOPES_MAX:
        raise TokenRefused(f"it has {len(own)} scopes, and at most {SCOPES_MAX} are read")
    return own


def _all_scopes(claims: Claims, terms: TokenTerms) -> Iterator[str]:
    yield from _texts(claims.get("scope"))
    for path in (PERMISSION_TICKET, *terms.additional_scopes):
        for value in _found(claims, path.split(".")[:PATH_STEPS_MAX]):
            yield from _scopes_in(value, terms.resource_server_id)


def _scopes_in(value: Any, resource_server_id: str) -> Iterable[str]:
    """Of an object, what it has for this resource server; those are without a prefix."""
    if isinstance(value, dict):
        return [f"{resource_server_id}.{one}" for one in _texts(value.get(resource_server_id))]
    return _texts(value)


def _found(value: Any, steps: Sequence[str]) -> Iterator[Any]:
    """What lies at the end of the steps; in a list on the way each object is looked into."""
    if not steps:
        yield value
    elif isinstance(value, dict):
        if steps[0] in value:
            yield from _found(value[steps[0]], steps[1:])
    elif isinstance(value, list):
        for one in value:
            if isinstance(one, dict):
                yield from _found(one, steps)


def _texts(value: Any) -> list[str]:
    """A list of texts, or one text with spaces between them."""
    if isinstance(value, str):
        return value.split()
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def _filled_in(scope: str, claims: Claims) -> str:
    """`{claim}` is replaced by what the token says there, which is a text and never a pattern."""

    def value(match: re.Match[str]) -> str:
        claim = claims.get(match[1])
        return literally(claim) if isinstance(claim, str) and match[0] != ASKED_VHOST else match[0]

    return _VARIABLE.sub(value, scope)
