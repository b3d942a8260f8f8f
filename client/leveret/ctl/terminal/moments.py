"""Points in time as people type them: an age as 2h, or a time."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from leveret.ctl.terminal.exits import UsageError

AGE = re.compile(r"(\d+)([smhd])")
UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def moment(option: str, given: str) -> datetime:
    """Raises UsageError."""
    age = AGE.fullmatch(given)
    try:
        if age is not None:
            return datetime.now(UTC) - timedelta(**{UNITS[age[2]]: int(age[1])})
        found = datetime.fromisoformat(given)
    except (ValueError, OverflowError) as error:
        raise UsageError(
            f"{option} {given!r} is neither an age as 2h nor a time as 2026-11-25T08:30:00Z: {error}"
        ) from error
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
