"""The way between nodes: letters as bytes, over one connection for each pair, with everything that can happen to them.

Letters of a connection arrive in order, unless a trouble of the link reorders. A letter is lost with its connection, or by the
link's troubles, which are given for each direction. A *cut* swallows letters and tells nobody; a *reset* tells both ends at
once and is followed by a new connection.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Protocol

from raft.core.messages import Message
from tests.sim.clock import SimLoop

Pair = tuple[int, int]  # sender, receiver


class End(Protocol):
    """Where letters go."""

    def receive(self, sender: int, letter: bytes, messages: Sequence[tuple[int, Message]]) -> None: ...

    def connected(self, node: int) -> None: ...

    def disconnected(self, node: int) -> None: ...


class Trouble:
    """What is wrong with some links for a while. The plan's faults put these on and take them off."""

    __slots__ = ("cut", "damage", "delay_s", "duplicate", "kind", "loss", "on_effect", "reorder_s")

    def __init__(
        self,
        kind: str,
        cut: Callable[[int, int], bool],
        *,
        loss: float = 1.0,
        duplicate: float = 0.0,
        delay_s: float = 0.0,
        reorder_s: float = 0.0,
        damage: float = 0.0,
    ) -> None:
        """`cut` says which directions it is about; `damage`, where links have frames, how likely bytes of a letter change."""
        self.kind = kind
        self.cut = cut
        self.loss = loss
        self.duplicate = duplicate
        self.delay_s = delay_s
        self.reorder_s = reorder_s
        self.damage = damage
        self.on_effect: Callable[[], None] = lambda: None  # on what it has done to a letter


class Network:
    """Everything on its way."""

    def __init__(self, loop: SimLoop, random: Random, delay_s: float, ends: dict[int, End]) -> None:
        self.troubles: list[Trouble] = []
        self.letters = 0
        self.lost = 0
        self._loop = loop
        self._clock = loop.clock
        self._random = random
        self._delay_s = delay_s
        self._ends = ends
        self._connections: dict[Pair, int] = {}  # number of the connection that each end uses; both directions have one
        self._made = 0
        self._arrival: dict[Pair, float] = {}  # of the newest letter of a connection
        self._clogged: dict[Pair, tuple[float, Callable[[], None]]] = {}  # until when, and who is told when it matters

    def connect(self, a: int, b: int) -> None:
        """A new connection between two nodes that run. Letters of an earlier one are lost."""
        self._made += 1
        for pair in ((a, b), (b, a)):
            self._connections[pair] = self._made
            self._arrival.pop(pair, None)
        self._ends[a].connected(b)
        self._ends[b].connected(a)

    def reset(self, a: int, b: int) -> None:
        """The connection breaks, and both know."""
        if (a, b) in self._connections:
            self.forget(a, b)
            self._ends[a].disconnected(b)
            self._ends[b].disconnected(a)

    def forget(self, a: int, b: int) -> None:
        """There is no connection any more."""
        self._connections.pop((a, b), None)
        self._connections.pop((b, a), None)

    def is_connected(self, a: int, b: int) -> bool:
        return (a, b) in self._connections

    def clog(self, sender: int, receiver: int, until: float, on_effect: Callable[[], None]) -> None:
        """Nothing arrives before; then everything at once, in order."""
        self._clogged[sender, receiver] = (until, on_effect)

    def is_clogged(self, pair: Pair) -> bool:
        return pair in self._clogged and self._clogged[pair][0] > self._clock.now

    def heal(self) -> None:
        self.troubles.clear()
        self._clogged.clear()

    def send(self, sender: int, receiver: int, letter: bytes, messages: Sequence[tuple[int, Message]]) -> None:
        """`messages`, each with its group, are for those who watch; what arrives is bytes."""
        pair = (sender, receiver)
        connection = self._connections.get(pair)
        if connection is None:
            return
        random = self._random
        delay = self._delay_s * (0.5 + random.random())
        reorder = False
        again = 0.0
        doubler: Trouble | None = None
        for trouble in self.troubles:
            if trouble.cut(sender, receiver):
                if trouble.loss and random.random() < trouble.loss:
                    self.lost += 1
                    trouble.on_effect()
                    return
                if trouble.delay_s or trouble.reorder_s:
                    trouble.on_effect()
                delay += trouble.delay_s
                if trouble.duplicate > again:
                    again, doubler = trouble.duplicate, trouble
                if trouble.reorder_s:
                    reorder = True
                    delay += trouble.reorder_s * random.random()
        at = self._clock.now + delay
        if self._clogged:
            at = self._after_clog(pair, at)
        if not reorder:
            at = max(at, self._arrival.get(pair, 0.0))
            self._arrival[pair] = at
        self._loop.call_at(at, self._arrive, pair, connection, letter, messages)
        if doubler is not None and random.random() < again:
            doubler.on_effect()
            self._loop.call_at(at + random.random() * 0.5, self._arrive, pair, connection, letter, messages)

    def _after_clog(self, pair: Pair, at: float) -> float:
        until, on_effect = self._clogged.get(pair, (0.0, None))
        if on_effect is None or until <= at:
            return at
        on_effect()
        return until

    def _arrive(self, pair: Pair, connection: int, letter: bytes, messages: Sequence[tuple[int, Message]]) -> None:
        if self._connections.get(pair) == connection:
            self.letters += 1
            self._ends[pair[1]].receive(pair[0], letter, messages)
