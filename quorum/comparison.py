"""Whether the members of a queue's group have come to the same state, and which version of the machine all of them know.

The digest covers every entry's bytes as this member has applied them, so bodies too, and what its machine has made of them.
Each member remembers it at *marks*: as it was before the first entry of each MARK_ENTRIES. They stand at the same
entries on every member, however these came in. The leader asks the others for theirs every COMPARE_MS while there is something
new, and compares what it has in common with them.

Where they differ, what a majority of the voters has come to is right. A member that has come to something else is given up as
if its disk had lost it, and made anew from the others: nobody knows what else is wrong in it. The log of a member is a copy,
whatever its machine has made of it, so one goes at a time, and only while all voters answer: of several the next one waits
until the one before votes again. Without such a majority all of them stay, and it is said each time.

The answers tell, too, which version a member's node knows. When all know a later one than the group has, the leader proposes
it (quorum/versions.py). So it asks at once when it begins to lead, and again whenever a node was away.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from quorum.commands import Upgrade
from quorum.letters import QUORUM_TOPIC
from raft.membership import members_of
from raft.messages import Membership, NodeId, node_of
from replicated import letters
from replicated.letters import AnswerStatus, BadLetter, Verdict

if TYPE_CHECKING:
    from quorum.driver import QuorumQueues
    from quorum.leading import Leading
    from quorum.machine import QueueMachine
    from quorum.queue import QuorumQueue

MARK_BITS = 6
MARK_ENTRIES = 1 << MARK_BITS
MARKS_MAX = 16  # a member that is further behind is compared when it has caught up
COMPARE_MS = 30_000
ASK_AGAIN_MS = 5_000  # for a version that is not known yet


class Marks:
    """Of one member's machine."""

    __slots__ = ("_kept", "_stretch")

    def __init__(self) -> None:
        self._kept: deque[tuple[int, int]] = deque(maxlen=MARKS_MAX)
        self._stretch = -1

    def before(self, index: int, machine: QueueMachine) -> None:
        """The entry at this index is about to be applied."""
        stretch = index >> MARK_BITS
        if stretch != self._stretch:
            self._stretch = stretch
            self._kept.append((machine.state.applied, machine.state.digest))

    def clear(self) -> None:
        """The machine stands on a snapshot."""
        self._kept.clear()
        self._stretch = -1

    def all(self, machine: QueueMachine) -> dict[int, int]:
        """Digests by index, where the machine stands now among them."""
        return dict(self._kept) | {machine.state.applied: machine.state.digest}


class Odd(NamedTuple):
    """Nodes whose members are not as the majority's, and the entry after which that is seen."""

    nodes: tuple[NodeId, ...]
    at: int  # index of an entry


def odd_ones(digests: Mapping[NodeId, Mapping[int, int]], voters: int) -> Odd | None:
    """None: nothing is known to differ. No nodes: some differ, and no majority of the voters is of one mind."""
    for index in sorted({index for known in digests.values() for index in known}, reverse=True):
        found = {node: known[index] for node, known in digests.items() if index in known}
        if len(set(found.values())) > 1:
            digest, count = Counter(found.values()).most_common(1)[0]
            if 2 * count <= voters:
                return Odd((), index)
            return Odd(tuple(sorted(node for node, one in found.items() if one != digest)), index)
    return None


class Comparison:
    """What the leader's node does of it, in one leadership."""

    def __init__(self, queue: QuorumQueue, kind: QuorumQueues, leading: Leading) -> None:
        self.diverged: Odd | None = None  # what was found last
        self._queue = queue
        self._kind = kind
        self._leading = leading
        self._versions: dict[NodeId, int] = {}
        self._digests: dict[NodeId, dict[int, int]] = {}
        self._waiting: set[NodeId] = set()  # for their answers
        self._compared = -1  # index of the state at which all were asked last
        self._next_at = 0

    def look(self, now: int) -> None:
        """Called when the leadership begins, and about once a second."""
        if now < self._next_at and self._next_at - now <= COMPARE_MS:
            return
        others = [node for node in self._nodes() if node != self._kind.key.node]
        unknown = [node for node in others if node not in self._versions]
        applied = self._machine.state.applied
        asked = others if applied != self._compared else unknown
        self._next_at = now + (ASK_AGAIN_MS if unknown else COMPARE_MS)
        self._compared = applied
        self._digests.clear()
        self._waiting = {node for node in asked if self._kind.calls.connected(node)}
        for node in tuple(self._waiting):
            letter = letters.head(letters.GroupLetter.COMPARE, self._queue.group)
            self._kind.calls.ask(node, QUORUM_TOPIC, letter, partial(self._told, node))
        self._upgrade()

    def link_went(self, node: NodeId) -> None:
        """It may come back with another version."""
        self._versions.pop(node, None)
        self._waiting.discard(node)
        self._next_at = min(self._next_at, self._kind.wall_ms() + ASK_AGAIN_MS)

    @property
    def _machine(self) -> QueueMachine:
        assert self._queue.member is not None, f"{self._queue.record.name} is led without a member"
        return self._queue.member.machine

    def _nodes(self) -> list[NodeId]:
        driver = self._queue.route.driver
        assert driver is not None, f"{self._queue.record.name} is led without a driver"
        return [node_of(member) for member in members_of(driver.core.status().membership)]

    def _told(self, node: NodeId, data: bytes | None) -> None:
        if self._leading.ended or node not in self._waiting:
            return
        self._waiting.discard(node)
        try:
            answer = letters.decode_compared(data) if data is not None else None
        except BadLetter:
            answer = None  # of a version that says it otherwise: it may be another one some day
        if answer is not None and answer.status is AnswerStatus.DONE:
            self._versions[node] = answer.version
            self._digests[node] = dict(answer.digests)
        if not self._waiting:
            self._upgrade()
            self._judge()

    def _upgrade(self) -> None:
        known = [self._kind.machine_version]
        known += [self._versions.get(node, 0) for node in self._nodes() if node != self._kind.key.node]
        if min(known) > self._machine.version:
            self._leading.propose_once(Upgrade(min(known)))

    def _judge(self) -> None:
        driver, member = self._queue.route.driver, self._queue.member
        assert driver is not None and member is not None, f"{self._queue.record.name} is led without a member"
        digests = self._digests | {self._kind.key.node: member.marks.all(member.machine)}
        membership = driver.core.status().membership
        voters = [node_of(one) for one in membership.voters]
        found = odd_ones({node: digests[node] for node in digests if node in voters}, len(voters))
        self.diverged = found
        if found is None:
            return
        self._kind.diverged(self._queue, found)
        if not found.nodes:
            return
        self._compared = -1  # look again in any case, though nothing may be new by then
        if self._all_are_there(membership, voters, found, digests):
            first = self._kind.key.node if self._kind.key.node in found.nodes else found.nodes[0]
            right = next(digests[node][found.at] for node in voters if node not in found.nodes)
            wrong = next(one for one in membership.voters if node_of(one) == first)
            term = driver.standing.term
            self._kind.give_up_member(self._queue, Verdict(found.at, right, term, driver.me, wrong))

    def _all_are_there(
        self, membership: Membership, voters: Sequence[NodeId], found: Odd, digests: Mapping[NodeId, Mapping[int, int]]
    ) -> bool:
        """Whether one voter may go: no other one is being made anew or away, and nobody is on the way to become one. Whoever
        began anew is not as far as what was compared."""
        if any(self._kind.calls.connected(node_of(one)) for one in membership.promotable):
            return False
        return all(found.at in digests.get(node, {}) for node in voters)
