"""replicated/peer_letters.py with a second kind of queue beside quorum queues: lines of text, with letters of their own."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from types import SimpleNamespace
from typing import Any

import pytest

from quorum.letters import LetterKind as LetterOfQuorum
from raft.core.errors import Busy, Damaged, NotLeader, RaftError
from raft.core.messages import MemberId, NodeId, member_id
from raft.group_owners import GroupOwners
from replicated import letters
from replicated.administration import Administration
from replicated.leader_route import LeaderRoute
from replicated.letters import STATUS, Answer, AnswerStatus, BadLetter, GroupLetter, Verdict, decode_answer, head
from replicated.peer_letters import KindOfLetters, PeerLetters, RefusedProposal
from replicated.ports import Payload, QueuePorts
from replicated.verdicts import Verdicts

ME, OTHER = 1, 2
GROUP, UNKNOWN_GROUP = 7, 8
TOPIC = 9
ENTRY_HEAD = b"line"
ENTRY_BYTES_MAX = 20


class LineLetter(IntEnum):
    """The first has the number of another kind's letter."""

    FIRST = LetterOfQuorum.DELIVER.value
    HINT = 40


class Entries:
    """Of the machine of this kind. Fulfils replicated.leader_route.Entries."""

    def entry(self, ops: Sequence[Any]) -> bytes:
        return b"".join((ENTRY_HEAD, *ops))

    def applied(self, on_answer: Any, results: Sequence[Any] | None, error: RaftError | None) -> None:
        raise AssertionError("nothing is proposed from here")

    def decode(self, answer: bytes) -> Any:
        raise AssertionError("nobody is asked from here")

    def refused(self, node: NodeId, why: str) -> None:
        raise AssertionError("nobody is asked from here")


class Leading:
    """Notes who is to be served."""

    def __init__(self) -> None:
        self.attended: list[tuple[NodeId, int, Sequence[tuple[int, int]]]] = []

    def attend(self, node: NodeId, incarnation: int, consumers: Sequence[tuple[int, int]]) -> Sequence[tuple[int, int]]:
        self.attended.append((node, incarnation, consumers))
        return [(number, next_id + 7) for number, next_id in consumers]


class Groups:
    """Commits and applies at once: the machine keeps each entry as a line."""

    node = ME

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.error: RaftError | None = None
        self.given_up: list[int] = []

    def propose(self, group: int, commands: Sequence[bytes], on_results: Any) -> None:
        if self.error is not None:
            on_results(None, self.error)
            return
        self.lines += commands
        on_results([[f"line {len(self.lines)}"]], None)

    def damaged(self, group: int, error: Damaged) -> None:
        self.given_up.append(group)

    def trusts(self, node: NodeId) -> bool:
        return True


class Lines:
    """A queue of this kind, as far as letters are concerned."""

    group = GROUP

    def __init__(self, ports: QueuePorts) -> None:
        self.route = LeaderRoute(GROUP, ports, lambda: (ME, OTHER), Entries())
        self.leading: Leading | None = None
        self.member: Any = SimpleNamespace(told_digests={})
        self.lost: list[NodeId] = []
        self.remote_serving = SimpleNamespace(lost=self.lost.append)
        self.hints: list[tuple[NodeId, bytes]] = []
        self.rotten = False

    def lead(self) -> None:
        self.leading = Leading()
        self.route.driver = SimpleNamespace(leads=True, leader_node=ME, group=GROUP)  # type: ignore[assignment]


class World:
    """One node with one queue of lines."""

    def __init__(self) -> None:
        self.groups = Groups()
        calls: Any = SimpleNamespace(connected=lambda node: True)
        groups: Any = self.groups
        loop: Any = SimpleNamespace()
        ports = QueuePorts(ME, 1, TOPIC, groups, GroupOwners(), calls, loop, lambda: 1_000, lambda: 1.0)
        self.queue = Lines(ports)
        self.refused: list[str] = []
        self.verdicts: list[Verdict] = []
        store: Any = SimpleNamespace()
        verdicts = Verdicts(ports, store, lambda: 3, lambda queue, odd: None)
        verdicts.heard = lambda queue, node, verdict: self.verdicts.append(verdict)  # type: ignore[method-assign]
        queues: Any = {GROUP: self.queue}
        self.letters: PeerLetters[Any] = PeerLetters(
            KindOfLetters(check, self._results, len(ENTRY_HEAD), {LineLetter.FIRST: first}, {LineLetter.HINT: hint}),
            queues,
            ports=ports,
            administration=Administration(ports, str, lambda queue: MemberId(0)),
            verdicts=verdicts,
            entry_bytes_max=ENTRY_BYTES_MAX,
            on_refused=lambda queue, why: self.refused.append(why),
        )

    def _results(self, queue: Lines, results: Sequence[str]) -> bytes:
        if queue.rotten:
            raise Damaged("what the result points to cannot be read")
        return STATUS.pack(AnswerStatus.DONE, ME) + results[0].encode()

    def ask(self, letter: bytes, node: NodeId = OTHER) -> bytes:
        answers: list[bytes] = []

        def answer(payload: Payload) -> None:
            assert isinstance(payload, bytes)
            answers.append(payload)

        self.letters.heard(node, letter, answer)
        assert len(answers) == 1
        return answers[0]

    def tell(self, letter: bytes) -> None:
        self.letters.heard(OTHER, letter, None)


def check(data: bytes, at: int, node: NodeId) -> None:
    """A line says who says it."""
    if data[at] != node:
        raise RefusedProposal(f"node {node} speaks for node {data[at]}")


def first(queue: Lines | None, letter: bytes) -> bytes:
    if queue is None:
        return letters.refusal(AnswerStatus.NO_GROUP, 0)
    if queue.rotten:
        raise Damaged("the first line cannot be read")
    return STATUS.pack(AnswerStatus.DONE, ME) + b"the first"


def hint(queue: Lines, node: NodeId, letter: bytes) -> None:
    queue.hints.append((node, letter[letters.HEAD.size :]))


def propose(line: bytes, group: int = GROUP) -> bytes:
    return b"".join(letters.propose(group, [line]))


@pytest.fixture
def world() -> World:
    world = World()
    world.queue.lead()
    return world


def test_a_line_of_another_node_is_checked_proposed_and_answered_as_its_kind_does(world: World) -> None:
    assert world.ask(propose(bytes([OTHER]) + b" hello")) == STATUS.pack(AnswerStatus.DONE, ME) + b"line 1"
    assert world.groups.lines == [ENTRY_HEAD + bytes([OTHER]) + b" hello"]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"", "there is no op in it"),
        (bytes([OTHER]) * (ENTRY_BYTES_MAX - len(ENTRY_HEAD) + 1), "17 bytes of ops, and an entry has at most 20"),
        (bytes([3]) + b" hello", "node 2 speaks for node 3"),
    ],
)
def test_what_would_harm_every_member_is_refused_and_told(world: World, line: bytes, why: str) -> None:
    assert decode_answer(world.ask(propose(line))) == Answer(AnswerStatus.REFUSED, ME, why)
    assert world.refused == [f"what node {OTHER} has to say is not proposed: {why}"]
    assert world.groups.lines == []


def test_the_largest_line_that_an_entry_holds_is_proposed(world: World) -> None:
    line = bytes([OTHER]) * (ENTRY_BYTES_MAX - len(ENTRY_HEAD))
    assert decode_answer(world.ask(propose(line))).status is AnswerStatus.DONE


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (NotLeader(member_id(OTHER, 0)), Answer(AnswerStatus.NOT_LEADER, OTHER)),
        (Busy("too much waits"), Answer(AnswerStatus.AGAIN, ME)),
    ],
)
def test_what_raft_does_not_take_is_for_the_asker_to_say_again(world: World, error: RaftError, answer: Answer) -> None:
    world.groups.error = error
    assert decode_answer(world.ask(propose(bytes([OTHER])))) == answer


def test_a_queue_that_is_not_here_or_not_led_from_here_proposes_nothing() -> None:
    world = World()
    assert decode_answer(world.ask(propose(bytes([OTHER]), UNKNOWN_GROUP))).status is AnswerStatus.NO_GROUP
    assert decode_answer(world.ask(propose(bytes([OTHER])))).status is AnswerStatus.NOT_LEADER
    assert world.groups.lines == []


def test_a_letter_has_the_meaning_that_its_kind_of_queue_gives_its_number(world: World) -> None:
    assert world.ask(head(LineLetter.FIRST, GROUP)).endswith(b"the first")
    assert decode_answer(world.ask(head(LineLetter.FIRST, UNKNOWN_GROUP))).status is AnswerStatus.NO_GROUP
    world.tell(head(LineLetter.HINT, GROUP) + b"go on")
    world.tell(head(LineLetter.HINT, UNKNOWN_GROUP) + b"nobody is here")
    assert world.queue.hints == [(OTHER, b"go on")]


def test_letters_of_every_kind_of_queue_are_served_alike(world: World) -> None:
    assert world.queue.leading is not None
    answer, firsts = letters.decode_attending(world.ask(letters.attend(GROUP, 5, [(1, 2)])))
    assert (answer.status, firsts) == (AnswerStatus.DONE, [(1, 9)])
    assert world.queue.leading.attended == [(OTHER, 5, [(1, 2)])]
    world.tell(head(GroupLetter.RELEASED, GROUP))
    assert world.queue.lost == [OTHER]
    verdict = Verdict(1, 2, 3, 4, 5)
    world.tell(letters.give_up(GROUP, verdict))
    assert world.verdicts == [verdict]
    assert letters.decode_compared(world.ask(head(GroupLetter.COMPARE, UNKNOWN_GROUP))).status is AnswerStatus.NO_GROUP


@pytest.mark.parametrize("letter", [head(LineLetter.FIRST, GROUP), propose(bytes([OTHER]))])
def test_damage_that_an_answer_meets_gives_the_member_up_and_has_the_asker_try_again(
    world: World, letter: bytes
) -> None:
    world.queue.rotten = True
    assert decode_answer(world.ask(letter)).status is AnswerStatus.AGAIN
    assert world.groups.given_up == [GROUP]


@pytest.mark.parametrize(
    ("letter", "why"),
    [
        (head(LetterOfQuorum.USED, GROUP), "no kind has the number 6"),
        (b"\1", "a letter of 1 bytes"),
        (head(LineLetter.FIRST, GROUP), "wants no answer to a letter of kind FIRST"),
        (head(GroupLetter.PROPOSE, GROUP), "wants no answer to a letter of kind PROPOSE"),
    ],
)
def test_a_letter_that_this_kind_is_not_told_ends_the_link(world: World, letter: bytes, why: str) -> None:
    with pytest.raises(BadLetter, match=why):
        world.tell(letter)


def test_a_letter_that_has_no_answer_ends_the_link_of_who_asks_for_one(world: World) -> None:
    with pytest.raises(BadLetter, match="asks for an answer to a letter of kind HINT"):
        world.ask(head(LineLetter.HINT, GROUP))


def test_a_kind_cannot_give_a_number_to_two_letters() -> None:
    taken = IntEnum("taken", {"MINE": GroupLetter.ADMIN.value})
    own: KindOfLetters[Any] = KindOfLetters(check, lambda queue, results: b"", 0, tells={taken.MINE: hint})
    with pytest.raises(AssertionError, match="two letters have one number"):
        PeerLetters(
            own,
            {},
            ports=None,  # type: ignore[arg-type]
            administration=None,  # type: ignore[arg-type]
            verdicts=None,  # type: ignore[arg-type]
            entry_bytes_max=1,
            on_refused=lambda queue, why: None,
        )


def test_what_is_said_of_a_refusal_fits_a_line_of_the_log() -> None:
    refused = letters.refused(ME, "\u00e9" * letters.REFUSAL_BYTES_MAX)
    assert len(refused) == STATUS.size + letters.REFUSAL_BYTES_MAX
    assert decode_answer(refused).refusal.startswith("\u00e9" * (letters.REFUSAL_BYTES_MAX // 2 - 1))
