"""When a member obeys a leader that found its state to be wrong (GIVE_UP): it throws away what it has acknowledged.

So the verdict must come from the leader that this member follows now, in the term that it has on disk, and be about this very
member and not about an earlier one of its node. And the member must have said itself, when it was asked last, what the verdict
is about: a state after that entry which is another than the majority's. A verdict that is late, or that its sender may not
give, is dropped; a leader compares again and repeats it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from raft.core.errors import Damaged
from raft.core.messages import NodeId, node_of
from raft.store.member_store import MemberStore
from replicated import letters
from replicated.letters import AnswerStatus, Verdict
from replicated.member import Odd
from replicated.ports import MemberDriver, MemberStores, QueuePorts
from replicated.queue import ReplicatedQueue


class Verdicts:
    """Of all queues of one kind on this node: what it tells of its members' states, and what follows from a comparison."""

    def __init__(
        self,
        ports: QueuePorts,
        store: MemberStores,
        newest_version: Callable[[], int],
        on_diverged: Callable[[ReplicatedQueue, Odd], None],
    ) -> None:
        self.divergences = 0  # times that members of a queue led from here were found in different states
        self.newest_version = newest_version  # of the machine, as far as this node knows
        self._ports = ports
        self._store = store
        self._on_diverged = on_diverged

    def compared(self, queue: ReplicatedQueue | None) -> bytes:
        """The answer to a COMPARE."""
        if queue is None or queue.member is None:
            return letters.refusal(AnswerStatus.NO_GROUP, 0)
        digests = queue.member.told_digests = queue.member.marks.all(queue.member.machine)
        return letters.compared(queue.route.leader(), self.newest_version(), digests.items())

    def diverged(self, queue: ReplicatedQueue, odd: Odd) -> None:
        """Members of the queue have come to different states."""
        self.divergences += 1
        self._on_diverged(queue, odd)

    def give_up_member(self, queue: ReplicatedQueue, verdict: Verdict) -> None:
        """This node leads, and a majority has come to another state than this member, which is to be made anew."""
        node = node_of(verdict.member)
        if node != self._ports.node:
            self._ports.calls.tell(node, self._ports.topic, letters.give_up(queue.group, verdict))
        elif queue.member is not None:
            self._give_up(queue, verdict)

    def heard(self, queue: ReplicatedQueue, node: NodeId, verdict: Verdict) -> None:
        """Another node's GIVE_UP."""
        driver, member = queue.route.driver, queue.member
        if driver is None or member is None:
            return
        if is_due(verdict, node, driver, self._store.group(queue.group), member.told_digests):
            self._give_up(queue, verdict)

    def _give_up(self, queue: ReplicatedQueue, verdict: Verdict) -> None:
        text = f"its state after entry {verdict.after} is not the one that a majority of the members has come to"
        self._ports.groups.damaged(queue.group, Damaged(text))


def is_due(verdict: Verdict, sender: NodeId, driver: MemberDriver, store: MemberStore, told: Mapping[int, int]) -> bool:
    """`told`: the digests that this node has told of its member last, by the index of an entry."""
    standing = driver.standing
    return (
        node_of(verdict.leader) == sender
        and (standing.leader, standing.term) == (verdict.leader, verdict.term)
        and store.facts().term == verdict.term
        and driver.me == store.member == verdict.member
        and told.get(verdict.after, verdict.digest) != verdict.digest
    )
