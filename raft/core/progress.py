"""One follower, as the leader sees it.

PROBE      where the logs agree is not known: one message at a time, until one is accepted
STREAM     it is: entries are sent ahead of acknowledgements, within a window
SNAPSHOT   the next entry it needs is no longer in the log: chunks of a snapshot, see raft/core/snapshot_transfer.py

A follower on a node that is not trusted is sent nothing. Whatever it owed is forgotten, and it is probed when the node is
trusted again.
"""

from __future__ import annotations

from collections import deque
from enum import Enum

from raft.core.messages import MemberId, NodeId, SnapshotMeta, node_of
from raft.core.snapshot_transfer import SnapshotSend


class Sending(Enum):
    """How a follower is fed."""

    PROBE = "probe"
    STREAM = "stream"
    SNAPSHOT = "snapshot"


class Progress:
    """match < next; what lies between is on its way."""

    __slots__ = (
        "commit", "commit_sent", "in_flight", "in_flight_bytes", "installed_bytes", "match", "member", "next", "node", "probed",
        "resend_at", "round", "round_sent", "sending", "snapshot", "trusted",
    )  # fmt: skip

    match: int  # highest index known to be durable there and equal to the leader's
    next: int  # of the first entry to send
    commit: int  # highest commit index that it has said it knows
    commit_sent: int  # highest that was sent to it, and perhaps lost
    round: int  # highest read round that it has said back
    round_sent: int
    probed: bool  # in PROBE: a message is on its way, and the next waits for the answer or for resend_at
    resend_at: float | None  # when to ask again, if it owes an answer

    def __init__(self, member: MemberId, last: int, *, trusted: bool) -> None:
        self.member = member
        self.node: NodeId = node_of(member)
        self.trusted = trusted
        self.sending = Sending.PROBE
        self.match = 0
        self.next = last + 1
        self.commit = self.commit_sent = 0
        self.round = self.round_sent = 0
        self.probed = False
        self.resend_at = None
        self.in_flight: deque[tuple[int, int]] = deque()  # (last index, bytes) of each message with entries
        self.in_flight_bytes = 0
        self.snapshot: SnapshotSend | None = None
        self.installed_bytes: int | None = (
            None  # of the snapshot that it was restored from, until it has been sent all behind it
        )

    @property
    def received_bytes(self) -> int | None:
        """Of the snapshot that it receives, or from which it catches up. None: there is none."""
        return self.snapshot.acknowledged if self.snapshot is not None else self.installed_bytes

    def probe(self) -> None:
        """Find out anew where the logs agree; forget what is on its way."""
        if self.sending is not Sending.PROBE:
            self.next = self.match + 1
        self.sending = Sending.PROBE
        self.probed = False
        self.snapshot = None
        self._forget_in_flight()

    def send_snapshot(self, meta: SnapshotMeta) -> None:
        self.sending = Sending.SNAPSHOT
        self.snapshot = SnapshotSend(meta)
        self._forget_in_flight()

    def _forget_in_flight(self) -> None:
        self.in_flight.clear()
        self.in_flight_bytes = 0

    def ask_again(self) -> None:
        """Nothing was heard for too long."""
        self.resend_at = None
        if self.snapshot is not None:
            self.snapshot.must_ask = True
        else:
            self.probe()

    def suspect(self) -> None:
        self.trusted = False
        self.resend_at = None
        self.installed_bytes = None
        self.probe()

    def trust(self) -> None:
        self.trusted = True
        self.probe()

    @property
    def is_fed(self) -> bool:
        """Its log agrees with the leader's, as far as it was asked since its node was trusted."""
        return self.trusted and self.sending is Sending.STREAM

    def may_send(self, window_bytes: int, window_messages: int) -> bool:
        """Whether entries may be sent now."""
        if self.sending is Sending.STREAM:
            return self.in_flight_bytes < window_bytes and len(self.in_flight) < window_messages
        return self.sending is Sending.PROBE and not self.probed

    def sent(self, last: int, size: int) -> None:
        """Entries up to `last` are on their way."""
        assert last >= self.next, f"entries up to {last} sent, next was {self.next}"
        if self.sending is Sending.STREAM:
            self.next = last + 1
            self.in_flight.append((last, size))
            self.in_flight_bytes += size

    def accepted(self, index: int) -> bool:
        """It is durable there up to `index`. Whether that is news about its log."""
        if index < self.match or (index == self.match and self.sending is not Sending.PROBE):
            return False
        self.match = index
        while self.in_flight and self.in_flight[0][0] <= index:
            self.in_flight_bytes -= self.in_flight.popleft()[1]
        if self.sending is Sending.PROBE:
            self.sending = Sending.STREAM
            self.probed = False
            self.next = index + 1
        if self.next <= index:
            self.next = index + 1
        return True

    def rejected(self, prev_index: int, agrees: int) -> bool:
        """It has no such entry; its log may agree up to `agrees`. Whether there is something else to try at once: old news
        changes nothing, and a follower that keeps refusing the same is asked again only after a while."""
        if prev_index <= self.match or self.sending is Sending.SNAPSHOT:
            return False
        if self.sending is Sending.STREAM:
            self.probe()
            return True
        if prev_index != self.next - 1 or agrees >= prev_index:
            return False  # the latter: its log agrees there, and it takes nothing now, while it installs a snapshot
        self.next = max(self.match + 1, min(prev_index, agrees + 1))
        self.probed = False
        return True

    def installed(self, index: int) -> None:
        """It was restored from a snapshot, or was beyond it."""
        assert self.snapshot is not None, f"member {self.member} has installed a snapshot that it was not sent"
        self.installed_bytes = self.snapshot.sent
        self.match = max(self.match, index)
        self.sending = Sending.STREAM  # so that probing begins behind match
        self.probe()

    def owes(self, last: int, commit: int, read_round: int) -> bool:
        """Whether it has not said yet that it has everything and knows so."""
        return self.trusted and (
            self.sending is not Sending.STREAM or self.match < last or self.commit < commit or self.round < read_round
        )
