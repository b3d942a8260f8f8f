"""A queue in use on a node without a member: the leader's node is asked to serve its consumers, and to report its state.

The leader's node forgets whom it serves when it leads no more, and says so if it can. So it is asked again now and then, and
at once when there is reason to doubt. Each time it hears how far the consumers have come, and sends what they lack.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from raft.core.messages import NodeId
from replicated import letters
from replicated.leader_route import LeaderRoute
from replicated.letters import AnswerStatus, BadLetter
from replicated.ports import QueuePorts

WANTED_MS = 10_000  # after its last use a queue without consumers needs it no more


class ServedQueue(Protocol):
    """The queue, as far as it is served by another node."""

    @property
    def group(self) -> int: ...

    @property
    def deleted(self) -> bool: ...

    @property
    def route(self) -> LeaderRoute: ...

    def has_member(self) -> bool: ...

    def consumers_here(self) -> Sequence[tuple[int, int]]:
        """The number of each consumer of this node, and the id that comes next for it."""

    def departed_here(self) -> Sequence[int]:
        """Consumers that are known to the group to have left, and still are among `consumers_here`."""

    def forget_departed(self, numbers: Sequence[int]) -> None:
        """What was out to these has come."""

    def skip_to(self, firsts: Sequence[tuple[int, int]]) -> None:
        """The number of each consumer to which nothing is out before an id that is behind what came last, and that id."""


class RemoteServing:
    """Of one queue, while it has no member here. `end` it when it has."""

    def __init__(
        self,
        queue: ServedQueue,
        ports: QueuePorts,
        look_for_leader: Callable[[], None],
        keep_asking: Callable[[], None],
    ) -> None:
        """`look_for_leader` has `ask` called again when there may be one; `keep_asking` has `go_on` called every second."""
        self.answered = False  # the node that leads, as far as is known, serves us
        self._queue = queue
        self._ports = ports
        self._look_for_leader = look_for_leader
        self._keep_asking = keep_asking
        self._ended = False
        self._asking: NodeId = 0  # whose answer is waited for
        self._again = False  # ask once more when the answer is there: it may be too early for what is wanted now
        self._passed_on = False  # the last one that was asked named another, which is asked now
        self._server: NodeId = 0
        self._wanted_until = 0

    def end(self) -> None:
        """This node has a member."""
        self._ended = True

    def want(self) -> None:
        """The queue is used."""
        before, self._wanted_until = self._wanted_until, self._ports.wall_ms() + WANTED_MS
        self._keep_asking()
        if not self.answered or not before:
            self.ask()

    def missed(self) -> None:
        """Something that was sent to us was lost."""
        self._again = bool(self._asking)
        self.ask()

    def lost(self, node: NodeId) -> None:
        """This node serves nobody any more."""
        if node == self._server:
            self._server = 0
            self.answered = False
            self._look_for_leader()

    def go_on(self, now: int) -> bool:
        """Called about once a second. False: this is needed no more."""
        if not self._queue.consumers_here() and now > self._wanted_until:
            return False
        self._leave_silent_nodes()
        self.ask()
        return True

    def _leave_silent_nodes(self) -> None:
        """A node that hangs keeps its link, and answers when another one has long been leading."""
        for node in {self._asking, self._server} - {0}:
            if not self._ports.groups.trusts(node):
                self._asking = 0
                self._queue.route.forget(node)
                self.lost(node)

    def ask(self) -> None:
        queue = self._queue
        if self._asking or queue.has_member():
            return
        node = queue.route.look_for()
        if not node:
            self._refused()
            return
        self._asking = node
        letter = letters.attend(queue.group, self._ports.incarnation, queue.consumers_here())
        told = partial(self._told, node, queue.departed_here())
        self._ports.calls.ask(node, self._ports.topic, letter, told)

    def _told(self, node: NodeId, left: Sequence[int], data: bytes | None) -> None:
        queue = self._queue
        if node != self._asking or queue.deleted or self._ended:
            return
        self._asking = 0
        try:
            answer, firsts = letters.decode_attending(data) if data is not None else (None, [])
        except BadLetter:
            answer = None
        if answer is not None and answer.status is AnswerStatus.DONE:
            self.answered = True
            self._passed_on = False
            self._server = node
            queue.forget_departed(left)  # what was out to these has been sent before this answer
            queue.skip_to(firsts)
            if self._again:
                self._again = False
                self.ask()
            return
        if answer is None:
            queue.route.forget(node)
        else:
            queue.route.refused(answer.status, answer.leader)
        if answer is not None and answer.leader not in (0, node) and not self._passed_on:
            self._passed_on = True
            self.ask()  # now it is known who leads; two that name each other are not asked in turn without a pause
        else:
            self._refused()

    def _refused(self) -> None:
        self.answered = self._passed_on = False
        self._look_for_leader()
