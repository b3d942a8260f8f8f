"""A few seeds; `python -m tests.ledger` runs more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ledger.__main__ import ledger
from tests.ledger.stream_ledger import ledger_of_streams
from tests.ledger.three_nodes import ledger_of_nodes


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_the_log_tells_of_each_message_what_clients_saw(kind: str, tmp_path: Path) -> None:
    assert ledger(tmp_path, kind, range(1, 3), kill_each=2) == []


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_the_logs_of_three_nodes_tell_what_clients_saw_while_one_after_the_other_was_killed(
    kind: str, tmp_path: Path
) -> None:
    assert ledger_of_nodes(tmp_path, kind, range(1, 3)) == []


@pytest.mark.parametrize(("nodes", "seeds"), [(1, range(3, 4)), (3, range(2, 3))])
def test_the_logs_tell_of_each_message_of_a_stream_what_its_clients_know(
    nodes: int, seeds: range, tmp_path: Path
) -> None:
    assert ledger_of_streams(tmp_path, seeds, nodes) == []
