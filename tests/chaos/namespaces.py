"""The backend of processes in network namespaces: nodes that stop hearing each other, and links that are slow or break.

What is cut is dropped where it arrives (tests/crash/silence.py), so nobody is told. For shaped links nodes reach each other
through a proxy in between (links.py), which clients do not: a client still reaches a node that no other node reaches.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from tests.chaos.backend import Can, LinkShape, Shape
from tests.chaos.links import Links
from tests.chaos.node_process import ROOT, Place
from tests.chaos.processes import OWN_DISK, Processes
from tests.crash import power, silence

AMQP_PORT, GRPC_PORT, PEER_PORT = 5672, 5680, 5681
USER, PASSWORD = "chaos", "chaos in a namespace"


def unavailable(needs: frozenset[Can]) -> str | None:
    """Why namespaces cannot do this here, or None when they can."""
    if beyond := needs - Namespaces.can:
        return f"namespaces cannot {', '.join(sorted(what.value for what in beyond))}"
    if why_not := silence.available():
        return why_not
    return power.available() if needs & OWN_DISK else None


class Namespaces(Processes):
    can = Processes.can | {Can.ISOLATE, Can.CUT, Can.SHAPE}

    def __init__(self, shape: Shape, scratch: Path, needs: frozenset[Can] = frozenset()) -> None:
        super().__init__(shape, scratch, needs)
        self.credentials = (USER, PASSWORD)
        self._network = silence.SilentNetwork(len(shape.names))
        self._links: Links | None = None

    def begin(self) -> None:
        self._stack.callback(self._network.tear_down)
        self._network.set_up()
        if Can.SHAPE in self._needs:
            self._links = Links(
                {name: (self._network.host(number), PEER_PORT) for name, number in self._numbers()},
                self._network.outside,
            )
            self._stack.callback(self._links.close)
            self._links.open()
        super().begin()
        self._add_user()

    def isolate(self, node: str) -> None:
        others = [name for name in self.shape.names if name != node]
        self.cut(node, others)
        for other in others:
            self.cut(other, [node])

    def cut(self, deaf: str, unheard: Iterable[str]) -> None:
        numbers = dict(self._numbers())
        self._network.silence(numbers[deaf], [numbers[name] for name in unheard])

    def mend(self) -> None:
        self._network.heal()
        if self._links is not None:
            self._links.mend()

    def shape_link(self, sender: str, receiver: str, shape: LinkShape) -> None:
        assert self._links is not None, "the scenario does not say that it shapes links"
        self._links.shape(sender, receiver, shape)

    def bits_flipped(self) -> int:
        return self._links.flipped if self._links is not None else 0

    def links_bent(self) -> int:
        return self._links.bent if self._links is not None else 0

    def _numbers(self) -> Iterable[tuple[str, int]]:
        return ((name, number) for number, name in enumerate(self.shape.names, 1))

    def _places(self) -> dict[str, Place]:
        return {name: self._place(name, number) for name, number in self._numbers()}

    def _place(self, name: str, number: int) -> Place:
        host = self._network.host(number)
        peer = f"{host}:{PEER_PORT}"
        listen = [
            "--amqp",
            f"{host}:{AMQP_PORT}",
            "--grpc",
            f"{host}:{GRPC_PORT}",
            "--http",
            "127.0.0.1:0",
            "--stream",
            "127.0.0.1:0",
        ]
        listen += ["--grpc", f"127.0.0.1:{GRPC_PORT}", "--peer", peer]
        if self._links is not None:
            through_host, through_port = self._links.address(name)
            peer = f"{through_host}:{through_port}"
            listen += ["--advertise", peer]
        return Place((host, AMQP_PORT), (host, GRPC_PORT), tuple(listen), peer, self._network.enter(number))

    def _add_user(self) -> None:
        """guest may come from loopback only, and clients are outside of the namespaces."""
        tell = (*self._network.enter(1), sys.executable, "-m", "leveret.ctl", "--node", f"127.0.0.1:{GRPC_PORT}")
        for command in (
            ["user", "add", USER, "--new-password", PASSWORD, "--tag", "administrator"],
            ["permission", "set", USER, ".*", ".*", ".*"],
        ):
            done = subprocess.run([*tell, *command], capture_output=True, text=True, cwd=ROOT, check=False)
            if done.returncode:
                raise RuntimeError(f"leveretctl {' '.join(command)} failed: {done.stderr or done.stdout}")
