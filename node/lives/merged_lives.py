"""What several nodes say of the same messages, put together: one life for each message of each queue.

Of a quorum queue each member tells the whole life from its copy of the log, but only the node that a client is connected to
knows its name. So the copy counts that tells most, with the names of all.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Life = dict[str, Any]
LifeKey = tuple[int, ...]  # number of the queue and place in it

DIED = frozenset({"expired", "rejected", "maxlen", "delivery-limit"})


class MergedLives:
    """See the module."""

    def __init__(self) -> None:
        self._lives: dict[LifeKey, Life] = {}
        self._seen_by: dict[LifeKey, set[str]] = {}

    def __len__(self) -> int:
        return len(self._lives)

    def add(self, node: str, lives: Iterable[Life]) -> None:
        """What one node says."""
        for life in lives:
            key = key_of(life)
            self._seen_by.setdefault(key, set()).add(node)
            before = self._lives.get(key)
            self._lives[key] = life if before is None else _merged(before, life)

    def all(self) -> list[Life]:
        """In the order in which they were published, and each with the dead letters that it became."""
        lives = sorted(self._lives.values(), key=lambda one: (one["published_at"] or "", key_of(one)))
        for one in lives:
            letters = [other for other in lives if other["died_in"] == one["position"]]
            one["became"] = [{"queue": other["queue"], "place": other["place"]} for other in letters]
            source = next((other for other in lives if other["position"] == one["died_in"]), None)
            one["was"] = None if source is None else {"queue": source["queue"], "place": source["place"]}
        return lives

    def died(self, node: str) -> list[list[int]]:
        """Queue and place of those whose dead letters are not known, and that this node has not looked for."""
        known = [life["died_in"] for life in self._lives.values()]
        return [
            [life["queue"], *life["place"]]
            for key, life in self._lives.items()
            if node not in self._seen_by[key] and _has_died(life) and life["position"] not in known
        ]

    def sources(self, node: str) -> list[list[int]]:
        """Where dead letters died of which that is not told yet, and that this node has not looked for."""
        known = [life["position"] for life in self._lives.values()]
        return [
            life["died_in"]
            for key, life in self._lives.items()
            if node not in self._seen_by[key] and life["died_in"] is not None and life["died_in"] not in known
        ]


def key_of(life: Life) -> LifeKey:
    return (life["queue"], *life["place"])


def _has_died(life: Life) -> bool:
    return bool(life["steps"]) and life["steps"][-1]["event"] in DIED


def _merged(one: Life, other: Life) -> Life:
    better, worse = sorted((one, other), key=_how_much, reverse=True)
    steps = better["steps"]
    if [step["event"] for step in steps] == [step["event"] for step in worse["steps"]]:
        steps = [
            {**step, "who": _named(step["who"], also["who"])} for step, also in zip(steps, worse["steps"], strict=True)
        ]
    return {**better, "steps": steps, "publisher": _named(better["publisher"], worse["publisher"])}


def _how_much(life: Life) -> tuple[bool, bool, int]:
    return life["unknown"] is None, bool(life["committed"]), len(life["steps"]) + life["steps_left_out"]


def _named(one: Life | None, other: Life | None) -> Life | None:
    """Who is known by name goes before who is not."""
    if one is not None and (one["user"] or other is None):
        return one
    return other if other is not None and (other["user"] or one is None) else one
