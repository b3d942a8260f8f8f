"""Whether the members of a group have come to the same state, and which version of the machine all of them know.

The digest covers every entry's bytes as this member has applied them, so bodies too, and what its machine has made of them.
Each member remembers it at *marks*: as it was before the first entry of each MARK_ENTRIES. They stand at the same
entries on every member, however these came in. The leader asks the others for theirs every COMPARE_MS while there is something
new, and compares what it has in common with them.

Where they differ, what a majority of the voters has come to is right. A member that has come to something else is given up as
if its disk had lost it, and made anew from the others: nobody knows what else is wrong in it. The log of a member is a copy,
whatever its machine has made of it, so one goes at a time, and only while all voters answer: of several the next one waits
until the one before votes again. Without such a majority all of them stay, and it is said each time.

The answers tell, too, which version a member's node knows. When all know a later one than the group has, the leader proposes
it. So it asks at once when it begins to lead, and again whenever a node was away.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from raft.core.membership import members_of
from raft.core.messages import Membership, NodeId, node_of
from replicated import letters
from replicated.letters import AnswerStatus, BadLetter, Verdict
from replicated.member import ComparedMachine, Odd
from replicated.ports import QueuePorts
from replicated.queue import ReplicatedQueue
from replicated.verdicts import Verdicts

COMPARE_MS = 30_000
ASK_AGAIN_MS = 5_000  # for a version that is not known yet


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
    """What the leader's node does of it, in one leadership. `look` now and then, until `end`."""

    def __init__(
        self, queue: ReplicatedQueue, ports: QueuePorts, verdicts: Verdicts, propose_upgrade: Callable[[int], None]
    ) -> None:
        self.diverged: Odd | None = None  # what was found last
        self._queue = queue
        self._ports = ports
        self._verdicts = verdicts
        self._propose_upgrade = propose_upgrade
        self._ended = False
        self._versions: dict[NodeId, int] = {}
        self._digests: dict[NodeId, dict[int, int]] = {}
        self._waiting: set[NodeId] = set()  # for their answers
        self._compared = -1  # index of the state at which all were asked last
        self._next_at = 0

    def end(self) -> None:
        self._ended = True

    def look(self, now: int) -> None:
        """Called when the leadership begins, and about once a second."""
        if now < self._next_at and self._next_at - now <= COMPARE_MS:
            return
        others = [node for node in self._nodes() if node != self._ports.node]
        unknown = [node for node in others if node not in self._versions]
        applied = self._machine.applied
        asked = others if applied != self._compared else unknown
        self._next_at = now + (ASK_AGAIN_MS if unknown else COMPARE_MS)
        self._compared = applied
        self._digests.clear()
        self._waiting = {node for node in asked if self._ports.calls.connected(node)}
        for node in tuple(self._waiting):
            letter = letters.head(letters.GroupLetter.COMPARE, self._queue.group)
            self._ports.calls.ask(node, self._ports.topic, letter, partial(self._told, node))
        self._upgrade()

    def link_went(self, node: NodeId) -> None:
        """It may come back with another version."""
        self._versions.pop(node, None)
        self._waiting.discard(node)
        self._next_at = min(self._next_at, self._ports.wall_ms() + ASK_AGAIN_MS)

    @property
    def _machine(self) -> ComparedMachine:
        assert self._queue.member is not None, f"{self._queue.record.name} is led without a member"
        return self._queue.member.machine

    def _nodes(self) -> list[NodeId]:
        driver = self._queue.route.driver
        assert driver is not None, f"{self._queue.record.name} is led without a driver"
        return [node_of(member) for member in members_of(driver.core.status().membership)]

    def _told(self, node: NodeId, data: bytes | None) -> None:
        if self._ended or node not in self._waiting:
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
        known = [self._verdicts.newest_version()]
        known += [self._versions.get(node, 0) for node in self._nodes() if node != self._ports.node]
        if min(known) > self._machine.version:
            self._propose_upgrade(min(known))

    def _judge(self) -> None:
        driver, member = self._queue.route.driver, self._queue.member
        assert driver is not None and member is not None, f"{self._queue.record.name} is led without a member"
        digests = self._digests | {self._ports.node: member.marks.all(member.machine)}
        membership = driver.core.status().membership
        voters = [node_of(one) for one in membership.voters]
        found = odd_ones({node: digests[node] for node in digests if node in voters}, len(voters))
        self.diverged = found
        if found is None:
            return
        self._verdicts.diverged(self._queue, found)
        if not found.nodes:
            return
        self._compared = -1  # look again in any case, though nothing may be new by then
        if self._all_are_there(membership, voters, found, digests):
            first = self._ports.node if self._ports.node in found.nodes else found.nodes[0]
            right = next(digests[node][found.at] for node in voters if node not in found.nodes)
            wrong = next(one for one in membership.voters if node_of(one) == first)
            term = driver.standing.term
            self._verdicts.give_up_member(self._queue, Verdict(found.at, right, term, driver.me, wrong))

    def _all_are_there(
        self, membership: Membership, voters: Sequence[NodeId], found: Odd, digests: Mapping[NodeId, Mapping[int, int]]
    ) -> bool:
        """Whether one voter may go: no other one is being made anew or away, and nobody is on the way to become one. Whoever
        began anew is not as far as what was compared."""
        if any(self._ports.calls.connected(node_of(one)) for one in membership.promotable):
            return False
        return all(found.at in digests.get(node, {}) for node in voters)
