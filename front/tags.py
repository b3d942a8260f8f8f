"""The tags of users, and which of them include which: the same for every front that administrators use."""

from __future__ import annotations

from collections.abc import Iterable

# Each includes those beside it.
INCLUDED_TAGS = {
    "administrator": frozenset({"administrator", "monitoring", "policymaker", "management"}),
    "monitoring": frozenset({"monitoring", "management"}),
    "policymaker": frozenset({"policymaker", "management"}),
    "management": frozenset({"management"}),
}


def includes(tags: Iterable[str], wanted: str) -> bool:
    return any(wanted in INCLUDED_TAGS.get(tag, ()) for tag in tags)
