"""Where a reader wants to begin: what it asks for as an argument (x-stream-offset), and what that means.

first, last, next       the first message that is kept; the first of the last chunk; what is published from now on
a number                this offset; the nearest that there is, if it is not there
a timestamp             the first chunk that is not older
an age, as 5m           the same, so long before now: stream/group/rules.py
"""

from __future__ import annotations

from typing import Any

from broker.queues.stream_contract import AtOffset, AtTime, Begin, OffsetSpec
from stream.group.rules import age_in_ms
from wire.amqp.tables import Timestamp

OFFSET_MAX = (1 << 63) - 1


def offset_spec(asked: Any, now_ms: int) -> OffsetSpec | None:
    """None: nothing can begin there. `asked`: the argument's value; without one a reader begins with what comes next."""
    if asked is None:
        return Begin.NEXT
    if isinstance(asked, Timestamp):
        return AtTime(int(asked) * 1000)
    if isinstance(asked, bool):
        return None
    if isinstance(asked, int):
        return AtOffset(min(max(asked, 0), OFFSET_MAX))
    if not isinstance(asked, str):
        return None
    if asked in {begin.value for begin in Begin}:
        return Begin(asked)
    age_ms = age_in_ms(asked)
    return AtTime(now_ms - age_ms) if age_ms is not None else None
