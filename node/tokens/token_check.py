"""Whether a token is what it says: its form, its key, its signature, and then its claims. Made for a thread: a signature takes
a fraction of a millisecond, and anybody may send tokens."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jwt
import msgspec

from broker.vouched.claims import TokenRefused, TokenTerms, user_of
from broker.vouched.vouched_user import VouchedUser
from node.tokens.verification_keys import VerificationKey

TOKEN_BYTES_MAX = 16_384
# Three parts with dots between them, of which the first is the beginning of a JSON object. No password looks like that.
_TOKEN = re.compile(rb"e[wy][A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*")
_JWS = jwt.PyJWS()

Keys = Mapping[str, VerificationKey]


@dataclass(slots=True, frozen=True)
class TokenVerdict:
    """What a check has found."""

    user: VouchedUser | None = None
    refused: str = ""
    key_missing: bool = False  # perhaps its issuer has a new one
    key: VerificationKey | None = None  # that it was signed with

    def __bool__(self) -> bool:
        return self.user is not None


@dataclass(slots=True, frozen=True)
class TokenRules:
    """Which tokens are taken."""

    terms: TokenTerms
    algorithms: frozenset[str]
    default_kid: str = ""  # of the key of tokens that name none


def has_token_form(secret: bytes) -> bool:
    return _TOKEN.fullmatch(secret) is not None


def checked(token: bytes, keys: Keys, rules: TokenRules, wall_ms: Callable[[], int]) -> TokenVerdict:
    """Raises nothing for any token."""
    try:
        header = _header(token)
        kid = header.get("kid", rules.default_kid)
        key = keys.get(kid) if isinstance(kid, str) else None
        if key is None:
            return TokenVerdict(refused="it names a key (kid) that is not known here", key_missing=True)
        claims = _claims(token, header, key, rules)
        return TokenVerdict(user_of(claims, rules.terms, wall_ms()), key=key)
    except TokenRefused as error:
        return TokenVerdict(refused=str(error))


def _header(token: bytes) -> dict[str, Any]:
    """Not verified yet: nothing in it is believed but which key and which of its algorithms to try."""
    if len(token) > TOKEN_BYTES_MAX:
        raise TokenRefused(f"it has {len(token)} bytes, and at most {TOKEN_BYTES_MAX} are read")
    if not has_token_form(token):
        raise TokenRefused("it is no signed JSON Web Token")
    try:
        return jwt.get_unverified_header(token)
    except (jwt.PyJWTError, ValueError, RecursionError) as error:
        raise TokenRefused("its header cannot be read") from error


def _claims(token: bytes, header: dict[str, Any], key: VerificationKey, rules: TokenRules) -> dict[str, Any]:
    algorithm = header.get("alg")
    if not isinstance(algorithm, str) or algorithm not in key.algorithms & rules.algorithms:
        raise TokenRefused(f"its key is not used with the algorithm {str(algorithm)[:20]!r} (oauth2.algorithms)")
    try:
        payload = _JWS.decode_complete(token, key.key, algorithms=[algorithm])["payload"]
    except (jwt.PyJWTError, ValueError, RecursionError) as error:
        raise TokenRefused("its signature is not of that key") from error
    try:
        claims = msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise TokenRefused("its claims are not JSON, or nested too deeply") from error
    if not isinstance(claims, dict):
        raise TokenRefused("its claims are no JSON object")
    return claims
