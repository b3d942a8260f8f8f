"""Tests that take long are marked so: `make unit` leaves them out, `make test` runs all."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator

import pytest

from tests.long_tests import is_long, long_tests

DESCRIPTORS = 400


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    known = long_tests()
    for item in items:
        if is_long(item.nodeid, known):
            item.add_marker("long")


@pytest.fixture
def all_descriptors() -> Iterator[Callable[[], Callable[[], None]]]:
    """Call it, and this process can open nothing any more until what it returns is called, or the test has ended."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []

    def give_back() -> None:
        while taken:
            os.close(taken.pop())
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    def take() -> Callable[[], None]:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(DESCRIPTORS, hard), hard))
        try:
            while True:
                taken.append(os.open("/dev/null", os.O_RDONLY))
        except OSError:
            return give_back

    yield take
    give_back()
