"""What clients of this node want to know of a stream's leader: a stored offset, the last id of a publisher.

The leader answers when a majority has said that it leads, with what is committed (raft's reads). So no answer is older than one
that was given before, by whichever leader. A question waits until the leader has what this node has stored before it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

from broker.errors import BrokerError, ResourceExhausted
from broker.pending import Pending
from broker.queues.queue_type import QueueHost
from raft.core.errors import RaftError
from raft.core.messages import NodeId
from replicated.leader_route import LeaderRoute
from replicated.letters import AnswerStatus, BadLetter, decode_answer, refusal
from replicated.ports import Payload, QueuePorts
from replicated.reply_timeout import ReplyTimeout
from stream.group.member import StreamMember
from stream.publishing.offset_stores import OffsetStores, leads_no_more
from stream.reading.letters import AskedOfLeader, ask, ask_answer, decode_ask, decode_ask_answer


class AskedStream(Protocol):
    """The stream that is asked."""

    @property
    def group(self) -> int: ...

    @property
    def route(self) -> LeaderRoute: ...

    @property
    def member(self) -> StreamMember | None: ...


class _Question:
    __slots__ = ("after", "asked", "name", "reply", "times", "wanted")

    def __init__(self, wanted: AskedOfLeader, name: str, after: int, reply: ReplyTimeout[int | None]) -> None:
        self.wanted = wanted
        self.name = name
        self.after = after  # so much must be stored first
        self.reply = reply
        self.asked: NodeId = 0  # whose answer is waited for
        self.times = 0  # it was asked: late answers are ignored


class LeaderQuestions:
    """Of one stream, on one node. `go_on` whenever there may be news, and now and then while it says so."""

    def __init__(self, stream: AskedStream, stores: OffsetStores, ports: QueuePorts) -> None:
        self._stream = stream
        self._stores = stores
        self._ports = ports
        self._open: dict[_Question, None] = {}

    def ask(self, wanted: AskedOfLeader, name: str, host: QueueHost, label: str) -> Pending[int | None]:
        def unknown() -> ResourceExhausted:
            self._open.pop(question, None)
            return ResourceExhausted(f"{label} has no leader that tells what it has of '{name}': try again")

        reply = ReplyTimeout[int | None](host, unknown)
        question = _Question(wanted, name, self._stores.stored, reply)
        self._open[question] = None
        self.go_on()
        return reply.answer

    def go_on(self) -> bool:
        """Whether some have no answer yet."""
        for question in list(self._open):
            if question.asked and leads_no_more(question.asked, self._stream.route, self._ports):
                question.asked = 0
            if not question.asked and question.after <= self._stores.done:
                self._ask(question)
        return bool(self._open)

    def close(self, error: BrokerError) -> None:
        gone, self._open = list(self._open), {}
        for question in gone:
            question.reply.fail(error)

    def _ask(self, question: _Question) -> None:
        node = self._stream.route.look_for()
        if not node:
            return
        question.asked = node
        question.times += 1
        answered = partial(self._answered, question, question.times)
        if node == self._ports.node:
            answer_as_leader(self._stream, question.wanted, question.name, self._ports, answered)
        else:
            letter = ask(self._stream.group, question.wanted, question.name)
            self._ports.calls.ask(node, self._ports.topic, letter, answered)

    def _answered(self, question: _Question, times: int, data: bytes | None) -> None:
        if times != question.times or question not in self._open:
            return
        node, question.asked = question.asked, 0
        try:
            answer = decode_answer(data) if data is not None else None
            value = decode_ask_answer(data) if data is not None else None
        except BadLetter:
            answer = value = None
        if answer is None:
            self._stream.route.forget(node)
        elif answer.status is AnswerStatus.DONE:
            del self._open[question]
            question.reply.resolve(value)
        else:
            self._stream.route.refused(answer.status, answer.leader)


def answer_as_leader(
    stream: AskedStream, wanted: AskedOfLeader, name: str, ports: QueuePorts, answer: Callable[[bytes], None]
) -> None:
    """As soon as it is sure that this node leads."""

    def may_be_asked(error: RaftError | None) -> None:
        member = stream.member
        if error is not None or member is None:
            answer(refusal(AnswerStatus.AGAIN, stream.route.leader()))
        elif wanted is AskedOfLeader.NOTHING:
            answer(ask_answer(ports.node, None))
        elif wanted is AskedOfLeader.STORED_OFFSET:
            stored = member.machine.state.stored.get(name)
            answer(ask_answer(ports.node, stored.offset if stored is not None else None))
        else:
            answer(ask_answer(ports.node, member.machine.state.publisher_id(name)))

    ports.groups.read(stream.group, may_be_asked)


def answer_letter(stream: AskedStream, letter: bytes, ports: QueuePorts, answer: Callable[[Payload], None]) -> None:
    """Raises BadLetter."""
    wanted, name = decode_ask(letter)
    if stream.route.leads:
        answer_as_leader(stream, wanted, name, ports, answer)
    else:
        answer(refusal(AnswerStatus.NOT_LEADER, stream.route.leader()))
