"""Passwords: how they are kept, and how a log-in is checked without holding up the node or telling an attacker anything.

Kept is an argon2id hash, or one imported from RabbitMQ:

    $argon2id$v=19$m=...,t=...,p=...$salt$hash
    $rabbit-sha256$<base64 of salt (4 bytes) and SHA-256 of salt and password>

Verifying is made expensive on purpose, so it runs beside the event loop, for few log-ins at a time. A wrong password, an
imported hash and a user that does not exist all take the time of one argon2 verification. A password that was right is
remembered for a while, under a keyed hash that means nothing outside this process: many connections of one application
then cost one verification. The hash kept for the user is part of that key, so a changed password holds at once.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import argon2

from broker.definitions import PasswordHashes
from broker.errors import PreconditionFailed, ResourceExhausted
from broker.pending import Pending
from broker.records import UserRecord
from node.background import Background

PASSWORD_BYTES_MAX = 1024
RABBITMQ_PREFIX = "$rabbit-sha256$"
_RABBITMQ_SALT_BYTES = 4
_RABBITMQ_HASH_BYTES = 32


@dataclass(slots=True, frozen=True)
class HashCost:
    """What one verification costs; the defaults are OWASP's for argon2id, about 25 ms."""

    memory_kib: int = 19 * 1024
    passes: int = 2
    lanes: int = 1


@dataclass(slots=True, frozen=True)
class VerifierLimits:
    remembered: int = 1024  # passwords known to be right
    remembered_s: float = 300.0
    waiting: int = 256  # verifications begun or waiting; more are refused, so that a flood of log-ins stays harmless


class Verifier:
    """Checks and hashes passwords."""

    def __init__(
        self,
        background: Background,
        monotonic: Callable[[], float],
        cost: HashCost | None = None,
        limits: VerifierLimits | None = None,
    ) -> None:
        cost = cost or HashCost()
        self._background = background
        self._monotonic = monotonic
        self._limits = limits or VerifierLimits()
        self._hasher = argon2.PasswordHasher(
            time_cost=cost.passes, memory_cost=cost.memory_kib, parallelism=cost.lanes, type=argon2.Type.ID
        )
        self._key = secrets.token_bytes(32)
        self._nobodys_hash = self._hasher.hash(secrets.token_bytes(16))
        self._remembered: OrderedDict[bytes, float] = OrderedDict()  # keyed hash -> until when
        self._running: dict[bytes, list[Pending[bool]]] = {}  # those who wait for the same verification

    def hash(self, password: str | bytes) -> str:
        """What to keep for this password. Takes as long as a verification; meant for administrators' requests."""
        raw = password.encode() if isinstance(password, str) else password
        if len(raw) > PASSWORD_BYTES_MAX:
            raise PreconditionFailed(f"a password of {len(raw)} bytes is longer than {PASSWORD_BYTES_MAX}")
        if not raw:
            raise PreconditionFailed("a password cannot be empty")
        return self._hasher.hash(raw)

    def verify(self, user: UserRecord | None, password: bytes) -> Pending[bool]:
        """Whether this is the user's password; False for nobody, and for a user that no password lets in."""
        if len(password) > PASSWORD_BYTES_MAX:
            return Pending.of(False)
        kept = user.password_hash if user is not None else None
        credentials = self._credentials(user.name if user is not None else "", kept, password)
        if self._is_remembered(credentials):
            return Pending.of(True)
        pending: Pending[bool] = Pending()
        if credentials in self._running:
            self._running[credentials].append(pending)
            return pending
        if len(self._running) >= self._limits.waiting:
            return Pending.failed(ResourceExhausted(f"{len(self._running)} log-ins are being checked: try again later"))
        self._running[credentials] = [pending]
        self._background.run(
            lambda: self._matches(kept, password), lambda right, error: self._finished(credentials, right, error)
        )
        return pending

    def _finished(self, credentials: bytes, right: bool | None, error: Exception | None) -> None:
        waiting = self._running.pop(credentials)
        if right:
            self._remember(credentials)
        for pending in waiting:
            if error is not None:
                pending.fail(ResourceExhausted(f"the password could not be checked: {type(error).__name__}"))
            else:
                pending.resolve(bool(right))

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
        return True

    def _remember(self, credentials: bytes) -> None:
        self._remembered[credentials] = self._monotonic() + self._limits.remembered_s
        while len(self._remembered) > self._limits.remembered:
            self._remembered.popitem(last=False)

    def _matches(self, kept: str | None, password: bytes) -> bool:
        """Runs in a thread. One argon2 verification whatever is kept, so that time tells nothing."""
        if kept is not None and kept.startswith("$argon2"):
            right = self._argon2_matches(kept, password)
        else:
            self._argon2_matches(self._nobodys_hash, password)
            right = kept is not None and _rabbitmq_matches(kept, password)
        return right and bool(password)

    def _argon2_matches(self, kept: str, password: bytes) -> bool:
        try:
            return self._hasher.verify(kept, password)
        except (argon2.exceptions.VerificationError, argon2.exceptions.InvalidHashError):
            return False


ARGON2 = "argon2id"
RABBITMQ = "rabbit_password_hashing_sha256"
# Of a hash that is imported: a verification must not cost more than this, whoever made it.
IMPORTED_MEMORY_KIB_MAX = 262_144
IMPORTED_PASSES_MAX = 16


class Hashes(PasswordHashes):
    """How hashes look in definitions: RabbitMQ's as there, ours under their own name."""

    def exported(self, kept: str) -> tuple[str, str]:
        if kept.startswith(RABBITMQ_PREFIX):
            return RABBITMQ, kept.removeprefix(RABBITMQ_PREFIX)
        return ARGON2, kept

    def imported(self, algorithm: str, password_hash: str) -> str:
        if algorithm == RABBITMQ:
            return imported_from_rabbitmq(password_hash)
        if algorithm != ARGON2:
            raise PreconditionFailed(f"hashing_algorithm '{algorithm}' is not known: {RABBITMQ} or {ARGON2}")
        try:
            cost = argon2.extract_parameters(password_hash)
        except argon2.exceptions.InvalidHashError:
            raise PreconditionFailed(
                f"a password hash of {ARGON2} begins with $argon2id$, and this one is none"
            ) from None
        if (
            cost.type is not argon2.Type.ID
            or cost.memory_cost > IMPORTED_MEMORY_KIB_MAX
            or cost.time_cost > IMPORTED_PASSES_MAX
        ):
            raise PreconditionFailed(
                f"a password hash that costs more than {IMPORTED_MEMORY_KIB_MAX} KiB or {IMPORTED_PASSES_MAX} passes, or is "
                f"not of {ARGON2}, is not taken"
            )
        return password_hash


def imported_from_rabbitmq(password_hash: str) -> str:
    """What to keep for a `password_hash` of RabbitMQ's definitions (rabbit_password_hashing_sha256)."""
    _split_rabbitmq(password_hash)
    return RABBITMQ_PREFIX + password_hash


def _split_rabbitmq(encoded: str) -> tuple[bytes, bytes]:
    try:
        raw = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError) as error:
        raise PreconditionFailed(f"a password hash of RabbitMQ is base64: {error}") from error
    if len(raw) != _RABBITMQ_SALT_BYTES + _RABBITMQ_HASH_BYTES:
        expected = _RABBITMQ_SALT_BYTES + _RABBITMQ_HASH_BYTES
        raise PreconditionFailed(f"a salted SHA-256 hash of RabbitMQ has {expected} bytes, not {len(raw)}")
    return raw[:_RABBITMQ_SALT_BYTES], raw[_RABBITMQ_SALT_BYTES:]


def _rabbitmq_matches(kept: str, password: bytes) -> bool:
    if not kept.startswith(RABBITMQ_PREFIX):
        return False
    try:
        salt, expected = _split_rabbitmq(kept.removeprefix(RABBITMQ_PREFIX))
    except PreconditionFailed:
        return False
    return hmac.compare_digest(hashlib.sha256(salt + password).digest(), expected)
