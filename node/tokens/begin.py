"""Puts the parts of this room together, for a node that takes tokens."""

from __future__ import annotations

import logging
from asyncio import AbstractEventLoop
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass

from node.background import Threads
from node.clock import NodeTime
from node.tokens.jwks_source import JwksSource
from node.tokens.jwt_logins import JwtLogins
from node.tokens.key_ring import KeyRing
from node.tokens.token_check import TokenRules
from node.tokens.verification_keys import VerificationKey

NICENESS = 19  # as checks of passwords: the event loop and the log come first


@dataclass(slots=True, frozen=True)
class TokenSettings:
    rules: TokenRules
    keys: Mapping[str, VerificationKey]  # by key id
    source: JwksSource | None  # of more keys


def begin_tokens(settings: TokenSettings, loop: AbstractEventLoop, clock: NodeTime, undo: AsyncExitStack) -> JwtLogins:
    """Nobody waits for the provider: who comes with a token before its keys are there does."""
    thread = Threads(loop, 1, "leveret-tokens", NICENESS)
    undo.callback(thread.close)
    keys = KeyRing(settings.keys, settings.source, clock.monotonic, logging.getLogger("leveret.tokens"))
    if settings.source is not None:
        undo.callback(settings.source.stop)
    keys.refresh()
    return JwtLogins(keys, settings.rules, thread, clock.monotonic, loop.call_later, clock.wall_ms)
