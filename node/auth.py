"""Passwords: how they are kept, and how a log-in is checked without holding up the node or telling an attacker anything.

Kept is an argon2id hash, or one in a form of RabbitMQ's (node/password_hashes.py).

Verifying is made expensive on purpose, so it runs beside the event loop, at low priority, one at a time, in the order that
broker/login/login_queue.py gives. A wrong password, an imported hash and a user that does not exist all take the time of one
argon2 verification. A password that was right is remembered for a while after it was used last, under a keyed hash that means
nothing outside this process: many connections of one application then cost one verification, and a flood of wrong passwords
does not keep it out. The hash kept for the user is part of that key, so a changed password holds at once.

What cannot be checked now is refused as busy, after a pause: a client that is told so at once comes back at once.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

import argon2

from broker.errors import PreconditionFailed, ResourceExhausted
from broker.login.login_queue import Full, LoginLimits, LoginQueue
from broker.pending import Pending
from broker.records import UserRecord
from node.background import Background
from node.password_hashes import ARGON2, salted_hash, salted_hash_matches

PASSWORD_BYTES_MAX = 1024


@dataclass(slots=True, frozen=True)
class HashCost:
    """What one verification costs; the defaults are OWASP's for argon2id, about 25 ms."""

    memory_kib: int = 19 * 1024
    passes: int = 2
    lanes: int = 1


@dataclass(slots=True, frozen=True)
class VerifierLimits:
    remembered: int = 4096  # passwords known to be right
    remembered_s: float = 300.0  # since one was used last
    running: int = 1  # verifications at a time: each takes a core, and 19 MiB that it reads and writes all over
    busy_pause_s: float = 1.0
    busy_max: int = 4096  # refusals that wait for their pause; more are told at once
    queue: LoginLimits = field(default_factory=LoginLimits)


@dataclass(slots=True)
class _Check:
    """One verification that waits or runs, and who wants to know."""

    credentials: bytes
    kept: str | None
    password: bytes = field(repr=False)
    waiting: list[Pending[bool]] = field(default_factory=list)


class Verifier:
    """Checks and hashes passwords."""

    def __init__(
        self,
        background: Background,
        monotonic: Callable[[], float],
        call_later: Callable[[float, Callable[[], None]], object],
        cost: HashCost | None = None,
        limits: VerifierLimits | None = None,
        hashing: str = ARGON2,
    ) -> None:
        """`hashing`: one of HASHINGS, for passwords that are kept from now on."""
        cost = cost or HashCost()
        self._background = background
        self._monotonic = monotonic
        self._limits = limits or VerifierLimits()
        self._hashing = hashing
        self._hasher = argon2.PasswordHasher(
            time_cost=cost.passes, memory_cost=cost.memory_kib, parallelism=cost.lanes, type=argon2.Type.ID
        )
        self._key = secrets.token_bytes(32)
        self._nobodys_hash = self._hasher.hash(secrets.token_bytes(16))
        self._remembered: OrderedDict[bytes, float] = OrderedDict()  # keyed hash -> until when
        self._call_later = call_later
        self._checks: dict[bytes, _Check] = {}  # that wait or run; equal credentials share one
        self._queue: LoginQueue[_Check] = LoginQueue(self._limits.queue)
        self._running = 0
        self._wakes_at: float | None = None  # when the queue is looked at again
        self._busy = 0
        self.busy_total = 0

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
        pending: Pending[bool] = Pending()
        check = self._checks.get(credentials)
        if check is not None:
            check.waiting.append(pending)
            return pending
        check = _Check(credentials, kept, password, [pending])
        try:
            displaced = self._queue.offer(source, name, check)
        except Full as error:
            self._refuse_busy(check, str(error))
            return pending
        self._checks[credentials] = check
        if displaced is not None:
            del self._checks[displaced.credentials]
            self._refuse_busy(displaced, "others are waiting for less")
        self._begin_checks()
        return pending

    def _begin_checks(self) -> None:
        """As many as may run, and then wait for when the next one may."""
        while self._running < self._limits.running and (taken := self._queue.take(self._monotonic())) is not None:
            self._running += 1
            self._begin(*taken)
        at = self._queue.next_at()
        if at is not None and self._running < self._limits.running and (self._wakes_at is None or at < self._wakes_at):
            self._wakes_at = at
            self._call_later(max(0.0, at - self._monotonic()), self._wake)

    def _begin(self, source: str, check: _Check) -> None:
        began = self._monotonic()

        def done(right: bool | None, error: Exception | None) -> None:
            self._running -= 1
            self._queue.checked(source, bool(right) or error is not None, began, self._monotonic())
            self._finished(check, right, error)
            self._begin_checks()

        self._background.run(lambda: self._matches(check.kept, check.password), done)

    def _wake(self) -> None:
        self._wakes_at = None
        self._begin_checks()

    def _finished(self, check: _Check, right: bool | None, error: Exception | None) -> None:
        del self._checks[check.credentials]
        if right:
            self._remember(check.credentials)
        for pending in check.waiting:
            if error is not None:
                pending.fail(ResourceExhausted(f"the password could not be checked: {type(error).__name__}"))
            else:
                pending.resolve(bool(right))

    def _refuse_busy(self, check: _Check, why: str) -> None:
        self.busy_total += len(check.waiting)
        error = ResourceExhausted(f"the password was not checked, too many logins are waiting ({why}): try again later")

        def refuse() -> None:
            for pending in check.waiting:
                pending.fail(error)

        if self._busy >= self._limits.busy_max:
            refuse()
            return
        self._busy += 1

        def refuse_late() -> None:
            self._busy -= 1
            refuse()

        self._call_later(self._limits.busy_pause_s, refuse_late)

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
