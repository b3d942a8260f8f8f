"""The keys that tokens are verified with: those of the configuration, and those that a provider publishes (JWKS).

A provider is asked when the node starts, when a token names a key that is not known, and when what it said is an hour old; by
one request at a time, and not again before REFRESH_PAUSE_S have passed, whatever clients send. While it does not answer, or
says what cannot be used, the keys that it gave last are good.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from logging import Logger
from typing import Protocol

from broker.pending import Pending
from node.tokens.verification_keys import BadKey, VerificationKey, keys_of_jwks

REFRESH_PAUSE_S = 10.0
REFRESH_EVERY_S = 3_600.0


class KeySource(Protocol):
    """A provider."""

    def fetch(self, done: Callable[[bytes | None, str], None]) -> None:
        """Ask for its keys, and call `done` later with the JWKS, or with None and why there is none."""


class KeyRing:
    """See the module."""

    def __init__(
        self,
        configured: Mapping[str, VerificationKey],
        source: KeySource | None,
        monotonic: Callable[[], float],
        logger: Logger,
    ) -> None:
        self.keys: Mapping[str, VerificationKey] = configured  # replaced as a whole, for threads read it
        self.on_changed: Callable[[], None] = _nothing
        self._configured = configured
        self._source = source
        self._monotonic = monotonic
        self._logger = logger
        self._published = b""
        self._asked_at: float | None = None
        self._waiting: list[Pending[bool]] | None = None  # for the request that is under way

    def refresh(self) -> Pending[bool]:
        """Whether the provider has been asked; False: it was a moment ago, or there is none."""
        if self._source is None:
            return Pending.of(False)
        pending: Pending[bool] = Pending()
        if self._waiting is not None:
            self._waiting.append(pending)
            return pending
        if self._age_s() < REFRESH_PAUSE_S:
            return Pending.of(False)
        self._waiting, self._asked_at = [pending], self._monotonic()
        self._source.fetch(self._fetched)
        return pending

    def refresh_when_old(self) -> None:
        """Nobody waits for it."""
        if self._age_s() >= REFRESH_EVERY_S:
            self.refresh()

    def _age_s(self) -> float:
        return float("inf") if self._asked_at is None else self._monotonic() - self._asked_at

    def _fetched(self, content: bytes | None, why: str) -> None:
        if content is None:
            self._logger.warning("oauth2: the provider's keys could not be read, the last ones are used: %s", why)
        elif content != self._published:
            self._take(content)
        waiting, self._waiting = self._waiting or [], None
        for pending in waiting:
            pending.resolve(True)

    def _take(self, content: bytes) -> None:
        try:
            keys, left_out = keys_of_jwks(content)
        except BadKey as error:
            self._logger.warning("oauth2: the provider's keys cannot be used, the last ones are: %s", error)
            return
        self._published = content
        self.keys = {**keys, **self._configured}
        ignored = f"; not used: {'; '.join(left_out)}" if left_out else ""
        self._logger.info("oauth2: the provider has published %d keys%s", len(keys), ignored)
        self.on_changed()


def _nothing() -> None:
    pass
