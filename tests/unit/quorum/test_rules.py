"""What a queue's arguments and policies come to as rules of the machine."""

from __future__ import annotations

from typing import Any

import pytest

from broker.catalog.policy import EffectiveArguments
from quorum.fifo.rules import DeadLetters, Retry, Rules
from quorum.queue_rules import rules_for

DEAD_LETTERS = EffectiveArguments(dead_letter_exchange="dead")
HELD = EffectiveArguments(dead_letter_exchange="dead", overflow="reject-publish")


def test_a_queue_without_arguments_has_the_defaults() -> None:
    assert rules_for({}, EffectiveArguments()) == Rules()
    assert Rules().delivery_limit == 20
    assert Rules().consumer_timeout_ms == 30 * 60 * 1000
    assert Rules().disconnected_timeout_ms == 60 * 1000


@pytest.mark.parametrize(
    ("arguments", "effective", "expected"),
    [
        ({}, EffectiveArguments(max_length=5, max_length_bytes=7), Rules(max_length=5, max_length_bytes=7)),
        ({}, EffectiveArguments(message_ttl_ms=0, expires_ms=9), Rules(message_ttl_ms=0, expires_ms=9)),
        ({}, EffectiveArguments(delivery_limit=3), Rules(delivery_limit=3)),
        ({}, EffectiveArguments(delivery_limit=0), Rules(delivery_limit=0)),
        ({}, EffectiveArguments(delivery_limit=-1), Rules(delivery_limit=None)),
        ({}, EffectiveArguments(overflow="reject-publish"), Rules(reject_publish=True)),
        ({}, EffectiveArguments(overflow="drop-head"), Rules()),
        ({}, EffectiveArguments(single_active_consumer=True), Rules(single_active=True)),
        ({}, DEAD_LETTERS, Rules(dead_letters=DeadLetters.AT_MOST_ONCE)),
        ({"x-dead-letter-strategy": "at-least-once"}, EffectiveArguments(), Rules()),
        ({"x-consumer-timeout": 5}, EffectiveArguments(), Rules(consumer_timeout_ms=5)),
        ({"x-consumer-timeout": 0}, EffectiveArguments(), Rules(consumer_timeout_ms=0)),
        ({"x-consumer-disconnected-timeout": 5}, EffectiveArguments(), Rules(disconnected_timeout_ms=5)),
        ({"x-delayed-retry-type": "failed"}, EffectiveArguments(), Rules(retry=Retry.FAILED)),
        ({"x-delayed-retry-type": "disabled"}, EffectiveArguments(), Rules()),
        ({"x-requeue-order": "in-place"}, EffectiveArguments(), Rules(requeue_in_place=True)),
        ({"x-requeue-order": "first"}, EffectiveArguments(), Rules()),
        ({"x-delayed-retry-type": "of no kind"}, EffectiveArguments(), Rules()),
        ({"x-delayed-retry-type": ["of", "no", "kind"]}, EffectiveArguments(), Rules()),
        (
            {"x-delayed-retry-type": "all", "x-delayed-retry-min": 10, "x-delayed-retry-max": 30},
            EffectiveArguments(),
            Rules(retry=Retry.ALL, retry_min_ms=10, retry_max_ms=30),
        ),
        (
            {},
            EffectiveArguments(
                definition={"delayed-retry-type": "returned", "delayed-retry-min": 5, "consumer-timeout": 7}
            ),
            Rules(retry=Retry.RETURNED, retry_min_ms=5, consumer_timeout_ms=7),
        ),
        (
            {"x-delayed-retry-type": "all", "x-delayed-retry-min": 10, "x-delayed-retry-max": 30},
            EffectiveArguments(
                definition={"delayed-retry-type": "failed", "delayed-retry-min": 20, "delayed-retry-max": 20}
            ),
            Rules(retry=Retry.FAILED, retry_min_ms=10, retry_max_ms=20),
        ),
        (
            {"x-consumer-disconnected-timeout": 8},
            EffectiveArguments(definition={"consumer-disconnected-timeout": 7}),
            Rules(disconnected_timeout_ms=7),
        ),
        (
            {"x-consumer-timeout": 8},
            EffectiveArguments(definition={"consumer-timeout": 7}),
            Rules(consumer_timeout_ms=8),
        ),
    ],
)
def test_rules_follow_from_arguments_and_policies(
    arguments: dict[str, Any], effective: EffectiveArguments, expected: Rules
) -> None:
    assert rules_for(arguments, effective) == expected


def test_at_least_once_needs_a_queue_that_rejects_publishes() -> None:
    strategy = {"x-dead-letter-strategy": "at-least-once"}
    assert rules_for(strategy, DEAD_LETTERS).dead_letters is DeadLetters.AT_MOST_ONCE
    assert rules_for(strategy, HELD).dead_letters is DeadLetters.AT_LEAST_ONCE
    assert rules_for({}, HELD).dead_letters is DeadLetters.AT_MOST_ONCE
