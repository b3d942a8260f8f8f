"""Checks of passwords and tokens beside the event loop, in the order that broker/login/login_queue.py gives.

Equal credentials share one check. What cannot be checked now is refused as busy, after a pause: a client that is told so at
once comes back at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from broker.errors import ResourceExhausted
from broker.login.login_queue import Full, LoginLimits, LoginQueue
from broker.pending import Pending
from node.background import Background

R = TypeVar("R")
CallLater = Callable[[float, Callable[[], None]], object]


@dataclass(slots=True, frozen=True)
class CheckLimits:
    running: int = 1  # checks at a time: each takes a core, and one of argon2 19 MiB that it reads and writes all over
    busy_pause_s: float = 1.0
    busy_max: int = 4096  # refusals that wait for their pause; more are told at once
    queue: LoginLimits = field(default_factory=LoginLimits)


@dataclass(slots=True)
class _Check(Generic[R]):
    """One that waits or runs, and who wants to know."""

    credentials: bytes
    work: Callable[[], R]
    waiting: list[Pending[R]] = field(default_factory=list)


class LoginChecks(Generic[R]):
    """Of one kind of credentials. What a check answers counts as right when it is true."""

    def __init__(
        self,
        what: str,
        background: Background,
        monotonic: Callable[[], float],
        call_later: CallLater,
        limits: CheckLimits,
    ) -> None:
        """`what` is checked, in texts for people: the password, the token."""
        self._what = what
        self._background = background
        self._monotonic = monotonic
        self._call_later = call_later
        self._limits = limits
        self._checks: dict[bytes, _Check[R]] = {}  # by credentials
        self._queue: LoginQueue[_Check[R]] = LoginQueue(limits.queue)
        self._running = 0
        self._wakes_at: float | None = None  # when the queue is looked at again
        self._busy = 0
        self.busy_total = 0

    def check(self, credentials: bytes, source: str, name: str, work: Callable[[], R]) -> Pending[R]:
        """What `work` answers, in a thread. `credentials` are a digest of all that it depends on; `name` is what the client
        claims to be, `source` where it is. Fails with ResourceExhausted."""
        pending: Pending[R] = Pending()
        check = self._checks.get(credentials)
        if check is not None:
            check.waiting.append(pending)
            return pending
        check = _Check(credentials, work, [pending])
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

    def _begin(self, source: str, check: _Check[R]) -> None:
        began = self._monotonic()

        def done(answer: R | None, error: Exception | None) -> None:
            self._running -= 1
            self._queue.checked(source, bool(answer) or error is not None, began, self._monotonic())
            self._finished(check, answer, error)
            self._begin_checks()

        self._background.run(check.work, done)

    def _wake(self) -> None:
        self._wakes_at = None
        self._begin_checks()

    def _finished(self, check: _Check[R], answer: R | None, error: Exception | None) -> None:
        del self._checks[check.credentials]
        for pending in check.waiting:
            if error is not None:
                pending.fail(ResourceExhausted(f"{self._what} could not be checked: {type(error).__name__}"))
            else:
                assert answer is not None, "a check that answers nothing"
                pending.resolve(answer)

    def _refuse_busy(self, check: _Check[R], why: str) -> None:
        self.busy_total += len(check.waiting)
        text = f"{self._what} was not checked, too many logins are waiting ({why}): try again later"
        error = ResourceExhausted(text)

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
