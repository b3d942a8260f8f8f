"""A network that goes silent: packets between nodes are dropped, and nobody is told. No reset, no refusal, no error.

Each node runs in a network namespace of its own; a bridge joins them all with this machine, where the clients are. What a node
drops are packets that arrive from nodes on its list (nftables, hook input), so that whoever sends does not even see its own
kernel complain. A client still reaches a node that no other node reaches. Needs root, `ip` and `nft`.

A cut that cuts nothing makes every test on top of it pass. So each cut and each healing is probed with datagrams between the
namespaces, and one that is not as it was asked for raises NotAsAsked.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.crash.datagram_probe import DatagramProbe
from tests.crash.power import run
from tests.raft_node.cluster import Place

PEER_PORT, SERVICE_PORT = 7001, 7002
RULES = """
add table inet silence
add set inet silence silenced { type ipv4_addr; }
add chain inet silence heard { type filter hook input priority 0; }
add rule inet silence heard ip saddr @silenced drop
"""


class NotAsAsked(Exception):
    """Packets pass where they were to be dropped, or are dropped where they were to pass."""


def available() -> str | None:
    """Why nodes cannot be cut off here, or None when they can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    missing = [name for name in ("ip", "nft", "nsenter") if shutil.which(name) is None]
    return f"{' and '.join(missing)} must be installed (iproute2, nftables, util-linux)" if missing else None


class SilentNetwork:
    """Nodes 1 to `count`, which hear each other until they are told not to."""

    def __init__(self, count: int) -> None:
        self._tag = f"lv{os.getpid()}"
        self._subnet = (
            f"198.{18 + os.getpid() // 256 % 2}.{os.getpid() % 256}"  # RFC 2544 sets 198.18.0.0/15 aside for tests
        )
        self._numbers = range(1, count + 1)
        self._silenced: set[tuple[int, int]] = set()  # receiver and sender
        self._probe: DatagramProbe | None = None

    def set_up(self) -> None:
        run("ip", "link", "add", self._tag, "type", "bridge")
        run("ip", "addr", "add", f"{self._subnet}.254/24", "dev", self._tag)
        run("ip", "link", "set", self._tag, "up")
        for number in self._numbers:
            name, cable = self._namespace(number), self._cable(number)
            run("ip", "netns", "add", name)
            run("ip", "link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", name)
            run("ip", "link", "set", cable, "master", self._tag, "up")
            run("ip", "-n", name, "addr", "add", f"{self.host(number)}/24", "dev", "eth0")
            run("ip", "-n", name, "link", "set", "eth0", "up")
            run("ip", "-n", name, "link", "set", "lo", "up")
            run(*self.enter(number), "nft", RULES)
        self._probe = DatagramProbe({number: (self._namespace(number), self.host(number)) for number in self._numbers})
        self._check()

    def tear_down(self) -> None:
        """Also after half a set_up."""
        if self._probe is not None:
            self._probe.close()
        with contextlib.suppress(RuntimeError):
            run("ip", "link", "del", self._tag)
        for number in self._numbers:
            with contextlib.suppress(RuntimeError):
                # By name: with its namespace it would go some time later, and the next network wants the name now.
                run("ip", "link", "del", self._cable(number))
            with contextlib.suppress(RuntimeError):
                run("ip", "netns", "del", self._namespace(number))

    def host(self, number: int) -> str:
        return f"{self._subnet}.{number}"

    @property
    def outside(self) -> str:
        """This machine, as the nodes see it. It is heard by all of them, always."""
        return f"{self._subnet}.254"

    def enter(self, number: int) -> tuple[str, ...]:
        """The beginning of a command that runs in the node's namespace."""
        return ("nsenter", f"--net=/run/netns/{self._namespace(number)}")

    def places(self, scratch: Path) -> dict[int, Place]:
        return {
            number: Place(
                scratch / f"n{number}",
                f"{self.host(number)}:{PEER_PORT}",
                f"{self.host(number)}:{SERVICE_PORT}",
                self.enter(number),
            )
            for number in self._numbers
        }

    def silence(self, receiver: int, senders: Iterable[int]) -> None:
        """From now on `receiver` hears nothing of `senders`. Raises NotAsAsked."""
        senders = set(senders)
        hosts = ", ".join(self.host(sender) for sender in senders)
        run(*self.enter(receiver), "nft", f"add element inet silence silenced {{ {hosts} }}")
        self._silenced |= {(receiver, sender) for sender in senders}
        self._check()

    def heal(self) -> None:
        """All hear each other again. Raises NotAsAsked."""
        for number in self._numbers:
            run(*self.enter(number), "nft", "flush set inet silence silenced")
        self._silenced.clear()
        self._check()

    def _check(self) -> None:
        assert self._probe is not None, "a network that was not set up"
        pairs = {(receiver, sender) for receiver in self._numbers for sender in self._numbers if receiver != sender}
        heard = self._probe.heard(pairs - self._silenced, pairs)
        if wrong := heard ^ (pairs - self._silenced):
            told = [
                f"{receiver} {'hears' if (receiver, sender) in heard else 'does not hear'} {sender}"
                for receiver, sender in sorted(wrong)
            ]
            raise NotAsAsked(f"node {', node '.join(told)}")

    def _cable(self, number: int) -> str:
        return f"{self._tag}-{number}"

    def _namespace(self, number: int) -> str:
        return f"{self._tag}-node{number}"


@contextlib.contextmanager
def silent_network(count: int = 3) -> Iterator[SilentNetwork]:
    network = SilentNetwork(count)
    try:
        network.set_up()
        yield network
    finally:
        network.tear_down()
