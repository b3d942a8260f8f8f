"""The rules of a quorum queue, from the arguments it was declared with and its policies.

Beside the machine, not in it: whoever folds old logs has the rules as bytes, and no policies (analytics/).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from broker.catalog.policy import EffectiveArguments
from quorum.fifo.rules import CONSUMER_TIMEOUT_MS, DELIVERY_LIMIT, DISCONNECTED_TIMEOUT_MS, DeadLetters, Retry, Rules

_RETRY_NAMES = {kind.name.lower(): kind for kind in Retry}


def rules_for(arguments: Mapping[str, Any], effective: EffectiveArguments) -> Rules:
    """The rules of a queue with these declared arguments. At-least-once needs overflow reject-publish: a queue that drops
    its head to make room cannot promise to hold anything, so there it is at most once.

    Where argument and policy both say something the argument holds, of bounds on time the shorter one, and of the type of retry
    the policy; what broker/catalog/policy.py has put together already is taken from there."""

    def value(key: str) -> Any:
        argument = arguments.get(f"x-{key}")
        return effective.definition.get(key) if argument is None else argument

    def shorter(key: str) -> int | None:
        said = [one for one in (arguments.get(f"x-{key}"), effective.definition.get(key)) if one is not None]
        return min(said, default=None)

    reject_publish = effective.overflow == "reject-publish"
    dead_letters = DeadLetters.NONE
    if effective.dead_letter_exchange is not None:
        at_least_once = reject_publish and value("dead-letter-strategy") == "at-least-once"
        dead_letters = DeadLetters.AT_LEAST_ONCE if at_least_once else DeadLetters.AT_MOST_ONCE
    limit = DELIVERY_LIMIT if effective.delivery_limit is None else effective.delivery_limit
    timeout = value("consumer-timeout")
    disconnected = shorter("consumer-disconnected-timeout")
    retry = effective.definition.get("delayed-retry-type", arguments.get("x-delayed-retry-type"))
    return Rules(
        max_length=effective.max_length,
        max_length_bytes=effective.max_length_bytes,
        message_ttl_ms=effective.message_ttl_ms,
        expires_ms=effective.expires_ms,
        delivery_limit=None if limit < 0 else limit,
        consumer_timeout_ms=CONSUMER_TIMEOUT_MS if timeout is None else timeout,
        disconnected_timeout_ms=DISCONNECTED_TIMEOUT_MS if disconnected is None else disconnected,
        retry=_RETRY_NAMES.get(str(retry), Retry.DISABLED),
        retry_min_ms=shorter("delayed-retry-min") or 0,
        retry_max_ms=shorter("delayed-retry-max"),
        dead_letters=dead_letters,
        reject_publish=reject_publish,
        single_active=effective.single_active_consumer,
        requeue_in_place=value("requeue-order") == "in-place",
    )
