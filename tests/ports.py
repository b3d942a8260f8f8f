"""Ports for processes that must know where the others listen before any of them has started.

The kernel gives out such ports to outgoing connections too, so that one which was free is taken when a node that was stopped
comes back to it. These lie below that range, and each process that runs tests has a block of its own.
"""

from __future__ import annotations

import contextlib
import functools
import socket

from node.commands.planned_nodes import PORTS, PORTS_APART, address

HOST = "127.0.0.1"
BLOCK = PORTS_APART * PORTS
BLOCKS = range(20_000, 32_768 - BLOCK, BLOCK)  # from 32 768 on they are the kernel's, unless it is told otherwise
NODES_MAX = PORTS_APART - 1  # the last one's last port is what the block is held by


class Block:
    """Room for a hundred nodes as `leveret cluster` lays them out, less one. It is held for as long as the process lives."""

    def __init__(self) -> None:
        self.base, self._held = _claimed()
        self._next = 0

    def nodes(self, count: int) -> int:
        """The base port of so many nodes that find all their ports free. What was given out last is given out again last."""
        for _ in range(NODES_MAX):
            at = self._next if self._next + count <= NODES_MAX else 0
            if _are_free([_port(self.base, number, part) for number in range(at, at + count) for part in range(PORTS)]):
                self._next = at + count
                return self.base + at
            self._next = at + 1
        raise RuntimeError(f"no free ports for {count} nodes from {self.base} to {self.base + BLOCK - 1}")


@functools.cache
def _block() -> Block:
    return Block()


def free_base_port(nodes: int) -> int:
    """Where a cluster of so many nodes finds all its ports free."""
    return _block().nodes(nodes)


def free_ports(count: int) -> list[int]:
    nodes = -(-count // PORTS)
    base = free_base_port(nodes)
    return [_port(base, number, part) for part in range(PORTS) for number in range(nodes)][:count]


def _claimed() -> tuple[int, socket.socket]:
    for base in BLOCKS:
        held = socket.socket()
        try:
            held.bind((HOST, base + BLOCK - 1))
        except OSError:
            held.close()
        else:
            return base, held
    raise RuntimeError(f"{len(BLOCKS)} processes hold ports for tests already")


def _port(base: int, number: int, part: int) -> int:
    return int(address(base, number, part).rpartition(":")[2])


def _are_free(ports: list[int]) -> bool:
    with contextlib.ExitStack() as taken:
        try:
            for port in ports:
                taken.enter_context(socket.create_server((HOST, port)))
        except OSError:
            return False
    return True
