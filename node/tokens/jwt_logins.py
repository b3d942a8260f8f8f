"""Logins with tokens: verified beside the event loop, and remembered until they end.

A token that was verified is remembered by its digest, so that a program that sends it with each request costs one verification.
When a provider publishes other keys all are forgotten: what was signed with a key that it has taken back is verified again.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable

from broker.errors import AccessRefused
from broker.login.login_queue import LoginLimits
from broker.pending import Pending
from broker.vouched.vouched_user import VouchedUser
from node.background import Background
from node.logins.login_checks import CallLater, CheckLimits, LoginChecks
from node.tokens.key_ring import KeyRing
from node.tokens.token_check import TokenRules, TokenVerdict, checked, has_token_form

REMEMBERED_MAX = 4_096
# A check takes a hundredth of that of a password. Who sends what is refused waits 20 ms for the next, beyond what programs send
# that go on with an old token.
QUEUE_LIMITS = LoginLimits(waiting_per_user=1_024, failures_free=50, failure_forgiven_s=0.1, spacing_s=0.02)


class JwtLogins:
    """Fulfils broker/broker.py, TokenLogins."""

    def __init__(
        self,
        keys: KeyRing,
        rules: TokenRules,
        background: Background,
        monotonic: Callable[[], float],
        call_later: CallLater,
        wall_ms: Callable[[], int],
    ) -> None:
        self._keys = keys
        self._rules = rules
        self._wall_ms = wall_ms
        limits = CheckLimits(queue=QUEUE_LIMITS)
        self._checks: LoginChecks[TokenVerdict] = LoginChecks("the token", background, monotonic, call_later, limits)
        self._remembered: OrderedDict[bytes, VouchedUser] = OrderedDict()  # by digest, the one used last at the end
        keys.on_changed = self._remembered.clear

    def __len__(self) -> int:
        """How many are remembered."""
        return len(self._remembered)

    def is_token(self, secret: bytes) -> bool:
        return has_token_form(secret)

    def log_in(self, token: bytes, source: str) -> Pending[VouchedUser]:
        self._keys.refresh_when_old()
        digest = hashlib.sha256(token).digest()
        user = self._remembered.get(digest)
        if user is not None and not user.has_ended(self._wall_ms()):
            self._remembered.move_to_end(digest)
            return Pending.of(user)
        self._remembered.pop(digest, None)
        return self._checked(token, digest, source).then_ask(
            lambda verdict: (
                self._once_more(token, digest, source) if verdict.key_missing else self._judged(digest, verdict)
            )
        )

    def _checked(self, token: bytes, digest: bytes, source: str) -> Pending[TokenVerdict]:
        return self._checks.check(
            digest, source, "", lambda: checked(token, self._keys.keys, self._rules, self._wall_ms)
        )

    def _once_more(self, token: bytes, digest: bytes, source: str) -> Pending[VouchedUser]:
        """With the keys that the provider has now."""
        asked = self._keys.refresh()
        verdict = asked.then_ask(
            lambda renewed: self._checked(token, digest, source) if renewed else Pending.of(_NO_KEY)
        )
        return verdict.then_ask(lambda one: self._judged(digest, one))

    def _judged(self, digest: bytes, verdict: TokenVerdict) -> Pending[VouchedUser]:
        if verdict.user is None:
            return Pending.failed(AccessRefused(verdict.refused))
        if verdict.key in self._keys.keys.values():  # or its provider has taken it back meanwhile
            self._remembered[digest] = verdict.user
        while len(self._remembered) > REMEMBERED_MAX:
            self._remembered.popitem(last=False)
        return Pending.of(verdict.user)


_NO_KEY = TokenVerdict(refused="it names a key (kid) that is not known here, and its provider was asked a moment ago")
