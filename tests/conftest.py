"""What all tests share: how examples and seeds are drawn, and the switch that records scenarios anew."""

from __future__ import annotations

import gc

import pytest
from hypothesis import settings

from tests import fresh_seeds

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
    fresh_seeds.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    fresh_seeds.choose_first(config)


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.config.option.fresh_seeds:
        fresh_seeds.give_fresh_seeds(metafunc.definition, metafunc.config)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.option.fresh_seeds:
        config.hook.pytest_deselected(items=[item for item in items if not fresh_seeds.draws_seeds(item)])
        items[:] = [item for item in items if fresh_seeds.draws_seeds(item)]


def pytest_collection_finish() -> None:
    """Twenty thousand tests stay until the end: each full collection of garbage would take 0.3 s to walk over them."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def rewrite(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--rewrite"))
