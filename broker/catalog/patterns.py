"""Regular expressions that users write: in permissions and policies.

RE2 runs in time that follows the length of the text, whatever the pattern, so that nobody can stop the node with one. It
has no look-around and no back references; a pattern with those is refused when it is set, by name.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import re2

from broker.errors import PreconditionFailed

_PATTERN_MEMORY_BYTES = 1 << 20
_COMPILED_MAX = 1024
# Answers kept: the same user asks about the same few names again and again.
_ANSWERS_MAX = 16384


def check_pattern(what: str, pattern: str, length_max: int) -> None:
    """Raises PreconditionFailed when the pattern cannot be used. `what` says where it stands."""
    if length_max and len(pattern) > length_max:
        raise PreconditionFailed(f"{what}: a pattern of {len(pattern)} characters is longer than {length_max}")
    try:
        _compiled(pattern)
    except re2.error as error:
        reason = (
            error.args[0].decode(errors="replace") if error.args and isinstance(error.args[0], bytes) else str(error)
        )
        raise PreconditionFailed(f"{what}: invalid regular expression '{pattern}': {reason}") from error


def permits(pattern: str, name: str) -> bool:
    """Of permissions: the empty pattern allows nothing."""
    return bool(pattern) and matches(pattern, name)


@lru_cache(maxsize=_ANSWERS_MAX)
def matches(pattern: str, text: str) -> bool:
    """Whether the pattern is found in the text, as the empty one is in every text. Patterns anchor themselves."""
    # A text that is not UTF-8 is compared with its stray bytes replaced: it can match `.*`, but no name one can write.
    return _compiled(pattern).search(text.encode("utf-8", "replace").decode()) is not None


def quoted(text: str) -> str:
    """The pattern that matches exactly this text."""
    result: str = re2.escape(text)
    return result


@lru_cache(maxsize=_COMPILED_MAX)
def _compiled(pattern: str) -> Any:
    options = re2.Options()
    options.max_mem = _PATTERN_MEMORY_BYTES
    options.log_errors = False
    return re2.compile(pattern, options)
