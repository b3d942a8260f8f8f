"""What operators do with the group of a queue: add and remove members, hand the leadership over, ask how it is.

Any node may be asked; what only the leader can do is passed on to its node. The catalog's record follows by itself: the
leader's node tells it the members that the group has, once they are committed, and nodes begin or give up their member when
the record names them or does so no more (replicated/local_members.py).

A voter is not removed if that left the group without one, or without a majority that answers when it is asked: nothing could be
committed any more, not even another change of the members, until enough of them are back.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from enum import IntEnum
from functools import partial
from typing import Any, Generic, TypeVar

from broker.errors import BrokerError, NotFound, PreconditionFailed, ResourceExhausted
from broker.pending import Pending
from raft.core.errors import BadChange, ChangePending, NotLeader, RaftError
from raft.core.majority import majority_of
from raft.core.membership import AddLearner, Change, RemoveMember, members_of
from raft.core.messages import MemberId, NodeId, node_of, shown
from replicated import letters
from replicated.letters import AnswerStatus, BadLetter
from replicated.ports import MemberDriver, Payload, QueuePorts
from replicated.queue import ReplicatedQueue
from replicated.roll_call import RollCall
from storage.errors import Exhausted

Q = TypeVar("Q", bound=ReplicatedQueue)

_CHANGED = (BadChange,)  # asking again is of no use


class What(IntEnum):
    """What an ADMIN letter asks for."""

    ADD = 1
    REMOVE = 2
    TRANSFER = 3
    FIGURES = 4  # of any member's node; node 0
    REMOVE_ANYWAY = 5  # also where it leaves no majority that can be reached
    PROMISE = 6  # of the node that is to have a member: which one it will be; node 0


class Administration(Generic[Q]):
    """Of all queues of one kind, through this node."""

    def __init__(
        self, ports: QueuePorts, name_of: Callable[[NodeId], str], promise_member: Callable[[Q], MemberId]
    ) -> None:
        """`promise_member`: the one that begins on this node once the queue's record names it; raises Exhausted."""
        self._ports = ports
        self._name_of = name_of
        self._promise_member = promise_member

    def add_member(self, queue: Q, node: NodeId) -> Pending[None]:
        """A member on this node, that becomes a voter once it has caught up. Answered when it is a learner."""
        return self._ask(queue, What.ADD, node)

    def remove_member(self, queue: Q, node: NodeId, *, anyway: bool = False) -> Pending[None]:
        """The member on this node goes. Answered when that is committed. `anyway`: also where too few of the others can be
        reached to go on without it."""
        return self._ask(queue, What.REMOVE_ANYWAY if anyway else What.REMOVE, node)

    def transfer(self, queue: Q, node: NodeId) -> Pending[None]:
        """Have the member on this node lead. Answered when it was asked to."""
        return self._ask(queue, What.TRANSFER, node)

    def figures(self, queue: Q, node: NodeId) -> Pending[dict[str, Any] | None]:
        """The `status` that another node, or this one, has of the queue, as JSON has it. None: it does not answer, or does not
        know the queue."""
        if node == self._ports.node:
            return Pending.of(json.loads(_told(self.status(queue))))
        answer: Pending[dict[str, Any] | None] = Pending()

        def answered(data: bytes | None) -> None:
            try:
                status, _, text = (AnswerStatus.AGAIN, 0, "") if data is None else letters.decode_admin_answer(data)
                figures = json.loads(text) if status is AnswerStatus.DONE else None
            except ValueError:  # of a version that says it otherwise
                figures = None
            answer.resolve(figures)

        if self._ports.calls.connected(node):
            letter = letters.admin(queue.group, What.FIGURES, 0)
            self._ports.calls.ask(node, self._ports.topic, letter, answered)
        else:
            answer.resolve(None)
        return answer

    def status(self, queue: Q) -> dict[str, Any]:
        """Every figure of this node's member and machine, and where the leader is."""
        found: dict[str, Any] = {
            "group": queue.group,
            "leader_node": queue.route.leader(),
            "members": [shown(member) for member in queue.record.members],
        }
        driver = queue.route.driver
        if driver is not None:
            raft = asdict(driver.core.status())
            raft["role"] = driver.standing.role.value
            found["raft"] = raft
        return found | queue.figures()

    # the leader's node

    def _ask(self, queue: Q, what: What, node: NodeId) -> Pending[None]:
        answer: Pending[None] = Pending()
        leader = queue.route.look_for()
        if not leader:
            answer.fail(ResourceExhausted(f"{queue.record.label} has no leader"))
        elif leader == self._ports.node:
            self._do(queue, what, node, lambda error: _tell(answer, error))
        else:
            letter = letters.admin(queue.group, what, node)
            self._ports.calls.ask(
                leader, self._ports.topic, letter, lambda data: self._answered(queue, leader, answer, data)
            )
        return answer

    def _answered(self, queue: Q, asked: NodeId, answer: Pending[None], data: bytes | None) -> None:
        try:
            status, leader, wrong = (None, 0, "") if data is None else letters.decode_admin_answer(data)
        except BadLetter as error:
            status, leader, wrong = None, 0, str(error)
        if status is AnswerStatus.DONE and wrong:
            answer.fail(PreconditionFailed(wrong))
        elif status is AnswerStatus.DONE:
            answer.resolve(None)
        elif status is None:
            queue.route.forget(asked)
            answer.fail(ResourceExhausted(wrong or f"the leader of {queue.record.label} did not answer: try again"))
        else:
            queue.route.refused(status, leader)
            answer.fail(ResourceExhausted(wrong or self._not_there(queue, asked, status, leader)))

    def _not_there(self, queue: Q, asked: NodeId, status: AnswerStatus, leader: NodeId) -> str:
        if status is AnswerStatus.NO_GROUP:
            return f"node '{self._name_of(asked)}' does not know {queue.record.label}: try again"
        if not leader:
            return f"{queue.record.label} has no leader: try again"
        return f"{queue.record.label} is led by another node now: try again"

    def asked(self, queue: Q | None, letter: bytes, answer: Callable[[Payload], None]) -> None:
        """Another node's ADMIN letter."""
        what, node = letters.decode_admin(letter)
        if queue is None:
            answer(letters.admin_answer(AnswerStatus.NO_GROUP, 0))
            return

        def told(error: BrokerError | None) -> None:
            if error is None:
                answer(letters.admin_answer(AnswerStatus.DONE, self._ports.node))
            elif isinstance(error, ResourceExhausted):
                answer(letters.admin_answer(AnswerStatus.AGAIN, queue.route.leader(), error.text))
            else:
                answer(letters.admin_answer(AnswerStatus.DONE, self._ports.node, error.text))

        try:
            asked = What(what)
        except ValueError as error:
            raise BadLetter(f"an ADMIN that asks for {what}") from error
        if asked is What.FIGURES:
            answer(letters.admin_answer(AnswerStatus.DONE, queue.route.leader(), _told(self.status(queue))))
        elif asked is What.PROMISE:
            try:
                promised = str(self._promise_member(queue))
            except Exhausted as error:
                answer(
                    letters.admin_answer(AnswerStatus.AGAIN, 0, f"no number for another member can be kept: {error}")
                )
            else:
                answer(letters.admin_answer(AnswerStatus.DONE, queue.route.leader(), promised))
        elif not queue.route.leads:
            answer(letters.admin_answer(AnswerStatus.NOT_LEADER, queue.route.leader()))
        else:
            self._do(queue, asked, node, told)

    def _do(self, queue: Q, what: What, node: NodeId, told: Callable[[BrokerError | None], None]) -> None:
        """This node leads, as far as it knows."""
        driver = queue.route.driver
        assert driver is not None, f"{queue.record.label} is led from here, without a member"
        there = [one for one in members_of(driver.core.status().membership) if node_of(one) == node]
        if what is not What.ADD and not there:
            name = self._name_of(node)
            told(NotFound(f"{queue.record.label} has no member on node '{name}'"))
        elif what is What.TRANSFER and node == self._ports.node:
            told(None)  # it leads already
        elif what is What.TRANSFER:
            self._transfer(queue, there[0], told)
        elif what is What.ADD:
            if there:
                self._change(queue, AddLearner(there[0]), told)  # which is refused, as it has to be
            else:
                self._add(queue, node, told)
        elif what is What.REMOVE:
            self._remove(queue, driver, there[0], told)
        else:
            self._change(queue, RemoveMember(there[0]), told)

    def _add(self, queue: Q, node: NodeId, told: Callable[[BrokerError | None], None]) -> None:
        """Under a number that the node gives: nobody else knows which ones its lost members had."""
        if node == self._ports.node:
            try:
                mine = self._promise_member(queue)
            except Exhausted as error:
                told(ResourceExhausted(f"no number for another member can be kept: {error}"))
            else:
                self._change(queue, AddLearner(mine), told)
            return

        def promised(data: bytes | None) -> None:
            try:
                status, _, text = (AnswerStatus.AGAIN, 0, "") if data is None else letters.decode_admin_answer(data)
                member = int(text) if status is AnswerStatus.DONE else 0
            except ValueError:  # of a version that says it otherwise
                member = 0
            if queue.deleted:
                told(NotFound(f"no {queue.record.label}"))
            elif not queue.route.leads:
                told(_refused(NotLeader(0)))
            elif node_of(member) != node:
                name = self._name_of(node)
                told(
                    ResourceExhausted(
                        f"node '{name}' does not say which member of {queue.record.label} it will have: try again"
                    )
                )
            else:
                self._change(queue, AddLearner(member), told)

        self._ports.calls.ask(node, self._ports.topic, letters.admin(queue.group, What.PROMISE, 0), promised)

    def _remove(
        self, queue: Q, driver: MemberDriver, member: MemberId, told: Callable[[BrokerError | None], None]
    ) -> None:
        voters = driver.core.status().membership.voters
        left = [one for one in voters if one != member]
        if member not in voters or not left:  # nobody counts on it; or it is the last one, which the group says itself
            self._change(queue, RemoveMember(member), told)
            return

        def called(missing: Sequence[MemberId]) -> None:
            if queue.deleted:
                told(NotFound(f"no {queue.record.label}"))
            elif queue.route.driver is not driver:
                told(_refused(NotLeader(0)))
            elif driver.core.status().membership.voters != voters:
                told(ResourceExhausted("the members have changed meanwhile: try again"))
            elif len(left) - len(missing) >= majority_of(len(left)):
                self._change(queue, RemoveMember(member), told)
            else:
                told(self._would_lack(queue, member, missing))

        RollCall(left, called).begin(partial(self._is_there, queue, driver), self._ports.loop)

    def _would_lack(self, queue: Q, member: MemberId, missing: Sequence[MemberId]) -> BrokerError:
        name_of = self._name_of
        without = (
            f"without its member on node '{name_of(node_of(member))}' {queue.record.label} would have no majority that"
        )
        away = [name_of(node_of(one)) for one in missing if not self._reaches(node_of(one))]
        if away:
            return PreconditionFailed(f"{without} can be reached: of the others these are away: {', '.join(away)}")
        silent = ", ".join(name_of(node_of(one)) for one in missing)
        return ResourceExhausted(f"{without} answers: these do not, or are being repaired: {silent}: try again")

    def _is_there(self, queue: Q, driver: MemberDriver, voter: MemberId) -> Pending[bool]:
        node = node_of(voter)
        if node == self._ports.node:
            return Pending.of(voter == driver.me)
        if not self._reaches(node):
            return Pending.of(False)
        return self.figures(queue, node).map(lambda figures: (figures or {}).get("raft", {}).get("member") == voter)

    def _reaches(self, node: NodeId) -> bool:
        return node == self._ports.node or self._ports.groups.trusts(node)

    def _transfer(self, queue: Q, member: MemberId, told: Callable[[BrokerError | None], None]) -> None:
        try:
            self._ports.groups.transfer(queue.group, member)
        except RaftError as error:
            told(_refused(error))
        else:
            told(None)

    def _change(self, queue: Q, change: Change, told: Callable[[BrokerError | None], None]) -> None:
        def changed(results: Sequence[Any] | None, error: RaftError | None) -> None:
            if error is None and queue.leading is not None:
                queue.leading.check_record()  # the node that is concerned acts on the record
            told(None if error is None else _refused(error))

        self._ports.groups.change(queue.group, change, changed)


def _refused(error: RaftError) -> BrokerError:
    if isinstance(error, ChangePending):
        return ResourceExhausted("another change of the members is not committed yet: try again")
    if isinstance(error, NotLeader):
        return ResourceExhausted("the leadership has just changed: try again")
    return PreconditionFailed(str(error)) if isinstance(error, _CHANGED) else ResourceExhausted(str(error))


def _tell(answer: Pending[None], error: BrokerError | None) -> None:
    if error is None:
        answer.resolve(None)
    else:
        answer.fail(error)


def _told(status: dict[str, Any]) -> str:
    return json.dumps(status)
