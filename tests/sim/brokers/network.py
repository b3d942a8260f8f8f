"""The network as links between nodes see it: one TCP connection for each pair, with two queues of letters.

Raft's letters are lost, doubled and reordered, as they are in tests/sim/network.py: an engine that bears that bears what a link
drops when too much waits. What the nodes say to each other (node/peers/calls.py) is not: it arrives once and in order, later
when something is wrong with the way, or the connection ends. Nodes end a connection on which they hear nothing, and connect
again as soon as there is a way.

Where bytes are changed on their way, letters travel in the frames of real links (node/peers/frames.py): the reader must notice,
and the connection ends before anything of the letter is believed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Protocol

from node.peers.frames import FrameReader, framed
from raft.core.errors import BadBytes
from raft.core.messages import Message
from tests.sim.brokers.invariants import About, frames_say_what_was_sent
from tests.sim.clock import SimLoop
from tests.sim.network import End, Network, Pair

RETRANSMITTED_S = 0.2  # later arrives what was lost once
LOOK_S = 0.1  # how often is looked whether a way is open again
BITS_CHANGED_MAX = 3  # of one frame
FRAME_BYTES_MAX = 64 << 20  # node/peers/link.py, message_bytes_max


class CallEnd(End, Protocol):
    """Where calls go, too."""

    @property
    def is_up(self) -> bool: ...

    def is_linked_to(self, node: int) -> bool:
        """Whether its process wants a connection to this node."""

    def receive_call(self, sender: int, letter: bytes) -> None: ...

    def call_left(self, receiver: int) -> None:
        """What was sent there has left."""


class LinkNetwork(Network):
    """See the module. `silence_s`: as long a connection lives on which nothing is heard."""

    def __init__(
        self,
        loop: SimLoop,
        random: Random,
        delay_s: float,
        ends: Mapping[int, CallEnd],
        silence_s: float,
        about: About,
        count: Callable[[str], None],
    ) -> None:
        super().__init__(loop, random, delay_s, ends)  # type: ignore[arg-type]  # the same dictionary, which grows
        self._call_ends = ends
        self._silence_s = silence_s
        self._ways: dict[Pair, deque[bytes]] = {}  # calls under way, of the connection that there is
        self._silent_since: dict[Pair, float] = {}
        self._arrives_at: dict[Pair, float] = {}
        self._about = about
        self._count = count
        self.changed_at = 0.0  # when a connection came or went
        self._ended_by_damage: dict[Pair, bool] = {}  # connections that are not made again yet

    def connect(self, a: int, b: int) -> None:
        """Unless one of them knows nothing of the other."""
        ends = self._call_ends
        if not ends[a].is_linked_to(b) or not ends[b].is_linked_to(a):
            return
        self.changed_at = self._loop.time()
        for pair in ((a, b), (b, a)):
            self._ways[pair] = deque()
            self._arrives_at.pop(pair, None)
            self._silent_since.pop(pair, None)
            if self._ended_by_damage.pop(pair, False):
                self._count("connection made again after damage")
        super().connect(a, b)

    def forget(self, a: int, b: int) -> None:
        self.changed_at = self._loop.time()
        for pair in ((a, b), (b, a)):
            self._ways.pop(pair, None)
            self._silent_since.pop(pair, None)
        super().forget(a, b)

    def is_cut(self, sender: int, receiver: int) -> bool:
        """Whether nothing at all passes there now."""
        if self.is_clogged((sender, receiver)):
            return True
        return any(trouble.loss >= 1.0 and trouble.cut(sender, receiver) for trouble in self.troubles)

    def send_call(self, sender: int, receiver: int, letter: bytes) -> None:
        pair = (sender, receiver)
        way = self._ways.get(pair)
        if way is not None:
            way.append(letter)
            if len(way) == 1:
                self._carry_next(pair, way)

    def calls_waiting(self, sender: int, receiver: int) -> int:
        return sum(map(len, self._ways.get((sender, receiver), ())))

    def look(self) -> None:
        """Called every LOOK_S: ends connections that are silent for too long, and makes those that can be made."""
        now = self._loop.time()
        numbers = list(self._call_ends)
        for a in numbers:
            for b in numbers:
                if a < b and self._call_ends[a].is_up and self._call_ends[b].is_up:
                    self._look_at(a, b, now)

    def _look_at(self, a: int, b: int, now: float) -> None:
        is_open = not self.is_cut(a, b) and not self.is_cut(b, a)
        if not self.is_connected(a, b):
            if is_open:
                self.connect(a, b)
        elif is_open:
            self._silent_since.pop((a, b), None)
        elif now - self._silent_since.setdefault((a, b), now) > self._silence_s:
            self.reset(a, b)

    def _carry_next(self, pair: Pair, way: deque[bytes]) -> None:
        random, now = self._random, self._loop.time()
        delay = self._delay_s * (0.5 + random.random())
        for trouble in self.troubles:
            if trouble.cut(*pair):
                delay += trouble.delay_s + trouble.reorder_s * random.random()
                if trouble.delay_s or trouble.reorder_s:
                    trouble.on_effect()
                if trouble.loss and random.random() < trouble.loss:
                    trouble.on_effect()
                    delay += RETRANSMITTED_S
        self._loop.call_at(now + delay, self._try_to_arrive, pair, way)

    def _try_to_arrive(self, pair: Pair, way: deque[bytes]) -> None:
        if self._ways.get(pair) is not way:
            return  # that connection is gone, and what was on it
        if self.is_cut(*pair):
            self._loop.call_later(LOOK_S, self._try_to_arrive, pair, way)
            return
        sender, receiver = pair
        # What was sent since arrives with the first, as on a stream.
        letters = list(way)
        way.clear()
        for letter in letters:
            if self._ways.get(pair) is way and not self._is_damaged(pair, letter):
                self._call_ends[receiver].receive_call(sender, letter)
        if self._ways.get(pair) is way:
            self._call_ends[sender].call_left(receiver)

    def _arrive(self, pair: Pair, connection: int, letter: bytes, messages: Sequence[tuple[int, Message]]) -> None:
        if self._connections.get(pair) == connection and not self._is_damaged(pair, letter):
            super()._arrive(pair, connection, letter, messages)

    def _is_damaged(self, pair: Pair, letter: bytes) -> bool:
        """Whether bytes of it were changed on its way. Then its receiver ends the connection."""
        for trouble in self.troubles:
            if trouble.damage and trouble.cut(*pair) and self._random.random() < trouble.damage:
                trouble.on_effect()
                self._read_damaged(pair, letter)
                self._count("connection ended by a wrong checksum")
                self._ended_by_damage[min(pair), max(pair)] = True
                self.reset(*pair)
                return True
        return False

    def _read_damaged(self, pair: Pair, letter: bytes) -> None:
        """What a node makes of a frame of which some bits are others."""
        frame = bytearray(b"".join(framed([letter], checked=True)))
        for bit in self._random.sample(range(len(frame) * 8), self._random.randint(1, BITS_CHANGED_MAX)):
            frame[bit // 8] ^= 1 << bit % 8
        reader = FrameReader(FRAME_BYTES_MAX)
        reader.checked = True
        read: list[bytes] = []
        noticed = False
        try:
            read = _read(reader, frame)
        except BadBytes:
            noticed = True
        frames_say_what_was_sent(self._about, pair, noticed, read)


def _read(reader: FrameReader, data: bytes | bytearray) -> list[bytes]:
    """The payloads in it, as they come from a socket."""
    found: list[bytes] = []
    while data:
        room = reader.get_buffer()
        count = min(len(room), len(data))
        room[:count] = data[:count]
        found += map(bytes, reader.payloads(count))
        data = data[count:]
    return found
