"""A node whose disk takes long for each fsync, from its first start on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos import fsync_shim
from tests.chaos.fsync_shim import FsyncShim
from tests.e2e.test_cluster import address_of, status
from tests.running_node import start_node

FSYNC_S = 0.4  # longer than any election's time


@pytest.mark.skipif(fsync_shim.available() is not None, reason=f"no slow fsync here: {fsync_shim.available()}")
def test_a_first_start_with_slow_fsyncs_ends_in_one_term(tmp_path: Path) -> None:
    """It went through 28 terms: the node stood again while its own vote was on its way to the disk."""
    shim = FsyncShim(tmp_path)
    shim.slow("n1", FSYNC_S)
    node = start_node(tmp_path / "data", environment=shim.environment("n1"))
    try:
        shim.heal("n1")
        assert status(address_of(node)).metadata_term == 1
    finally:
        node.stop()
