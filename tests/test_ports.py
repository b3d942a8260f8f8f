"""tests/ports.py: nobody is given what somebody else was given."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ports import BLOCK, BLOCKS, HOST, NODES_MAX, Block, free_ports

SHOWN = "from tests.ports import free_ports; print(*free_ports(12))"


def test_two_processes_have_different_ports() -> None:
    ours = free_ports(12)
    shown = subprocess.run(
        [sys.executable, "-c", SHOWN], cwd=Path(__file__).parents[1], capture_output=True, text=True, check=True
    ).stdout
    theirs = [int(port) for port in shown.split()]
    assert len({*ours, *theirs}) == 24
    assert all(port in range(BLOCKS.start, BLOCKS.stop + BLOCK) for port in ours + theirs)


def test_ports_are_not_given_out_again_soon() -> None:
    block = Block()
    assert [block.nodes(3) - block.base for _ in range(NODES_MAX // 3 + 1)] == [*range(0, NODES_MAX, 3), 0]


def test_a_port_in_use_is_passed_over() -> None:
    block = Block()
    with socket.create_server((HOST, block.base + 1)):
        assert block.nodes(2) == block.base + 2
    with pytest.raises(RuntimeError, match=f"no free ports for {NODES_MAX + 1} nodes from {block.base} to"):
        block.nodes(NODES_MAX + 1)
