"""Every plan that once broke a promise is replayed for ever. The first line of each file says what its story is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sim.kept import read
from tests.sim.run import run

KEPT = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("path", KEPT, ids=[path.stem for path in KEPT])
def test_what_was_found_once_is_not_found_again(path: Path) -> None:
    text = path.read_text()
    assert text.startswith("# ") and "TODO" not in text, f"{path.name} does not tell its story in its first line"
    outcome = run(read(text))
    assert outcome.is_good, outcome.message
