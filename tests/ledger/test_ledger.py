"""A few seeds; `python -m tests.ledger` runs more."""

from __future__ import annotations

from pathlib import Path

import pytest

from analytics.fold.lives import LifeState
from tests.ledger.__main__ import ledger
from tests.ledger.stream_ledger import ledger_of_streams
from tests.ledger.three_nodes import ledger_of_nodes
from tests.ledger.told import told

ENDS = frozenset(LifeState) - {LifeState.READY, LifeState.OUT, LifeState.KEPT, LifeState.CUT, LifeState.UNKNOWN}
FATES = {
    "classic": ENDS - {LifeState.DELIVERY_LIMIT} | {"nacked", "rejected", "channel closed", "connection lost"},
    "quorum": ENDS - {LifeState.GOT} | {"released", "failed"},
}


@pytest.mark.parametrize(("kind", "seeds"), [("classic", range(3, 7)), ("quorum", range(1, 5))])
def test_the_log_tells_of_each_message_what_clients_saw(kind: str, seeds: range, tmp_path: Path) -> None:
    """Messages come to each end that there is, and come back in each way."""
    assert ledger(tmp_path, kind, seeds, kill_each=2) == []
    rows = [row for bodies in told(tmp_path / "n1").values() for rows in bodies.values() for row in rows]
    assert {fate for row in rows for fate in (row.state, *row.returned)} >= FATES[kind]


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
