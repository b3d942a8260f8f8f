"""What nodes say to each other about a quorum queue, over node/peers/calls.py. Little endian:

    offset  size  field
         0     1  kind
         1     8  group
         9        by kind

    kind  name       what follows
       1  PROPOSE    ops of quorum/commands.py. An ask; see below for its answer
       2  ATTEND     incarnation u64 | for each consumer of the asking node: number u64 | next id u64. An ask, answered by a
                     status alone: whoever leads serves these consumers from these ids on, as long as it leads
       3  DELIVER    number u64 | first id u64 | length u32 | delivery_count u32 | acquired_count u32 | flags u8 |
                     exchange_len u8 | key_len u8 | exchange | routing key | content
       4  NEWS       applied u64 | ready u64 | its bytes u64 | unacknowledged u64 | its bytes u64 | consumers u32 |
                     flags u8: 1 in exclusive use, 2 single active, 4 an active one is named |
                     active: node u32, incarnation u64, number u64. What a node without a member shows
       5  TIMED_OUT  number u64
       6  USED       nothing: somebody declared the queue again there
       7  RELEASED   nothing: the sender leads no more, and serves nobody
       8  ADMIN      what u8 | node u32. An ask of the leader's node, see quorum/administration.py; answered by a status, and
                     by what was wrong as text, if anything was. Figures are asked of any node, and are the text, as JSON
       9  COMPARE    nothing. An ask of a member's node; answered by: status u8 | leader node u32 | version u32: the newest
                     of the machine that the node knows | for each mark: index u64 | digest u64. See quorum/comparison.py
      10  GIVE_UP    after u64 | digest u64 | term u64 | leader u64 | member u64. A majority has come to this digest after the
                     entry at index `after`, and this member has told another one. See quorum/verdicts.py
      11  BROWSE     skip u32 | limit u32. An ask of a member's node; answered by: status u8 | leader node u32 | messages as in
                     broker/browsed.py

An answer: status u8 | leader node u32: the one that leads, as far as is known, or 0 | by status:
       0  DONE        NEWS as above, from its applied on | bodies u32 | for each body: size u32 | a DELIVER from its number on |
                      results of quorum/commands.py. The bodies are those of the results that got a message, in their order
       1  NOT_LEADER  nothing was done
       2  AGAIN       too much waits there, or it is unknown whether it was done
       3  NO_GROUP    this node knows no such queue (yet, or any more)
       4  REFUSED     why, as text. Nothing was done: what was said would have done harm to every member of the group
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from broker.browsed import Browsed, decode, encode
from native.content import take
from quorum import commands
from quorum.bodies import Body
from quorum.commands import ConsumerKey, Got, Result
from raft.errors import BadBytes
from storage.disk import Buffer


class LetterKind(IntEnum):
    PROPOSE = 1
    ATTEND = 2
    DELIVER = 3
    NEWS = 4
    TIMED_OUT = 5
    USED = 6
    RELEASED = 7
    ADMIN = 8
    COMPARE = 9
    GIVE_UP = 10
    BROWSE = 11


class AnswerStatus(IntEnum):
    DONE = 0
    NOT_LEADER = 1
    AGAIN = 2
    NO_GROUP = 3
    REFUSED = 4


class BadLetter(BadBytes):
    """These bytes are no letter about a quorum queue. The link that brought them ends."""


QUORUM_TOPIC = 3  # of PeerCalls

HEAD = Struct("<BQ")
_ATTEND = Struct("<Q")
_ATTENDED = Struct("<QQ")
_DELIVER = Struct("<QQIIIBBB")
_NEWS = Struct("<QQQQQIBIQQ")
_NUMBER = Struct("<Q")
_ADMIN = Struct("<BI")
_STATUS = Struct("<BI")
_SIZE = Struct("<I")
_COMPARED = Struct("<BII")
_MARK = Struct("<QQ")
_BROWSE = Struct("<II")
_GIVE_UP = Struct("<QQQQQ")

_EXCLUSIVE, _SINGLE_ACTIVE, _HAS_ACTIVE = 1, 2, 4
REFUSAL_BYTES_MAX = 1_000  # of the text: it is for a line of the log
_ALL_BYTES = 1 << 62


class Delivery(NamedTuple):
    """Messages for one consumer."""

    number: int
    first_id: int
    length: int
    delivery_count: int
    acquired_count: int
    body: Body


class News(NamedTuple):
    """How the queue is, as the leader's node sees it."""

    applied: int = 0  # index of the entry after which this was so
    ready: int = 0
    ready_bytes: int = 0
    unacknowledged: int = 0
    unacknowledged_bytes: int = 0
    consumers: int = 0
    exclusive: bool = False  # a consumer has it for itself
    single_active: bool = False
    active: ConsumerKey | None = None


class Fetched(NamedTuple):
    """A GET's result with the message."""

    got: Got
    body: Body


class Answer(NamedTuple):
    status: AnswerStatus
    leader: int
    news: News
    results: Sequence[Result | Fetched]
    refusal: str = ""


NO_NEWS = News()


def head(kind: LetterKind, group: int) -> bytes:
    return HEAD.pack(kind, group)


def kind_and_group(letter: bytes) -> tuple[LetterKind, int]:
    try:
        kind, group = HEAD.unpack_from(letter)
        return LetterKind(kind), group
    except (struct.error, ValueError) as error:
        raise BadLetter(f"a letter of {len(letter)} bytes: {error}") from error


def propose(group: int, ops: Sequence[bytes]) -> list[bytes]:
    return [head(LetterKind.PROPOSE, group), *ops]


def attend(group: int, incarnation: int, consumers: Iterable[tuple[int, int]]) -> bytes:
    return b"".join(
        [head(LetterKind.ATTEND, group), _ATTEND.pack(incarnation), *(_ATTENDED.pack(*one) for one in consumers)]
    )


def decode_attend(letter: bytes) -> tuple[int, list[tuple[int, int]]]:
    """Incarnation, and number and next id of each consumer."""
    try:
        (incarnation,) = _ATTEND.unpack_from(letter, HEAD.size)
        return incarnation, list(_ATTENDED.iter_unpack(letter[HEAD.size + _ATTEND.size :]))
    except struct.error as error:
        raise BadLetter(f"an ATTEND of {len(letter)} bytes: {error}") from error


def deliver(group: int, delivery: Delivery, end: int) -> list[Buffer]:
    """`end`: where the messages end in their content."""
    return [head(LetterKind.DELIVER, group), *_delivery(delivery, end)]


def decode_deliver(letter: bytes) -> Delivery:
    return _decode_delivery(letter, HEAD.size)


def news(group: int, told: News) -> bytes:
    return head(LetterKind.NEWS, group) + _news(told)


def decode_news(letter: bytes) -> News:
    return _decode_news(letter, HEAD.size)


def timed_out(group: int, number: int) -> bytes:
    return head(LetterKind.TIMED_OUT, group) + _NUMBER.pack(number)


def decode_timed_out(letter: bytes) -> int:
    return _number(letter)


def _number(letter: bytes) -> int:
    try:
        number: int = _NUMBER.unpack_from(letter, HEAD.size)[0]
        return number
    except struct.error as error:
        raise BadLetter(f"a {LetterKind(letter[0]).name} of {len(letter)} bytes: {error}") from error


def refusal(status: AnswerStatus, leader: int) -> bytes:
    return _STATUS.pack(status, leader)


def refused(leader: int, why: str) -> bytes:
    return _STATUS.pack(AnswerStatus.REFUSED, leader) + why.encode("utf-8", "replace")[:REFUSAL_BYTES_MAX]


def done(leader: int, told: News, results: Sequence[Result], fetched: Sequence[tuple[Delivery, int]]) -> list[Buffer]:
    """`fetched`: what the results that got a message got, and where it ends."""
    parts: list[Buffer] = [_STATUS.pack(AnswerStatus.DONE, leader), _news(told), _SIZE.pack(len(fetched))]
    for delivery, end in fetched:
        body = _delivery(delivery, end)
        parts += [_SIZE.pack(sum(map(len, body))), *body]
    parts.append(commands.encode_results(results))
    return parts


def decode_answer(answer: bytes) -> Answer:
    try:
        status, leader = _STATUS.unpack_from(answer)
        if status == AnswerStatus.REFUSED:
            why = answer[_STATUS.size :][:REFUSAL_BYTES_MAX].decode("utf-8", "replace")
            return Answer(AnswerStatus.REFUSED, leader, NO_NEWS, (), why)
        if status != AnswerStatus.DONE or len(answer) == _STATUS.size:
            return Answer(AnswerStatus(status), leader, NO_NEWS, ())
        at = _STATUS.size
        told = _decode_news(answer, at)
        at += _NEWS.size
        (count,) = _SIZE.unpack_from(answer, at)
        at += _SIZE.size
        bodies = []
        for _ in range(count):
            (size,) = _SIZE.unpack_from(answer, at)
            at += _SIZE.size
            bodies.append(_decode_delivery(answer[at : at + size], 0).body)
            at += size
        results = commands.decode_results(answer[at:])
        return Answer(AnswerStatus.DONE, leader, told, with_bodies(results, bodies))
    except (struct.error, ValueError) as error:
        raise BadLetter(f"an answer of {len(answer)} bytes: {error}") from error


def attending(leader: int) -> bytes:
    """The answer to an ATTEND that is followed."""
    return _STATUS.pack(AnswerStatus.DONE, leader)


class Compared(NamedTuple):
    """How a member stands."""

    status: AnswerStatus
    version: int = 0  # of the machine, the newest that its node knows
    digests: Sequence[tuple[int, int]] = ()  # index of an entry, and the digest after it


def compared(leader: int, version: int, digests: Iterable[tuple[int, int]]) -> bytes:
    return b"".join([_COMPARED.pack(AnswerStatus.DONE, leader, version), *(_MARK.pack(*one) for one in digests)])


def decode_compared(answer: bytes) -> Compared:
    try:
        status = AnswerStatus(_STATUS.unpack_from(answer)[0])
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
    return head(LetterKind.GIVE_UP, group) + _GIVE_UP.pack(*verdict)


def decode_give_up(letter: bytes) -> Verdict:
    try:
        return Verdict._make(_GIVE_UP.unpack_from(letter, HEAD.size))
    except struct.error as error:
        raise BadLetter(f"a GIVE_UP of {len(letter)} bytes: {error}") from error


def browse(group: int, skip: int, limit: int) -> bytes:
    return head(LetterKind.BROWSE, group) + _BROWSE.pack(skip, limit)


def decode_browse(letter: bytes) -> tuple[int, int]:
    try:
        skip, limit = _BROWSE.unpack_from(letter, HEAD.size)
        return skip, limit
    except struct.error as error:
        raise BadLetter(f"a BROWSE of {len(letter)} bytes: {error}") from error


def browsed(leader: int, found: Iterable[Browsed]) -> bytes:
    return _STATUS.pack(AnswerStatus.DONE, leader) + encode(found)


def decode_browsed(answer: bytes) -> list[Browsed] | None:
    """None: that node has no member."""
    try:
        status = AnswerStatus(_STATUS.unpack_from(answer)[0])
        return decode(answer[_STATUS.size :]) if status is AnswerStatus.DONE else None
    except (struct.error, ValueError) as error:
        raise BadLetter(f"an answer to BROWSE of {len(answer)} bytes: {error}") from error


def admin(group: int, what: int, node: int) -> bytes:
    return head(LetterKind.ADMIN, group) + _ADMIN.pack(what, node)


def decode_admin(letter: bytes) -> tuple[int, int]:
    try:
        what, node = _ADMIN.unpack_from(letter, HEAD.size)
        return what, node
    except struct.error as error:
        raise BadLetter(f"an ADMIN of {len(letter)} bytes: {error}") from error


def admin_answer(status: AnswerStatus, leader: int, wrong: str = "") -> bytes:
    return _STATUS.pack(status, leader) + wrong.encode()


def decode_admin_answer(answer: bytes) -> tuple[AnswerStatus, int, str]:
    try:
        status, leader = _STATUS.unpack_from(answer)
        return AnswerStatus(status), leader, answer[_STATUS.size :].decode()
    except (struct.error, ValueError) as error:
        raise BadLetter(f"an answer to ADMIN of {len(answer)} bytes: {error}") from error


def status_of(answer: bytes | None) -> AnswerStatus | None:
    """None: there is no answer, or none that is understood here."""
    try:
        return None if answer is None else decode_answer(answer).status
    except BadLetter:
        return None


def with_bodies(results: Sequence[Result], bodies: Iterable[Body]) -> Sequence[Result | Fetched]:
    found = iter(bodies)
    return [Fetched(result, next(found)) if type(result) is Got else result for result in results]


def _delivery(delivery: Delivery, end: int) -> list[Buffer]:
    body = delivery.body
    exchange = body.exchange.encode("utf-8", "surrogateescape")
    key = body.routing_key.encode("utf-8", "surrogateescape")
    fixed = _DELIVER.pack(
        delivery.number, delivery.first_id, delivery.length, delivery.delivery_count, delivery.acquired_count,
        body.flags, len(exchange), len(key),
    )  # fmt: skip
    return [fixed, exchange, key, memoryview(body.content)[body.position : end]]


def _decode_delivery(data: bytes, at: int) -> Delivery:
    try:
        *numbers, flags, exchange_len, key_len = _DELIVER.unpack_from(data, at)
    except struct.error as error:
        raise BadLetter(f"a DELIVER of {len(data)} bytes: {error}") from error
    exchange_at = at + _DELIVER.size
    key_at = exchange_at + exchange_len
    content_at = key_at + key_len
    try:
        taken = take(data, content_at, numbers[2], _ALL_BYTES)[:2]
    except ValueError as error:
        raise BadLetter(f"a DELIVER of {len(data)} bytes: {error}") from error
    if not numbers[2] or taken != (numbers[2], len(data)):
        raise BadLetter(
            f"a DELIVER of {numbers[2]} messages in {len(data)} bytes has {taken[0]} that end at {taken[1]}"
        )
    exchange = data[exchange_at:key_at].decode("utf-8", "surrogateescape")
    key = data[key_at:content_at].decode("utf-8", "surrogateescape")
    number, first_id, length, delivery_count, acquired_count = numbers
    body = Body(data, content_at, exchange, key, flags)
    return Delivery(number, first_id, length, delivery_count, acquired_count, body)


def _news(told: News) -> bytes:
    flags = _EXCLUSIVE * told.exclusive | _SINGLE_ACTIVE * told.single_active | _HAS_ACTIVE * (told.active is not None)
    return _NEWS.pack(*told[:6], flags, *(told.active or (0, 0, 0)))


def _decode_news(data: bytes, at: int) -> News:
    try:
        *numbers, flags, node, incarnation, number = _NEWS.unpack_from(data, at)
    except struct.error as error:
        raise BadLetter(f"NEWS in {len(data)} bytes: {error}") from error
    applied, ready, ready_bytes, unacknowledged, unacknowledged_bytes, consumers = numbers
    return News(
        applied,
        ready,
        ready_bytes,
        unacknowledged,
        unacknowledged_bytes,
        consumers,
        exclusive=bool(flags & _EXCLUSIVE),
        single_active=bool(flags & _SINGLE_ACTIVE),
        active=ConsumerKey(node, incarnation, number) if flags & _HAS_ACTIVE else None,
    )
