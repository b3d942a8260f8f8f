"""The filter of a chunk: which filter values its messages may have, and whether some message has none.

    bit 0         of the first byte, its lowest: a message without a value is here
    bit 1 to n-1  two for each value; n is 8 x the filter's bytes. Bit b is bit b % 8 of byte b // 8

    the bits of a value    low % (n - 1) + 1 and high % (n - 1) + 1, of the halves of its hash of 64 bits
    the hash               FNV-1a of its UTF-8 bytes, and its bits mixed: h ^= h >> 33; h *= 0xFF51AFD7ED558CCD;
                           h ^= h >> 33; h *= 0xC4CEB9FE1A85EC53; h ^= h >> 33

A chunk without a filter has only messages without a value. A filter may name values that are not there, and never misses one,
so the hash is the same for ever.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

FILTER_BYTES_MIN = 16
FILTER_BYTES_MAX = 255

_UNFILTERED_BIT = 1
_64_BITS = 2**64 - 1
_FNV_START = 0xCBF29CE484222325
_FNV_PRIME = 0x100000001B3


def make_filter(values: Iterable[bytes], has_unfiltered: bool, size: int) -> bytes:
    """Empty when there are no values. `has_unfiltered`: some message has none."""
    assert FILTER_BYTES_MIN <= size <= FILTER_BYTES_MAX, f"a filter cannot have {size} bytes"
    bits = 0
    for value in values:
        bits |= _bits_of(value, size)
    if not bits:
        return b""
    return (bits | (_UNFILTERED_BIT if has_unfiltered else 0)).to_bytes(size, "little")


class WantedValues:
    """The filter values that one reader has asked for."""

    def __init__(self, values: Iterable[bytes], match_unfiltered: bool) -> None:
        self._values = frozenset(values)
        self._match_unfiltered = match_unfiltered
        self._masks: tuple[int, ...] = ()  # for filters of _size bytes
        self._size = 0

    def may_match(self, chunk_filter: bytes) -> bool:
        """Whether the chunk may hold a message that is wanted; False only if it surely does not."""
        if not chunk_filter:
            return self._match_unfiltered
        if len(chunk_filter) != self._size:
            self._size = len(chunk_filter)
            self._masks = tuple(_bits_of(value, self._size) for value in self._values)
        bits = int.from_bytes(chunk_filter, "little")
        if self._match_unfiltered and bits & _UNFILTERED_BIT:
            return True
        return any(bits & mask == mask for mask in self._masks)


def hash_of(value: bytes) -> int:
    """64 bits; see the module."""
    mixed = _FNV_START
    for byte in value:
        mixed = (mixed ^ byte) * _FNV_PRIME & _64_BITS
    mixed = (mixed ^ mixed >> 33) * 0xFF51AFD7ED558CCD & _64_BITS
    mixed = (mixed ^ mixed >> 33) * 0xC4CEB9FE1A85EC53 & _64_BITS
    return mixed ^ mixed >> 33


@lru_cache(maxsize=4096)  # publishers use few values, again and again
def _bits_of(value: bytes, size: int) -> int:
    places = 8 * size - 1
    mixed = hash_of(value)
    return 1 << (mixed & 0xFFFFFFFF) % places + 1 | 1 << (mixed >> 32) % places + 1
