"""Passwords: how they are kept, and how a log-in is checked without holding up the node or telling an attacker anything.

Kept is an argon2id hash, or one in a form of RabbitMQ's (node/logins/password_hashes.py).

Verifying is made expensive on purpose, so it runs beside the event loop, at low priority, one at a time
(node/logins/login_checks.py). A wrong password, an imported hash and a user that does not exist all take the time of one
argon2 verification. A password that was right is remembered for a while after it was used last, under a keyed hash that means
nothing outside this process: many connections of one application then cost one verification, and a flood of wrong passwords
does not keep it out. The hash kept for the user is part of that key, so a changed password holds at once.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import argon2
from argon2.low_level import ARGON2_VERSION

from broker.errors import PreconditionFailed
from broker.pending import Pending
from broker.records import UserRecord
from node.background import Background
from node.logins.login_checks import CallLater, CheckLimits, LoginChecks
from node.logins.password_hashes import ARGON2, salted_hash, salted_hash_matches

PASSWORD_BYTES_MAX = 1024


@dataclass(slots=True, frozen=True)
class HashCost:
    """What one verification costs; the defaults are OWASP's for argon2id, about 25 ms."""

    memory_kib: int = 19 * 1024
    passes: int = 2
    lanes: int = 1


@dataclass(slots=True, frozen=True)
class VerifierLimits(CheckLimits):
    remembered: int = 4096  # passwords known to be right
    remembered_s: float = 300.0  # since one was used last


def unmatched_hash(cost: HashCost) -> str:
    """An argon2id hash that no password is known to have: it is drawn, not reckoned, which at a start would take 45 ms."""
    salt, tag = (base64.b64encode(secrets.token_bytes(size)).rstrip(b"=").decode() for size in (16, 32))
    return f"$argon2id$v={ARGON2_VERSION}$m={cost.memory_kib},t={cost.passes},p={cost.lanes}${salt}${tag}"


class Verifier:
    """Checks and hashes passwords."""

    def __init__(
        self,
        background: Background,
        monotonic: Callable[[], float],
        call_later: CallLater,
        cost: HashCost | None = None,
        limits: VerifierLimits | None = None,
        hashing: str = ARGON2,
    ) -> None:
        """`hashing`: one of HASHINGS, for passwords that are kept from now on."""
        cost = cost or HashCost()
        self._monotonic = monotonic
        self._limits = limits or VerifierLimits()
        self._hashing = hashing
        self._hasher = argon2.PasswordHasher(
            time_cost=cost.passes, memory_cost=cost.memory_kib, parallelism=cost.lanes, type=argon2.Type.ID
        )
        self._key = secrets.token_bytes(32)
        self._nobodys_hash = unmatched_hash(cost)
        self._remembered: OrderedDict[bytes, float] = OrderedDict()  # keyed hash -> until when
        self._checks: LoginChecks[bool] = LoginChecks("the password", background, monotonic, call_later, self._limits)

    @property
    def busy_total(self) -> int:
        """Of all refusals, those that say nothing of the password."""
        return self._checks.busy_total

    def hash(self, password: str | bytes, current: str | None = None) -> str:
        """What to keep for this password: `current`, where that is its hash already. Takes as long as a verification or two;
        meant for administrators' requests."""
        raw = password.encode() if isinstance(password, str) else password
        if len(raw) > PASSWORD_BYTES_MAX:
            raise PreconditionFailed(f"a password of {len(raw)} bytes is longer than {PASSWORD_BYTES_MAX}")
        if not raw:
            raise PreconditionFailed("a password cannot be empty")
        if current is not None and self._matches(current, raw):
            return current
        return self._hasher.hash(raw) if self._hashing == ARGON2 else salted_hash(self._hashing, raw)

    def verify(self, user: UserRecord | None, password: bytes, name: str, source: str) -> Pending[bool]:
        """Whether this is the user's password; False for nobody, and for a user that no password lets in. `name` is what the
        client claims to be, `source` where it is."""
        if len(password) > PASSWORD_BYTES_MAX:  # it is wrong, and waits and counts like any other wrong one
            user, password = None, password[:PASSWORD_BYTES_MAX]
        kept = user.password_hash if user is not None else None
        credentials = self._credentials(user.name if user is not None else "", kept, password)
        if self._is_remembered(credentials):
            return Pending.of(True)
        matching = self._checks.check(credentials, source, name, lambda: self._matches(kept, password))
        return matching.map(lambda right: self._verified(credentials, right))

    def _verified(self, credentials: bytes, right: bool) -> bool:
        if right:
            self._remember(credentials)
        return right

    def _credentials(self, user: str, kept: str | None, password: bytes) -> bytes:
        keyed = hmac.new(self._key, digestmod=hashlib.sha256)
        for part in (user.encode("utf-8", "surrogateescape"), (kept or "").encode(), password):
            keyed.update(len(part).to_bytes(4, "big"))
            keyed.update(part)
        return keyed.digest()

    def _is_remembered(self, credentials: bytes) -> bool:
        until = self._remembered.get(credentials)
        if until is None:
            return False
        if until <= self._monotonic():
            del self._remembered[credentials]
            return False
        self._remember(credentials)
        return True

    def _remember(self, credentials: bytes) -> None:
        self._remembered[credentials] = self._monotonic() + self._limits.remembered_s
        self._remembered.move_to_end(credentials)
        while len(self._remembered) > self._limits.remembered:
            self._remembered.popitem(last=False)

    def _matches(self, kept: str | None, password: bytes) -> bool:
        """Runs in a thread. One argon2 verification whatever is kept, so that time tells nothing."""
        if kept is not None and kept.startswith("$argon2"):
            right = self._argon2_matches(kept, password)
        else:
            self._argon2_matches(self._nobodys_hash, password)
            right = kept is not None and salted_hash_matches(kept, password)
        return right and bool(password)

    def _argon2_matches(self, kept: str, password: bytes) -> bool:
        try:
            return self._hasher.verify(kept, password)
        except (argon2.exceptions.VerificationError, argon2.exceptions.InvalidHashError):
            return False
