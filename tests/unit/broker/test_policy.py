"""Which policy applies, and what comes out when policies and arguments are put together."""

from typing import Any

import pytest

from broker.catalog.policy import (
    EffectiveArguments,
    applying,
    check_policy,
    effective_arguments,
    merged_definition,
)
from broker.errors import PreconditionFailed
from broker.records import PolicyRecord, QueueRecord


def policy(definition: dict[str, Any], name: str = "p", operator: bool = False, **fields: Any) -> PolicyRecord:
    values = {"pattern": ".*", "apply_to": "all", "priority": 0, **fields}
    return PolicyRecord("/", name, definition=definition, operator=operator, **values)


def queue(arguments: dict[str, Any], kind: str = "classic") -> QueueRecord:
    return QueueRecord("/", "q", kind, True, False, False, arguments, 1)


def test_the_highest_priority_applies_and_of_equals_the_first_name() -> None:
    policies = [
        policy({}, "low", priority=-1),
        policy({}, "b", priority=5),
        policy({}, "a", priority=5),
        policy({}, "highest", priority=9, pattern="^other"),
    ]
    found = applying(policies, "classic", "q")
    assert found is not None and found.name == "a"
    found = applying(policies, "classic", "other-q")
    assert found is not None and found.name == "highest"
    assert applying(policies[3:], "classic", "an-other") is None


def test_an_empty_pattern_fits_every_name_as_in_rabbitmq() -> None:
    found = applying([policy({}, pattern="")], "classic", "q")
    assert found is not None


@pytest.mark.parametrize(
    ("apply_to", "kinds"),
    [
        ("all", {"classic", "quorum", "stream", "exchange"}),
        ("queues", {"classic", "quorum", "stream"}),
        ("exchanges", {"exchange"}),
        ("classic_queues", {"classic"}),
        ("quorum_queues", {"quorum"}),
        ("streams", {"stream"}),
    ],
)
def test_what_a_policy_applies_to(apply_to: str, kinds: set[str]) -> None:
    policies = [policy({}, apply_to=apply_to)]
    assert {kind for kind in ("classic", "quorum", "stream", "exchange") if applying(policies, kind, "q")} == kinds


def test_a_queue_without_arguments_and_policies_has_no_limits() -> None:
    assert effective_arguments(queue({}), None, None) == EffectiveArguments()


MERGES: list[tuple[str, str, Any, Any, str, Any]] = [
    # kind, key, argument, policy, field, what holds
    ("classic", "message-ttl", 10, 20, "message_ttl_ms", 10),
    ("classic", "message-ttl", 20, 10, "message_ttl_ms", 10),
    ("classic", "message-ttl", 0, 10, "message_ttl_ms", 0),
    ("classic", "message-ttl", None, 10, "message_ttl_ms", 10),
    ("classic", "expires", 10, 20, "expires_ms", 10),
    ("classic", "max-length", 20, 0, "max_length", 0),
    ("classic", "max-length-bytes", 20, 10, "max_length_bytes", 10),
    ("classic", "overflow", "reject-publish", "drop-head", "overflow", "reject-publish"),
    ("classic", "overflow", None, "reject-publish", "overflow", "reject-publish"),
    ("classic", "dead-letter-exchange", "mine", "policy", "dead_letter_exchange", "mine"),
    ("classic", "dead-letter-exchange", "", "policy", "dead_letter_exchange", ""),
    ("classic", "dead-letter-routing-key", "mine", "policy", "dead_letter_routing_key", "mine"),
    ("classic", "queue-leader-locator", "balanced", "client-local", "queue_leader_locator", "client-local"),
    ("classic", "delivery-limit", None, 5, "delivery_limit", None),
    ("quorum", "overflow", "reject-publish", "drop-head", "overflow", "drop-head"),
    ("quorum", "max-length", 20, 10, "max_length", 10),
    ("quorum", "delivery-limit", 20, 10, "delivery_limit", 10),
    ("quorum", "delivery-limit", -1, 10, "delivery_limit", 10),
    ("quorum", "delivery-limit", 20, -1, "delivery_limit", 20),
    ("stream", "max-length-bytes", 10, 20, "max_length_bytes", 20),
    ("stream", "message-ttl", None, 20, "message_ttl_ms", None),
]


@pytest.mark.parametrize(("kind", "key", "argument", "setting", "field", "result"), MERGES)
def test_arguments_and_policy_together(
    kind: str, key: str, argument: Any, setting: Any, field: str, result: Any
) -> None:
    arguments = {} if argument is None else {f"x-{key}": argument}
    effective = effective_arguments(queue(arguments, kind), policy({key: setting}), None)
    assert getattr(effective, field) == result
    assert (effective.policy, effective.definition) == ("p", {key: setting})


def test_what_only_arguments_can_say() -> None:
    effective = effective_arguments(queue({"x-max-priority": 5, "x-single-active-consumer": True}), None, None)
    assert (effective.max_priority, effective.single_active_consumer) == (5, True)
    assert effective_arguments(queue({"x-max-priority": 0}), None, None).max_priority is None


def test_the_operators_limits_are_merged_over_the_users() -> None:
    user = policy({"max-length": 10, "message-ttl": 10, "overflow": "drop-head", "dead-letter-exchange": "x"})
    operator = policy({"max-length": 5, "message-ttl": 50, "expires": 7, "overflow": "reject-publish"}, "o", True)
    merged = {
        "max-length": 5, "message-ttl": 10, "expires": 7, "overflow": "reject-publish", "dead-letter-exchange": "x",
    }  # fmt: skip
    assert merged_definition(user, operator) == merged
    effective = effective_arguments(queue({"x-max-length": 7}), user, operator)
    assert (effective.max_length, effective.policy, effective.operator_policy) == (5, "p", "o")
    assert effective.definition == merged
    assert merged_definition(None, operator) == operator.definition


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"apply_to": "everything"}, "policy 'p': apply-to is one of all, exchanges, .*, not 'everything'"),
        ({"pattern": "("}, r"policy 'p': invalid regular expression '\(': missing \)"),
        ({"pattern": "a" * 1025}, "policy 'p': a pattern of 1025 characters is longer than 1024"),
    ],
)
def test_policies_that_cannot_be(fields: dict[str, Any], text: str) -> None:
    with pytest.raises(PreconditionFailed, match=text):
        check_policy(policy({"expires": 1}, **fields), 1024)
