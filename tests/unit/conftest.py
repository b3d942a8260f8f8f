"""Tests that take long are marked so: `make unit` leaves them out, `make test` runs all."""

from __future__ import annotations

import pytest

from tests.long_tests import is_long, long_tests


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    known = long_tests()
    for item in items:
        if is_long(item.nodeid, known):
            item.add_marker("long")
