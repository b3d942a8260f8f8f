"""replicated/entry_cache.py: what was used last stays, within the bound."""

from __future__ import annotations

from replicated.entry_cache import EntryCache


def kept(cache: EntryCache) -> set[tuple[int, int]]:
    return {(group, index) for group in (1, 2) for index in range(10) if cache.get(group, index) is not None}


def test_beyond_the_bound_what_was_not_used_for_longest_goes() -> None:
    cache = EntryCache(30)
    for index in range(3):
        cache.keep(1, index, b"x" * 10)
    assert cache.get(1, 0) == b"x" * 10
    cache.keep(1, 3, b"y" * 10)
    assert kept(cache) == {(1, 0), (1, 2), (1, 3)}


def test_an_entry_beyond_the_bound_is_kept_alone() -> None:
    cache = EntryCache(30)
    cache.keep(1, 0, b"x" * 10)
    cache.keep(1, 1, b"x" * 100)
    assert kept(cache) == {(1, 1)}
    cache.keep(1, 2, b"x" * 10)
    assert kept(cache) == {(1, 2)}


def test_what_is_kept_twice_or_forgotten_takes_no_room() -> None:
    cache = EntryCache(30)
    for _ in range(5):
        cache.keep(1, 0, b"x" * 10)
    cache.keep(2, 0, b"x" * 10)
    cache.forget(1)
    assert kept(cache) == {(2, 0)}
    for index in (1, 2):
        cache.keep(2, index, b"x" * 10)
    assert kept(cache) == {(2, 0), (2, 1), (2, 2)}
