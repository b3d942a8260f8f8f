"""Seeds that no run has had before, for the tests that draw theirs from a range: pytest --fresh-seeds 200 --first-seed 7000.

A range that is always the same is green once and for all, and what the seeds behind it would show stays hidden. With the option
only tests with such a range run: those of one `seed` get that many, those of a `first` as many blocks as hold so many.
"""

from __future__ import annotations

import time

import pytest


def add_options(parser: pytest.Parser) -> None:
    parser.addoption(
        "--fresh-seeds", type=int, default=0, help="run only what takes seeds from a range, with so many others"
    )
    parser.addoption("--first-seed", type=int, default=None, help="of these; the second in which the run begins")


def choose_first(config: pytest.Config) -> None:
    """Once for all processes of a run."""
    if config.option.fresh_seeds and config.option.first_seed is None:
        config.option.first_seed = int(time.time())


def with_fresh_seeds(mark: pytest.Mark, count: int, first: int) -> pytest.Mark | None:
    """The mark of a test that takes seeds from a range, with others; None: it is another mark."""
    if mark.name != "parametrize" or mark.args[0] not in ("seed", "first") or not isinstance(mark.args[1], range):
        return None
    step = mark.args[1].step
    return pytest.mark.parametrize(mark.args[0], range(first, first + count, step)).mark


def give_fresh_seeds(definition: pytest.Function, config: pytest.Config) -> None:
    """Before a test is made into those with values."""
    count, first = config.option.fresh_seeds, config.option.first_seed
    definition.own_markers[:] = [with_fresh_seeds(mark, count, first) or mark for mark in definition.own_markers]


def draws_seeds(item: pytest.Item) -> bool:
    return any(with_fresh_seeds(mark, 1, 0) is not None for mark in item.own_markers)
