"""Brings this node's commands to the metadata group's leader, each until it has been applied here.

Commands leave in the order in which they were submitted, as many at once as wait. What was sent to a leader that is no more,
or over a link that broke, is sent again to the next one, from the first that was not applied here: the machine carries each
out once, and in this order (node/catalog/metadata_machine.py). So a command that was sent is never dropped. Whoever waits for
it may be told earlier that nobody knows what becomes of it.

Without a majority of the disk nodes whoever submits is told at once, with the names of those that are missing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any, Protocol

from broker.catalog.commands.metadata_entry import ENTRY_OLDEST, Origin, WhenAndWho, encode_entry
from broker.errors import BrokerError, ResourceExhausted
from broker.pending import Pending
from node.peers.calls import METADATA, OnAnswer, Payload
from raft.core.errors import BadBytes, RaftError
from raft.core.messages import NodeId
from raft.requests import OnResults

TIMEOUT_S = 30.0
BATCH_BYTES_MAX = 1 << 20  # of commands that are sent together; a single one may be larger

SUBMIT = 1
FETCH = 2
FOLLOWS = 3
TAKEN = b"\x00"
NOT_TAKEN = b"\x01"

_SIZE = Struct("<I")


class Group(Protocol):
    """The member of the metadata group on this node: node/catalog/group.py."""

    def leader(self) -> tuple[NodeId, int]:
        """The node that leads, 0 if nobody is known to, and the term."""

    def propose(self, commands: Sequence[bytes], on_results: OnResults) -> None: ...

    def missing(self) -> Sequence[NodeId]:
        """The voters that cannot be reached, if the others are no majority; else none."""


class CourierCalls(Protocol):
    """What is needed of node/peers/calls.py."""

    def ask(self, node: NodeId, topic: int, payload: Payload, on_answer: OnAnswer) -> None: ...

    def connected(self, node: NodeId) -> bool: ...


class _Submission:
    """One command on its way."""

    __slots__ = ("command", "number", "patient", "pending", "previous", "said", "since", "told")

    def __init__(self, command: bytes, said: WhenAndWho, since: float, patient: bool) -> None:
        self.command = command
        self.said = said
        self.pending: Pending[Any] = Pending()
        self.since = since
        self.patient = patient
        self.told = False  # nobody waits for it any more
        self.number = 0  # drawn when it is sent for the first time
        self.previous = 0

    def fail(self, error: BrokerError) -> None:
        if not self.told:
            self.told = True
            self.pending.fail(error)


class Courier:
    """See the module."""

    def __init__(
        self,
        node: NodeId,
        incarnation: int,
        group: Group,
        calls: CourierCalls,
        monotonic: Callable[[], float],
        name_of: Callable[[NodeId], str],
        writable: Callable[[], int],
    ) -> None:
        """`writable`: the version of entries that every node reads."""
        self._node = node
        self._incarnation = incarnation
        self._group = group
        self._calls = calls
        self._monotonic = monotonic
        self._name_of = name_of
        self._writable = writable
        self._sent: deque[_Submission] = deque()  # to `_leader`, and not applied here yet
        self._unsent: deque[_Submission] = deque()  # behind those; the first may have been sent to an earlier leader
        self._next_number = 1
        self._leader: tuple[NodeId, int] | None = None  # None: everything is to be sent again
        self._attempt = 0

    @property
    def waiting(self) -> int:
        return len(self._sent) + len(self._unsent)

    def submit(self, command: bytes, said: WhenAndWho, *, patient: bool = False) -> Pending[Any]:
        """Answered by `applied`. A patient command waits for a majority, however long that takes."""
        missing = () if patient else self._group.missing()
        if missing:
            return Pending.failed(ResourceExhausted(self._nobody_decides(missing)))
        submission = _Submission(command, said, self._monotonic(), patient)
        self._unsent.append(submission)
        self.pump()
        return submission.pending

    def applied(self, number: int) -> Pending[Any] | None:
        """A command of this process was applied here: whom to answer, if somebody still waits."""
        submission = self._pop_first()
        assert submission.number == number, f"command {number} was applied, and {submission.number} was to be next"
        return None if submission.told else submission.pending

    def overtaken(self, number: int) -> None:
        """All up to this one were applied, and nobody here has seen how."""
        text = "this was carried out, but this node was too far behind to see its result"
        while self.waiting and 0 < (self._sent or self._unsent)[0].number <= number:
            self._pop_first().fail(ResourceExhausted(text))

    def send_again(self) -> None:
        """Something that was sent was not taken."""
        self._leader = None

    def pump(self) -> None:
        """Send what can be sent, if anybody leads."""
        leader = self._group.leader()
        if not leader[0] or (leader[0] != self._node and not self._calls.connected(leader[0])):
            return
        if leader != self._leader:
            self._leader = leader
            self._attempt += 1
            again, self._sent = self._sent, deque()
            self._unsent.extendleft(reversed(again))
        while self._unsent and self._leader == leader:
            self._send(self._take_batch(), leader[0])

    def tick(self) -> None:
        """Now and then: leaders come and go, and who waits should not wait for ever."""
        if not self.waiting:
            return
        missing = self._group.missing()
        if missing:
            self._give_up(lambda submission: True, self._nobody_decides(missing))
        until = self._monotonic() - TIMEOUT_S
        self._give_up(lambda one: one.since <= until, f"nothing was decided within {TIMEOUT_S:.0f} s")
        self.pump()

    def close(self, why: str = "this node is stopping") -> None:
        for submission in (*self._sent, *self._unsent):
            submission.fail(ResourceExhausted(why))

    def _pop_first(self) -> _Submission:
        return (self._sent or self._unsent).popleft()

    def _give_up(self, concerned: Callable[[_Submission], bool], text: str) -> None:
        """Tell who waits. What was sent stays, since the commands behind it say that they follow it."""
        for submission in (*self._sent, *self._unsent):
            if not submission.patient and concerned(submission):
                unknown = "; what was asked for may still be carried out" if submission.number else ""
                submission.fail(ResourceExhausted(text + unknown))
        self._unsent = deque(one for one in self._unsent if one.number or not one.told)

    def _nobody_decides(self, missing: Sequence[NodeId]) -> str:
        names = ", ".join(f"'{self._name_of(node)}'" for node in missing)
        return f"nothing can be declared or changed without a majority of the disk nodes, and {names} cannot be reached"

    def _take_batch(self) -> list[bytes]:
        entries: list[bytes] = []
        size = 0
        version = self._writable()
        while self._unsent and (not entries or size + len(self._unsent[0].command) <= BATCH_BYTES_MAX):
            submission = self._unsent.popleft()
            if not submission.number:
                submission.number = self._next_number
                submission.previous = self._next_number - 1
                self._next_number += 1
            self._sent.append(submission)
            origin = Origin(self._node, self._incarnation, submission.number, submission.previous)
            said = submission.said if version > ENTRY_OLDEST else None
            entries.append(encode_entry(origin, submission.command, said, version))
            size += len(entries[-1])
        return entries

    def _send(self, entries: Sequence[bytes], leader: NodeId) -> None:
        attempt = self._attempt

        def not_taken() -> None:
            if attempt == self._attempt:
                self._leader = None

        def proposed(_: Sequence[Any] | None, error: RaftError | None) -> None:
            if error is not None:
                not_taken()

        def answered(answer: bytes | None) -> None:
            if answer != TAKEN:
                not_taken()

        if leader == self._node:
            self._group.propose(entries, proposed)
        else:
            self._calls.ask(leader, METADATA, encode_submit(entries), answered)


def encode_submit(entries: Sequence[bytes]) -> list[bytes]:
    parts = [bytes((SUBMIT,))]
    for entry in entries:
        parts += (_SIZE.pack(len(entry)), entry)
    return parts


def decode_submit(payload: bytes) -> list[bytes]:
    """The entries. Raises BadBytes."""
    entries, at = [], 1
    while at < len(payload):
        end = at + _SIZE.size + int.from_bytes(payload[at : at + _SIZE.size], "little")
        if end > len(payload):
            raise BadBytes(f"an entry of the metadata log that ends at {end} of {len(payload)} bytes")
        entries.append(payload[at + _SIZE.size : end])
        at = end
    if not entries:
        raise BadBytes("no entry of the metadata log where some should be")
    return entries
