"""The patterns of permissions: which can be used, and the variables in those of topics."""

from __future__ import annotations

from collections.abc import Mapping

from broker.catalog.patterns import check_pattern, quoted
from broker.records import PermissionRecord, TopicPermissionRecord


def filled_in(pattern: str, variables: Mapping[str, str]) -> str:
    """The pattern with its variables replaced, each as a literal text: a user named `.*` must not become a pattern."""
    if "{" not in pattern:
        return pattern
    for name, value in variables.items():
        pattern = pattern.replace("{" + name + "}", quoted(value))
    return pattern


def check_permission(record: PermissionRecord, length_max: int) -> None:
    """Raises PreconditionFailed for patterns that cannot be used."""
    _check_patterns(record.user, length_max, configure=record.configure, write=record.write, read=record.read)


def check_topic_permission(record: TopicPermissionRecord, length_max: int) -> None:
    """The same, with some text in the place of the variables."""
    sample = dict.fromkeys(("username", "vhost", "client_id"), "x")
    write, read = filled_in(record.write, sample), filled_in(record.read, sample)
    _check_patterns(record.user, length_max, write=write, read=read)


def _check_patterns(user: str, length_max: int, **patterns: str) -> None:
    for access, pattern in patterns.items():
        check_pattern(f"{access} permission of user '{user}'", pattern, length_max)
