"""Which names of a list somebody wants to see: a part of the name, or a regular expression of theirs, both caseless.

RE2 matches in time that follows the lengths of pattern and name. What it does not have (look-ahead, which people use to leave
names out) is left to a matcher that backtracks, and that can take for ever. So each has a deadline for one name and one for all
names of a request; and a pattern that would be large once it is compiled is refused, for compiling it holds the node, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from math import prod
from time import perf_counter

import re2
import regex

from front.web.http.refusals import bad_request
from front.web.http.request import HttpError

PATTERN_CHARACTERS_MAX = 1_024
COMPILED_BYTES_MAX = 262_144  # of RE2: larger ones take long to compile, and for each name
# Characters, where counts are written out: the matcher that backtracks does that, also for counts within counts.
UNROLLED_MAX = 20_000
MATCH_S_MAX = 0.005  # of one name
MATCHES_S_MAX = 0.25  # of all names of one request
LOOKED_AT_ONCE = 16  # names, between two looks at the clock: few enough that other work is hardly counted
LINEAR_S_MAX = 2.0  # the same of RE2, which needs 0.08 s for 100,000 names; others that are at work count, too
_COUNTS = re.compile(r"\{(\d*),?(\d*)\}")
_VERBOSE = re.compile(r"\(\?[a-zA-Z0-9]*x")  # spaces and comments may be anywhere then, in a count, too

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
    options.max_mem, options.never_capture = COMPILED_BYTES_MAX, True
    try:
        compiled = re2.compile(pattern, options)
    except re2.error:
        return None
    search, left_s = compiled.search, LINEAR_S_MAX
    begun, looked_at = 0.0, 0

    def matches(name: str) -> bool:
        """Of bytes it says where they match without counting characters, in half the time."""
        nonlocal begun, left_s, looked_at
        looked_at += 1
        if looked_at % LOOKED_AT_ONCE == 1:
            begun = perf_counter()
        found = search(name.encode("utf-8", "replace")) is not None
        if looked_at % LOOKED_AT_ONCE == 0:
            left_s -= perf_counter() - begun
            if left_s <= 0:
                raise _too_slow(pattern)
        return found

    return matches


def _backtracking(pattern: str) -> Matcher:
    _check_unrolled(pattern)
    try:
        compiled = regex.compile(pattern, regex.IGNORECASE)
    except (regex.error, OverflowError, RecursionError) as error:
        raise bad_request(f"invalid regular expression '{pattern}': {error}") from None
    return _within_time(pattern, lambda name, left_s: compiled.search(name, timeout=left_s) is not None, MATCHES_S_MAX)


def _check_unrolled(pattern: str) -> None:
    """Counts are taken as if each were within all others: it is never more than that, whatever the pattern means."""
    if _VERBOSE.search(pattern):
        raise bad_request(f"the regular expression '{pattern}' has the flag x, which is not known here")
    size = len(pattern) * prod(_most(*counts) for counts in _COUNTS.findall(pattern))
    if size > UNROLLED_MAX:
        raise bad_request(
            f"the regular expression '{pattern}' is too large: its length times its counts may be {UNROLLED_MAX}"
        )


def _most(least: str, most: str) -> int:
    """Of a count; what has no end is written out once more."""
    return 1 + max(int(number or 0) for number in (least, most))


def _too_slow(pattern: str) -> HttpError:
    return bad_request(f"the regular expression '{pattern}' takes too long to match")


def _within_time(pattern: str, matches: Callable[[str, float], bool], left_s: float) -> Matcher:
    """`matches` is told how long it may take, and raises TimeoutError."""

    def timed(name: str) -> bool:
        nonlocal left_s
        begun = perf_counter()
        try:
            found = matches(name, min(MATCH_S_MAX, left_s))
        except TimeoutError:
            left_s = 0.0
        left_s -= perf_counter() - begun
        if left_s <= 0:
            raise _too_slow(pattern)
        return found

    return timed
