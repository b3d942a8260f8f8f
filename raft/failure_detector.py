"""Which nodes can be reached: one answer for all the groups that two nodes share. A core: no clock, no sockets.

A node is *trusted* while it answers: its pong to a ping of ours shows that both directions work. It is *suspected*
- at once when the connection to it is lost, for a process that ends takes its connections with it;
- when nothing was heard of it for `silence_s`: a machine without power, a stopped process, a network that swallows what it is
  given;
- when it has not answered a ping sent in the last `answer_s`, though it is heard: it does not hear us. This is longer, for an
  answer waits its turn behind all else that a busy node has to read, and being busy is no reason for an election;
- for a moment, and then trusted, when it answers under a new incarnation: what its groups were told may be forgotten.

Suspecting is cheap and may be wrong: it lets groups ask for an election, which a majority must grant. Nothing is ever
unsafe by it.

When this node itself was held up (a stopped process, a long pause) its own silence is no sign of the others'. Then
they get time for an answer before they are judged.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from raft.core.messages import NodeId
from raft.transport import Sign


@dataclass(slots=True, frozen=True)
class DetectorSettings:
    """Seconds. A peer that is silent is suspected after `silence_s` to `silence_s + ping_interval_s`."""

    ping_interval_s: float = 0.25
    silence_s: float = 0.8
    answer_s: float = 2.0


class TrustChange(NamedTuple):
    """Trust in a node began or ended. `restarted`: it is another process now, which leads nothing. `silent`: nothing says that
    its process has ended."""

    node: NodeId
    trusted: bool
    restarted: bool = False
    silent: bool = False


@dataclass(slots=True)
class _WatchedNode:
    incarnation: int = 0  # 0: not heard of yet
    trusted: bool = False
    next_ping: float = 0.0
    asked: int = 0  # number of the newest ping
    sent_at: dict[int, float] = field(default_factory=dict)  # unanswered pings, the oldest first
    heard_at: float = 0.0
    answered_at: float = 0.0  # when the newest ping that was answered had been sent
    round_trip_s: float | None = None  # of that ping


class FailureDetector:
    """Signs of life in, verdicts and signs out. `take_signs` and `take_verdicts` after each call."""

    def __init__(self, incarnation: int, settings: DetectorSettings, now: float) -> None:
        assert incarnation > 0, f"incarnation {incarnation} of this process"
        assert 0 < settings.ping_interval_s < settings.silence_s, f"{settings} leaves no time for an answer"
        self.incarnation = incarnation
        self._settings = settings
        self._answer_s = max(settings.answer_s, settings.silence_s)
        self._peers: dict[NodeId, _WatchedNode] = {}
        self._signs: list[tuple[NodeId, Sign]] = []
        self._verdicts: list[TrustChange] = []
        self._next_tick = now
        self._patient_until = now

    @property
    def deadline(self) -> float | None:
        """When `tick` must be called; None without peers."""
        return self._next_tick if self._peers else None

    def trusts(self, node: NodeId) -> bool:
        peer = self._peers.get(node)
        return peer is not None and peer.trusted

    def round_trip_s(self, node: NodeId) -> float | None:
        """How long the last answer took; None before the first."""
        peer = self._peers.get(node)
        return peer.round_trip_s if peer is not None else None

    def nodes(self) -> Iterable[NodeId]:
        return self._peers.keys()

    def add(self, node: NodeId, now: float) -> None:
        """Watch this node from now on. It is suspected until it has answered."""
        if node not in self._peers:
            self._peers[node] = _WatchedNode(next_ping=now)
            self._next_tick = min(self._next_tick, now)

    def remove(self, node: NodeId) -> None:
        peer = self._peers.pop(node, None)
        if peer is not None and peer.trusted:
            self._verdicts.append(TrustChange(node, False))

    def connected(self, node: NodeId, now: float) -> None:
        """There is a new connection: ask over it at once."""
        peer = self._peers.get(node)
        if peer is not None:
            self._ping(node, peer, now)

    def disconnected(self, node: NodeId) -> None:
        """The connection was lost, and not because we replaced it by another."""
        peer = self._peers.get(node)
        if peer is not None:
            peer.sent_at.clear()  # an answer to these would say nothing about the next connection
            self._judge(node, peer, False)

    def heard(self, node: NodeId, now: float) -> None:
        """A letter of another kind came from it."""
        peer = self._peers.get(node)
        if peer is not None:
            peer.heard_at = now

    def heard_sign(self, node: NodeId, sign: Sign, now: float) -> None:
        """A ping is answered, a pong noted."""
        peer = self._peers.get(node)
        if peer is None or sign.incarnation < peer.incarnation:
            return  # a stranger, or a process that has ended since
        peer.heard_at = now
        if sign.incarnation > peer.incarnation:
            if peer.incarnation:
                peer.trusted = False
                self._verdicts.append(TrustChange(node, False, restarted=True))
            peer.incarnation = sign.incarnation
            peer.sent_at.clear()
            self._ping(node, peer, now)
        if not sign.is_pong:
            self._signs.append((node, Sign(True, self.incarnation, sign.number, sign.incarnation)))
        elif sign.to_incarnation == self.incarnation:
            self._note_answer(node, peer, sign.number, now)

    def tick(self, now: float) -> None:
        """Ask who is due, and judge who has not answered."""
        interval = self._settings.ping_interval_s
        late = now - self._next_tick
        if late > interval:
            self._patient_until = now + min(late, self._settings.silence_s)
        is_patient = now < self._patient_until
        for node, peer in self._peers.items():
            if peer.trusted and not is_patient and self._is_silent(peer, now):
                peer.trusted = False
                self._verdicts.append(TrustChange(node, False, silent=True))
            if now >= peer.next_ping:
                self._ping(node, peer, now)
        self._next_tick = min([peer.next_ping for peer in self._peers.values()], default=now + interval)

    def take_signs(self) -> list[tuple[NodeId, Sign]]:
        """What is to be sent."""
        signs, self._signs = self._signs, []
        return signs

    def take_verdicts(self) -> list[TrustChange]:
        """What the groups are to be told, in order."""
        verdicts, self._verdicts = self._verdicts, []
        return verdicts

    def _is_silent(self, peer: _WatchedNode, now: float) -> bool:
        return now - peer.heard_at > self._settings.silence_s or now - peer.answered_at > self._answer_s

    def _ping(self, node: NodeId, peer: _WatchedNode, now: float) -> None:
        peer.next_ping = now + self._settings.ping_interval_s
        peer.asked += 1
        peer.sent_at[peer.asked] = now
        while now - next(iter(peer.sent_at.values())) > self._answer_s:
            del peer.sent_at[next(iter(peer.sent_at))]  # an answer now would come too late
        self._signs.append((node, Sign(False, self.incarnation, peer.asked, peer.incarnation)))

    def _note_answer(self, node: NodeId, peer: _WatchedNode, number: int, now: float) -> None:
        sent_at = peer.sent_at.get(number)
        if sent_at is None:
            return
        for older in [one for one in peer.sent_at if one <= number]:
            del peer.sent_at[older]
        peer.answered_at = max(peer.answered_at, sent_at)
        peer.round_trip_s = now - sent_at
        self._judge(node, peer, True)

    def _judge(self, node: NodeId, peer: _WatchedNode, trusted: bool) -> None:
        if peer.trusted != trusted:
            peer.trusted = trusted
            self._verdicts.append(TrustChange(node, trusted))
