"""Which names of a list somebody wants to see: a part of the name, or a regular expression of theirs, both caseless.

RE2 matches in time that follows the length of the name. What it does not have (look-ahead, which people use to leave names
out) is left to a matcher that backtracks, and that can take for ever: so it has a deadline for each name and for the request.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from time import perf_counter

import re2
import regex

from front.web.refusals import bad_request

PATTERN_CHARACTERS_MAX = 1_024
REPEATS_MAX = 1_000  # as RE2 has it: larger counts are unrolled when a pattern is compiled
MATCH_S_MAX = 0.005  # of one name
MATCHES_S_MAX = 0.25  # of all names of one request
_COUNTS = re.compile(r"\{(\d*),?(\d*)\}")

Matcher = Callable[[str], bool]


def name_filter(wanted: str, *, is_regex: bool) -> Matcher:
    """Raises HttpError 400, also while names are matched."""
    if not is_regex:
        part = wanted.casefold()
        return lambda name: part in name.casefold()
    if len(wanted) > PATTERN_CHARACTERS_MAX:
        raise bad_request(f"a pattern of {len(wanted)} characters is longer than {PATTERN_CHARACTERS_MAX}")
    return _linear(wanted) or _backtracking(wanted)


def _linear(pattern: str) -> Matcher | None:
    options = re2.Options()
    options.case_sensitive, options.log_errors = False, False
    try:
        compiled = re2.compile(pattern, options)
    except re2.error:
        return None

    def matches(name: str) -> bool:
        if not name.isascii():
            name = name.encode("utf-8", "replace").decode()
        return compiled.search(name) is not None

    return matches


def _backtracking(pattern: str) -> Matcher:
    counts = [int(count) for found in _COUNTS.findall(pattern) for count in found if count]
    if max(counts, default=0) > REPEATS_MAX:
        raise bad_request(f"a pattern repeats something at most {REPEATS_MAX} times")
    try:
        compiled = regex.compile(pattern, regex.IGNORECASE)
    except (regex.error, OverflowError, RecursionError) as error:
        raise bad_request(f"invalid regular expression '{pattern}': {error}") from None
    left_s = MATCHES_S_MAX

    def matches(name: str) -> bool:
        nonlocal left_s
        begun = perf_counter()
        try:
            return compiled.search(name, timeout=min(MATCH_S_MAX, left_s)) is not None
        except TimeoutError:
            raise bad_request(f"the regular expression '{pattern}' takes too long to match") from None
        finally:
            left_s = max(1e-6, left_s - (perf_counter() - begun))

    return matches
