"""Every name is made and parsed in one place, and no user's string gets into one."""

from __future__ import annotations

import pytest

from storage import names


@pytest.mark.parametrize("number", [0, 1, 2**32, 2**64 - 1])
def test_what_was_made_is_parsed(number: int) -> None:
    assert names.number_of(names.log_file(number), names.LOG_SUFFIX) == number
    directory = names.queue_directory("/", "q", 1)
    assert names.number_of(names.index_segment(directory, number), names.INDEX_SUFFIX) == number
    assert names.number_of(names.body_file(directory, number), names.BODY_SUFFIX) == number
    assert names.number_of(names.store_file(names.STORE_PERSISTENT, number), names.STORE_SUFFIX) == number


@pytest.mark.parametrize(
    "name", ["1.log", "0000000000000000000a.log", "00000000000000000001.idx", "+0000000000000000001.log", "", ".log"]
)
def test_other_names_are_not_ours(name: str) -> None:
    assert names.number_of(name, names.LOG_SUFFIX) is None


def test_names_sort_as_their_numbers_do() -> None:
    numbers = [0, 9, 10, 99, 2**40, 2**63]
    made = [names.log_file(number) for number in numbers]
    assert sorted(made) == made
    assert names.numbers_in([*reversed(made), "log/x.tmp"], names.LOG_SUFFIX) == numbers


@pytest.mark.parametrize("name", ["../../etc/passwd", "a/b", "x" * 255, "\0", "ü", ""])
def test_a_queue_lives_in_a_directory_named_by_a_hash(name: str) -> None:
    directory = names.queue_directory("/vhost", name, 5)
    parent, _, base = directory.rpartition("/")
    assert parent == names.CLASSIC_DIRECTORY and names.is_queue_directory(base)
    assert directory != names.queue_directory("/vhost", name, 6), "declared again, it is another queue"
    assert directory != names.queue_directory("/vhost2", name, 5)


def test_a_number_beyond_64_bits_is_refused() -> None:
    with pytest.raises(AssertionError):
        names.log_file(2**64)
