"""A queue that is in use on a node without a member: the leader's node is asked to serve its consumers, and to tell how it is.

The leader's node forgets whom it serves when it leads no more, and says so if it can. So it is asked again now and then, and
at once when there is reason to doubt. Each time it hears how far the consumers have come, and sends what they lack.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from quorum.letters import QUORUM_TOPIC
from raft.messages import NodeId
from replicated import letters
from replicated.letters import AnswerStatus, BadLetter

if TYPE_CHECKING:
    from quorum.driver import QuorumQueues
    from quorum.queue import QuorumQueue

WANTED_MS = 10_000  # after its last use a queue without consumers wants no attention any more


class Attention:
    """Of one queue."""

    def __init__(self, queue: QuorumQueue, kind: QuorumQueues) -> None:
        self.answered = False  # the node that leads, as far as is known, serves us
        self._queue = queue
        self._kind = kind
        self._asking: NodeId = 0  # whose answer is waited for
        self._again = False  # ask once more when the answer is there: it may be too early for what is wanted now
        self._passed_on = False  # the last one that was asked named another, which is asked now
        self._server: NodeId = 0
        self._wanted_until = 0

    def want(self) -> None:
        """The queue is used."""
        before, self._wanted_until = self._wanted_until, self._kind.wall_ms() + WANTED_MS
        self._kind.attending(self._queue)
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
            self._kind.look_for_leader(self._queue)

    def go_on(self, now: int) -> bool:
        """Called about once a second. False: nobody needs this any more."""
        if not self._queue.subscriptions and not self._queue.departed and now > self._wanted_until:
            return False
        self._leave_who_is_silent()
        self.ask()
        return True

    def _leave_who_is_silent(self) -> None:
        """A node that stands still keeps its link, and answers when somebody else has long been leading."""
        for node in {self._asking, self._server} - {0}:
            if not self._kind.groups.trusts(node):
                self._asking = 0
                self._queue.route.forget(node)
                self.lost(node)

    def ask(self) -> None:
        queue = self._queue
        if self._asking or queue.member is not None:
            return
        node = queue.route.look_for()
        if not node:
            self._refused()
            return
        self._asking = node
        consumers = [(one.number, one.next_id) for one in queue.subscriptions.values()]
        consumers += [(number, departed.next_id) for number, departed in queue.departed.items()]
        left = [number for number, departed in queue.departed.items() if departed.known_at is not None]
        letter = letters.attend(queue.group, self._kind.key.incarnation, consumers)
        self._kind.calls.ask(node, QUORUM_TOPIC, letter, partial(self._told, node, left))

    def _told(self, node: NodeId, left: list[int], data: bytes | None) -> None:
        queue = self._queue
        if node != self._asking or queue.deleted or queue.attention is not self:
            return
        self._asking = 0
        try:
            answer = letters.decode_answer(data) if data is not None else None
        except BadLetter:
            answer = None
        if answer is not None and answer.status is AnswerStatus.DONE:
            self.answered = True
            self._passed_on = False
            self._server = node
            for number in left:  # what was out to these has been sent before this answer
                queue.departed.pop(number, None)
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
        self._kind.look_for_leader(self._queue)
