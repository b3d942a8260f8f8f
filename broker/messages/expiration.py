"""The property `expiration`: a message's own time to live, as a text of milliseconds."""

from __future__ import annotations

import re

from broker.errors import PreconditionFailed

TEN_YEARS_MS = 315_360_000_000
_LEADING_INTEGER = re.compile(r"[+-]?[0-9]{1,20}")


def expiration_ms(raw: bytes) -> int:
    """The milliseconds. Raises PreconditionFailed for what is no number, negative, or beyond ten years."""
    if raw.isdigit() and len(raw) < 12:
        return int(raw)
    text = raw.decode("utf-8", "replace")
    found = _LEADING_INTEGER.match(text)
    if found is None:
        raise _invalid(text, "no_integer")
    if found.end() != len(text):
        raise _invalid(text, f'{{leftover_string,"{text[found.end() :]}"}}')
    value = int(found.group())
    if value < 0:
        raise _invalid(text, f"{{value_negative,{value}}}")
    if value > TEN_YEARS_MS:
        raise _invalid(text, f"{{value_too_large,{value}}}")
    return value


def _invalid(text: str, why: str) -> PreconditionFailed:
    return PreconditionFailed(f"invalid expiration '{text}': {why}")
