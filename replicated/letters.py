"""Letters between nodes about replicated queues, over node/peers/calls.py. Little endian:

    offset  size  field
         0     1  kind
         1     8  group
         9        by kind

    kind  name       what follows
       1  PROPOSE    commands as the kind of queue has them. An ask; see below for its answer
       2  ATTEND     incarnation u64 | for each consumer of the asking node: number u64 | next id u64. An ask: the leader's
                     node serves these consumers from these ids on, as long as it leads. Answered by a status, and if that is
                     DONE, for each consumer to which that id is not out, but a later one: number u64 | that one u64
       7  RELEASED   nothing: the sender leads no more, and serves no other node
       8  ADMIN      what u8 | node u32. An ask of the leader's node, see replicated/administration.py; answered by a status,
                     and by what was wrong as text, if anything was. Figures are asked of any node, and are the text, as JSON
       9  COMPARE    nothing. An ask of a member's node; answered by: status u8 | leader node u32 | version u32: the newest
                     of the machine that the node knows | for each mark: index u64 | digest u64. See replicated/comparison.py
      10  GIVE_UP    after u64 | digest u64 | term u64 | leader u64 | member u64. A majority has come to this digest after the
                     entry at index `after`, and this member has told another one. See replicated/verdicts.py

All other numbers are for the letters that only one kind of queue has.

An answer: status u8 | leader node u32: the one that leads, as far as is known, or 0 | by status:
       0  DONE        the results, as the kind of queue has them
       1  NOT_LEADER  nothing was done
       2  AGAIN       too much waits there, or it is unknown whether it was done
       3  NO_GROUP    this node knows no such queue (yet, or any more)
       4  REFUSED     why, as text. Nothing was done: what was said would have done harm to every member of the group

About many queues of all kinds there is an ask in a topic of its own, without a kind (node/replicas/far_queues.py): for each
queue its group u64. Its answer: bytes of a row u16 | for each of these queues that has a member on the asked node, a row:

    group u64 | leader node u32, 0: it knows of none | applied u64 | ready u64 | its bytes u64 | unacknowledged u64 |
    its bytes u64 | consumers u32 | in later versions perhaps more, which is passed over
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from struct import Struct
from typing import Any, NamedTuple

from raft.core.errors import BadBytes
from raft.core.messages import NodeId


class GroupLetter(IntEnum):
    """The letters of every kind of queue."""

    PROPOSE = 1
    ATTEND = 2
    RELEASED = 7
    ADMIN = 8
    COMPARE = 9
    GIVE_UP = 10


class AnswerStatus(IntEnum):
    DONE = 0
    NOT_LEADER = 1
    AGAIN = 2
    NO_GROUP = 3
    REFUSED = 4


class BadLetter(BadBytes):
    """These bytes are no letter about a replicated queue. The link that brought them ends."""


HEAD = Struct("<BQ")
STATUS = Struct("<BI")
_ATTEND = Struct("<Q")
_ATTENDED = Struct("<QQ")
_ADMIN = Struct("<BI")
_COMPARED = Struct("<BII")
_MARK = Struct("<QQ")
_GIVE_UP = Struct("<QQQQQ")
_GROUP = Struct("<Q")
_REPORT_BYTES = Struct("<H")
_REPORT = Struct("<QIQQQQQI")

REFUSAL_BYTES_MAX = 1_000  # of the text: it is for a line of the log


class Answer(NamedTuple):
    status: AnswerStatus
    leader: int
    refusal: str = ""


def head(kind: int, group: int) -> bytes:
    return HEAD.pack(kind, group)


def kind_and_group(letter: bytes, kinds: Mapping[int, IntEnum]) -> tuple[IntEnum, int]:
    """`kinds`: by their numbers, those that a queue of this kind knows."""
    try:
        kind, group = HEAD.unpack_from(letter)
        return kinds[kind], group
    except struct.error as error:
        raise BadLetter(f"a letter of {len(letter)} bytes: {error}") from error
    except KeyError as error:
        raise BadLetter(f"a letter of {len(letter)} bytes: no kind has the number {error}") from error


def propose(group: int, ops: Sequence[bytes]) -> list[bytes]:
    return [head(GroupLetter.PROPOSE, group), *ops]


def attend(group: int, incarnation: int, consumers: Iterable[tuple[int, int]]) -> bytes:
    return b"".join(
        [head(GroupLetter.ATTEND, group), _ATTEND.pack(incarnation), *(_ATTENDED.pack(*one) for one in consumers)]
    )


def decode_attend(letter: bytes) -> tuple[int, list[tuple[int, int]]]:
    """Incarnation, and number and next id of each consumer."""
    try:
        (incarnation,) = _ATTEND.unpack_from(letter, HEAD.size)
        return incarnation, list(_ATTENDED.iter_unpack(letter[HEAD.size + _ATTEND.size :]))
    except struct.error as error:
        raise BadLetter(f"an ATTEND of {len(letter)} bytes: {error}") from error


def attending(leader: int, firsts: Iterable[tuple[int, int]] = ()) -> bytes:
    """The answer to an ATTEND that is followed. `firsts`: number and first id of consumers that lack nothing before it."""
    return STATUS.pack(AnswerStatus.DONE, leader) + b"".join([_ATTENDED.pack(*one) for one in firsts])


def refusal(status: AnswerStatus, leader: int) -> bytes:
    return STATUS.pack(status, leader)


def refused(leader: int, why: str) -> bytes:
    return STATUS.pack(AnswerStatus.REFUSED, leader) + why.encode("utf-8", "replace")[:REFUSAL_BYTES_MAX]


def decode_answer(answer: bytes) -> Answer:
    """The results of what is DONE are behind STATUS."""
    try:
        status, leader = STATUS.unpack_from(answer)
        if status != AnswerStatus.REFUSED:
            return Answer(AnswerStatus(status), leader)
        return Answer(
            AnswerStatus.REFUSED, leader, answer[STATUS.size :][:REFUSAL_BYTES_MAX].decode("utf-8", "replace")
        )
    except (struct.error, ValueError) as error:
        raise BadLetter(f"an answer of {len(answer)} bytes: {error}") from error


def decode_attending(answer: bytes) -> tuple[Answer, list[tuple[int, int]]]:
    """Beside it, number and first id of consumers that lack nothing before it: an earlier version says nothing of that."""
    decoded = decode_answer(answer)
    if decoded.status is not AnswerStatus.DONE:
        return decoded, []
    try:
        return decoded, list(_ATTENDED.iter_unpack(answer[STATUS.size :]))
    except struct.error as error:
        raise BadLetter(f"an answer of {len(answer)} bytes to an ATTEND: {error}") from error


class Compared(NamedTuple):
    """What a member reports of its state."""

    status: AnswerStatus
    version: int = 0  # of the machine, the newest that its node knows
    digests: Sequence[tuple[int, int]] = ()  # index of an entry, and the digest after it


def compared(leader: int, version: int, digests: Iterable[tuple[int, int]]) -> bytes:
    return b"".join([_COMPARED.pack(AnswerStatus.DONE, leader, version), *(_MARK.pack(*one) for one in digests)])


def decode_compared(answer: bytes) -> Compared:
    try:
        status = AnswerStatus(STATUS.unpack_from(answer)[0])
        if status is not AnswerStatus.DONE:
            return Compared(status)
        _, _, version = _COMPARED.unpack_from(answer)
        return Compared(status, version, list(_MARK.iter_unpack(answer[_COMPARED.size :])))
    except (struct.error, ValueError) as error:
        raise BadLetter(f"an answer to COMPARE of {len(answer)} bytes: {error}") from error


class Verdict(NamedTuple):
    """A leader's word that a member is in a wrong state."""

    after: int  # index of an entry
    digest: int  # that a majority has come to there
    term: int
    leader: int
    member: int


def give_up(group: int, verdict: Verdict) -> bytes:
    return head(GroupLetter.GIVE_UP, group) + _GIVE_UP.pack(*verdict)


def decode_give_up(letter: bytes) -> Verdict:
    try:
        return Verdict._make(_GIVE_UP.unpack_from(letter, HEAD.size))
    except struct.error as error:
        raise BadLetter(f"a GIVE_UP of {len(letter)} bytes: {error}") from error


def admin(group: int, what: int, node: int) -> bytes:
    return head(GroupLetter.ADMIN, group) + _ADMIN.pack(what, node)


def decode_admin(letter: bytes) -> tuple[int, int]:
    try:
        what, node = _ADMIN.unpack_from(letter, HEAD.size)
        return what, node
    except struct.error as error:
        raise BadLetter(f"an ADMIN of {len(letter)} bytes: {error}") from error


def admin_answer(status: AnswerStatus, leader: int, wrong: str = "") -> bytes:
    return STATUS.pack(status, leader) + wrong.encode()


def decode_admin_answer(answer: bytes) -> tuple[AnswerStatus, int, str]:
    try:
        status, leader = STATUS.unpack_from(answer)
        return AnswerStatus(status), leader, answer[STATUS.size :].decode()
    except (struct.error, ValueError) as error:
        raise BadLetter(f"an answer to ADMIN of {len(answer)} bytes: {error}") from error


class MemberReport(NamedTuple):
    """How the queue of this group is, as its member on one node has it."""

    group: int
    leader: NodeId  # 0: it knows of none
    applied: int = 0  # index of the entry after which this was so
    ready: int = 0
    ready_bytes: int = 0
    unacknowledged: int = 0
    unacknowledged_bytes: int = 0
    consumers: int = 0


def ask_reports(groups: Iterable[int]) -> bytes:
    return b"".join(map(_GROUP.pack, groups))


def groups_asked_for(letter: bytes) -> list[int]:
    """The groups. Raises BadLetter."""
    try:
        return [group for (group,) in _GROUP.iter_unpack(letter)]
    except struct.error as error:
        raise BadLetter(f"{len(letter)} bytes that name groups: {error}") from error


def told_reports(reports: Iterable[MemberReport]) -> bytes:
    return _REPORT_BYTES.pack(_REPORT.size) + b"".join([_REPORT.pack(*one) for one in reports])


def decode_reports(letter: bytes) -> list[MemberReport]:
    """Raises BadLetter."""
    try:
        (size,) = _REPORT_BYTES.unpack_from(letter)
        starts = range(_REPORT_BYTES.size, len(letter), max(size, _REPORT.size))
        return [MemberReport._make(_REPORT.unpack_from(letter, at)) for at in starts]
    except struct.error as error:
        raise BadLetter(f"reports in {len(letter)} bytes: {error}") from error


def report_of_figures(group: int, figures: Mapping[str, Any]) -> MemberReport | None:
    """As nodes of versions without these letters tell of one queue (replicated/administration.py). None: it has no member
    there."""
    if "raft" not in figures:
        return None
    machine = figures.get("machine", {})
    in_stream = machine.get("committed_offset", -1) + 1 - machine.get("first_offset", 0)
    return MemberReport(
        group,
        figures.get("leader_node", 0),
        machine.get("applied", 0),
        machine.get("ready", max(0, in_stream)),
        machine.get("ready_bytes", machine.get("bytes", 0)),
        machine.get("unacknowledged", 0),
        machine.get("unacknowledged_bytes", 0),
        machine.get("consumers", 0),
    )
