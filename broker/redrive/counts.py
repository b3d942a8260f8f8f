"""How many messages a redrive has seen, by what becomes of them and why they had died."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from broker.redrive.order import RedriveCandidate, RedriveFate

CAUSES_MAX = 200  # told apart; clients choose the keys


class RedriveCause(NamedTuple):
    """Messages that died alike and go to the same place. All texts are empty for those beyond CAUSES_MAX."""

    fate: RedriveFate
    reason: str = ""
    died_in: str = ""
    exchange: str = ""  # to which they had been published, as what follows
    routing_key: str = ""
    to_exchange: str = ""
    to_routing_key: str = ""


class RedriveCounts:
    """See the module."""

    def __init__(self) -> None:
        self.ready = 0  # in the queue when it began
        self.by_fate: Counter[RedriveFate] = Counter(dict.fromkeys(RedriveFate, 0))
        self._by_cause: Counter[RedriveCause] = Counter()

    @property
    def seen(self) -> int:
        return self.by_fate.total()

    @property
    def causes(self) -> Mapping[RedriveCause, int]:
        return self._by_cause

    def add(self, one: RedriveCandidate) -> None:
        cause = _cause(one)
        if cause not in self._by_cause and len(self._by_cause) >= CAUSES_MAX:
            cause = RedriveCause(one.fate)
        self._by_cause[cause] += 1
        self.by_fate[one.fate] += 1


def _cause(one: RedriveCandidate) -> RedriveCause:
    to = (one.run.exchange, one.run.routing_key) if one.fate is not RedriveFate.NO_DEATH else ("", "")
    if one.death is None:
        return RedriveCause(one.fate, "", "", "", "", *to)
    reason, queue, exchange, keys = one.death
    return RedriveCause(one.fate, reason, queue, exchange, keys[0] if keys else "", *to)
