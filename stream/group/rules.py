"""What a stream has to keep to: its arguments and its policies, put together."""

from __future__ import annotations

import re
from dataclasses import dataclass

from broker.catalog.policy import EffectiveArguments
from stream.chunks.bloom import FILTER_BYTES_MAX, FILTER_BYTES_MIN
from stream.group.stream_state import StreamState

SEGMENT_BYTES_MAX = 500_000_000

_AGE = re.compile(r"([0-9]{1,12})([YMDhms])")
_DAY_S = 24 * 60 * 60
_UNIT_S = {"Y": 365 * _DAY_S, "M": 30 * _DAY_S, "D": _DAY_S, "h": 3600, "m": 60, "s": 1}


@dataclass(frozen=True, slots=True)
class StreamRules:
    """None is: no limit."""

    max_length_bytes: int | None = None
    max_age_ms: int | None = None
    segment_bytes_max: int = SEGMENT_BYTES_MAX
    filter_bytes: int = FILTER_BYTES_MIN  # of each chunk's filter

    def first_to_keep(self, state: StreamState, now_ms: int) -> int:
        """Offset of the first message that retention keeps. Whole segments go, and the last one stays."""
        segments, size = state.segments, state.size
        kept = 0
        while kept + 1 < len(segments):
            oldest = segments[kept]
            too_long = self.max_length_bytes is not None and size > self.max_length_bytes
            too_old = self.max_age_ms is not None and oldest.last_time_ms < now_ms - self.max_age_ms
            if not (too_long or too_old):
                break
            size -= oldest.size
            kept += 1
        return segments[kept].first_offset if segments else state.first_offset


def rules_of(effective: EffectiveArguments) -> StreamRules:
    return StreamRules(
        effective.max_length_bytes,
        age_in_ms(effective.max_age) if effective.max_age is not None else None,
        effective.stream_max_segment_size_bytes or SEGMENT_BYTES_MAX,
        min(max(effective.stream_filter_size_bytes or 0, FILTER_BYTES_MIN), FILTER_BYTES_MAX),  # a policy may name any
    )


def age_in_ms(text: str) -> int | None:
    """Digits, and one of Y M D h m s. None: this is no age."""
    found = _AGE.fullmatch(text)
    return int(found[1]) * _UNIT_S[found[2]] * 1000 if found else None
