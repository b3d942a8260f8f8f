"""What all tests share: how examples are drawn, and the switch that records scenarios anew."""

from __future__ import annotations

import pytest
from hypothesis import settings

# The same examples with each run, and no example has to be fast: a machine that is busy elsewhere finds no fault.
settings.register_profile("leveret", deadline=None, derandomize=True)
settings.load_profile("leveret")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite", action="store_true", help="write down what scenarios answer now; read the difference with care"
    )
    parser.addoption(
        "--instants", type=int, default=40, help="of how many past seconds tests/unit/analytics/test_queue_at.py asks"
    )


@pytest.fixture
def rewrite(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--rewrite"))
