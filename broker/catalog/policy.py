"""Policies, and what holds for a queue once its policy, the operator's policy and its own arguments are put together.

One user policy and one operator policy apply to a thing: of those whose pattern is found in its name, the one with the
highest priority, and of equals the one whose name comes first. The operator's limits are merged over the user's, the
smaller counts. Then the queue's own arguments, by key and kind of queue:

                                                 classic     quorum          stream
    message-ttl, expires, max-length             smaller     smaller         -
    max-length-bytes                             smaller     smaller         policy
    max-age, segment and filter size,
      initial-cluster-size                       -           -               policy
    delivery-limit                               -           smaller; the larger if one is negative (no limit)
    dead-letter-exchange and its routing key     argument    argument        -
    overflow                                     argument    policy          -
    queue-leader-locator                         policy      policy          policy
    max-priority, single-active-consumer         arguments only
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from broker.catalog.arguments import OLD_LEADER_LOCATORS, arguments_of_kind, check_policy_definition
from broker.catalog.mirroring import MIRRORING_KEYS, check_mirroring
from broker.catalog.patterns import check_pattern, matches
from broker.errors import PreconditionFailed
from broker.records import PolicyRecord, QueueRecord

DEFAULT_OVERFLOW = "drop-head"
DEFAULT_LEADER_LOCATOR = "client-local"
_APPLY_TO = {
    "all": frozenset({"classic", "quorum", "stream", "exchange"}),
    "exchanges": frozenset({"exchange"}),
    "queues": frozenset({"classic", "quorum", "stream"}),
    "classic_queues": frozenset({"classic"}),
    "quorum_queues": frozenset({"quorum"}),
    "streams": frozenset({"stream"}),
}
_POLICY_FIRST = {
    "classic": frozenset({"queue-leader-locator"}),
    "quorum": frozenset({"queue-leader-locator", "overflow"}),
    "stream": frozenset(
        {
            "queue-leader-locator", "max-length-bytes", "max-age", "stream-max-segment-size-bytes",
            "stream-filter-size-bytes", "initial-cluster-size",
        }
    ),
}  # fmt: skip
_SMALLER = frozenset({"message-ttl", "expires", "max-length", "max-length-bytes"})


@dataclass(slots=True, frozen=True)
class EffectiveArguments:
    """What a queue has to keep to. None is: no limit, or not set."""

    message_ttl_ms: int | None = None
    expires_ms: int | None = None
    max_length: int | None = None
    max_length_bytes: int | None = None
    overflow: str = DEFAULT_OVERFLOW
    dead_letter_exchange: str | None = None
    dead_letter_routing_key: str | None = None
    max_priority: int | None = None
    single_active_consumer: bool = False
    delivery_limit: int | None = None
    queue_leader_locator: str = DEFAULT_LEADER_LOCATOR
    max_age: str | None = None
    stream_max_segment_size_bytes: int | None = None
    stream_filter_size_bytes: int | None = None
    initial_cluster_size: int | None = None
    policy: str | None = None
    operator_policy: str | None = None
    definition: dict[str, Any] = field(default_factory=dict)  # both policies merged, for display

    @property
    def one_by_one(self) -> bool:
        """Whether a limit looks at each message for itself: it may refuse it, or counts its bytes."""
        refuses = self.max_length is not None and self.overflow != DEFAULT_OVERFLOW
        return refuses or self.max_length_bytes is not None


def check_policy(record: PolicyRecord, pattern_length_max: int) -> None:
    """Raises PreconditionFailed for a policy that cannot be."""
    what = f"{'operator policy' if record.operator else 'policy'} '{record.name}'"
    if record.apply_to not in _APPLY_TO:
        raise PreconditionFailed(f"{what}: apply-to is one of {', '.join(_APPLY_TO)}, not '{record.apply_to}'")
    check_pattern(what, record.pattern, pattern_length_max)
    definition = record.definition
    if not record.operator and not MIRRORING_KEYS.isdisjoint(definition):
        check_mirroring(what, definition)
        definition = {key: value for key, value in definition.items() if key not in MIRRORING_KEYS}
        if not definition:
            return
    check_policy_definition(what, definition, record.operator)
    if "federation-upstream-pattern" in definition:
        check_pattern(
            f"{what}: federation-upstream-pattern", definition["federation-upstream-pattern"], pattern_length_max
        )


def applying(policies: Iterable[PolicyRecord], kind: str, name: str) -> PolicyRecord | None:
    """The one policy for a thing of this kind (a kind of queue, or `exchange`) with this name."""
    fitting = [policy for policy in policies if kind in _APPLY_TO[policy.apply_to] and matches(policy.pattern, name)]
    return min(fitting, key=lambda policy: (-policy.priority, policy.name), default=None)


def merged_definition(user: PolicyRecord | None, operator: PolicyRecord | None) -> dict[str, Any]:
    """The user's definition with the operator's limits over it."""
    definition = dict(user.definition) if user is not None else {}
    if operator is not None:
        for key, value in operator.definition.items():
            mine = definition.get(key)
            definition[key] = _stricter(key, mine, value) if isinstance(mine, int) else value
    return definition


def effective_arguments(
    record: QueueRecord, user: PolicyRecord | None, operator: PolicyRecord | None
) -> EffectiveArguments:
    definition = merged_definition(user, operator)
    arguments = record.arguments

    def value(key: str) -> Any:
        return _combined(key, record.kind, arguments, definition)

    return EffectiveArguments(
        message_ttl_ms=value("message-ttl"),
        expires_ms=value("expires"),
        max_length=value("max-length"),
        max_length_bytes=value("max-length-bytes"),
        overflow=value("overflow") or DEFAULT_OVERFLOW,
        dead_letter_exchange=value("dead-letter-exchange"),
        dead_letter_routing_key=value("dead-letter-routing-key"),
        max_priority=arguments.get("x-max-priority") or None,
        single_active_consumer=arguments.get("x-single-active-consumer", False),
        delivery_limit=value("delivery-limit"),
        queue_leader_locator=_locator(value("queue-leader-locator")),
        max_age=value("max-age"),
        stream_max_segment_size_bytes=value("stream-max-segment-size-bytes"),
        stream_filter_size_bytes=value("stream-filter-size-bytes"),
        initial_cluster_size=value("initial-cluster-size"),
        policy=user.name if user is not None else None,
        operator_policy=operator.name if operator is not None else None,
        definition=definition,
    )


def _locator(asked: str | None) -> str:
    return "balanced" if asked in OLD_LEADER_LOCATORS else asked or DEFAULT_LEADER_LOCATOR


def _combined(key: str, kind: str, arguments: Mapping[str, Any], definition: Mapping[str, Any]) -> Any:
    if f"x-{key}" not in arguments_of_kind(kind):
        return None
    argument, policy = arguments.get(f"x-{key}"), definition.get(key)
    if argument is None:
        return policy
    if policy is None:
        return argument
    if key in _POLICY_FIRST[kind]:
        return policy
    if key in _SMALLER or key == "delivery-limit":
        return _stricter(key, argument, policy)
    return argument


def _stricter(key: str, one: int, other: int) -> int:
    if key == "delivery-limit" and (one < 0 or other < 0):
        return max(one, other)  # a negative one means no limit, so the other is the stricter
    return min(one, other)
