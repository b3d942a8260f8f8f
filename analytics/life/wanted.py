"""What to look for in files of logs, and what was found. Plain values: they travel between processes."""

from __future__ import annotations

import struct
from hashlib import sha256
from typing import Any, NamedTuple

from analytics.queue_events import QueueEvent
from replicated.local_members import QUEUE_GROUPS
from storage.history.name_records import ActorRow
from wire.amqp.tables import TableError, decode_properties

# A queue's number in the catalog, and where in the queue: (sequence, 0, 0), or entry, off and nth.
QueuePosition = tuple[int, int, int, int]

_DEATH_IN = struct.Struct("<QQII")  # the head of a Death: classic/store/log_records.py
SHORT_BYTES_MAX = 255  # of an id, or the name of a header: no message has a longer one
DIGEST_DIGITS = 64  # of SHA-256, in hexadecimal
_INTEGERS = (
    ("b", ">b"),
    ("s", ">h"),
    ("I", ">i"),
    ("l", ">q"),
)  # letters of AMQP tables that clients write integers with


class MessagePlace(NamedTuple):
    """Which message of which queue. `pos`, `off` and `nth` are those of the table `lives`: in a classic queue `pos + nth` is
    the sequence, in a quorum queue `pos` is the entry, `off` the place of the run in it."""

    queue: int
    pos: int
    off: int
    nth: int

    def is_at(self, position: QueuePosition) -> bool:
        """Where a record says that a dead letter died."""
        queue, *place = position
        if self.queue == queue | QUEUE_GROUPS:
            return [self.pos, self.off, self.nth] == place
        return self.queue == queue and [self.pos + self.nth, 0, 0] == place


class FoundMessage(NamedTuple):
    """One message in one queue, as it was published there."""

    place: MessagePlace
    node: str
    file: int
    offset: int  # of its record
    kind: int  # of the record
    term: int  # 0: of a classic queue
    at: int | None  # µs
    exchange: str
    routing_key: str
    confirm: bool | None  # None: the log does not say
    actor: int | None  # who published it, as the log of the node names it that the publisher was connected to
    incarnation: int | None  # of that node's process, in a quorum queue; None: it is the process that wrote the record
    publish_no: int | None  # and the how manieth that was
    expires_at: int | None  # ms
    body_bytes: int
    died_in: QueuePosition | None  # it is a dead letter: of this queue, pos, off and nth
    death_reason: int | None
    props: bytes
    event: QueueEvent | None  # of a classic queue: the record, for its fold
    # The actor, and to whom it belongs, where no incarnation says of which process it is.
    publisher: tuple[ActorRow, ...] = ()

    def properties(self) -> dict[str, Any]:
        """Empty where they cannot be read."""
        try:
            return decode_properties(self.props)
        except TableError:
            return {}


class TextProperty(NamedTuple):
    """All messages of which this property, a short text, is this."""

    name: str
    value: str

    def needles(self) -> list[bytes]:
        raw = self.value.encode()
        return [bytes([len(raw)]) + raw] if 0 < len(raw) <= SHORT_BYTES_MAX else []

    def fits(self, found: FoundMessage, in_body: bool) -> bool:
        return not in_body and found.properties().get(self.name) == self.value


class HeaderValue(NamedTuple):
    """All messages with this header: a text, or a whole number."""

    name: str
    value: str

    def needles(self) -> list[bytes]:
        name, raw = self.name.encode(), self.value.encode()
        if not 0 < len(name) <= SHORT_BYTES_MAX:
            return []
        head = bytes([len(name)]) + name
        found = [head + b"S" + len(raw).to_bytes(4, "big") + raw]
        if self.value.removeprefix("-").isdecimal():
            number = int(self.value)
            for letter, layout in _INTEGERS:
                bits = 8 * struct.calcsize(layout)
                if -(1 << bits - 1) <= number < 1 << bits - 1:
                    found.append(head + letter.encode() + struct.pack(layout, number))
        return found

    def fits(self, found: FoundMessage, in_body: bool) -> bool:
        headers = found.properties().get("headers") or {}
        return not in_body and self.name in headers and str(headers[self.name]) == self.value


class BodyText(NamedTuple):
    """All messages whose bodies hold this text, as UTF-8."""

    text: str

    def needles(self) -> list[bytes]:
        return [self.text.encode()] if self.text else []

    def fits(self, found: FoundMessage, in_body: bool) -> bool:
        return in_body


class SuccessorOf(NamedTuple):
    """What this message became when it died, where the record says it."""

    place: MessagePlace
    is_classic: bool

    def position(self) -> QueuePosition:
        queue, pos, off, nth = self.place
        return (queue, pos + nth, 0, 0) if self.is_classic else (queue & ~QUEUE_GROUPS, pos, off, nth)

    def needles(self) -> list[bytes]:
        return [_DEATH_IN.pack(*self.position())]

    def fits(self, found: FoundMessage, in_body: bool) -> bool:
        return found.died_in == self.position()


class AtPlace(NamedTuple):
    """Messages at a place of a queue: its sequence or its entry, of which `off` and `nth` say which; None: any."""

    name: str | None  # with or without its virtual host
    queue: int | None  # its number in the catalog, where there is no name
    pos: int
    off: int | None = None
    nth: int | None = None

    def is_of(self, name: str) -> bool:
        return self.name is not None and (name == self.name or name.endswith(f"/{self.name}"))


def at_place(queue: str, text: str) -> AtPlace:
    """A place as operators write it: POS or POS/OFF/NTH. Raises ValueError."""
    return AtPlace(queue, None, *place_numbers(text))


def place_numbers(text: str) -> list[int]:
    """Raises ValueError."""
    numbers = text.split("/")
    if len(numbers) not in (1, 3) or not all(one.isdecimal() for one in numbers):
        raise ValueError(f"{text!r} is no place in a queue: write 17, or 17/9/0 for pos, off and nth of `lives`")
    return [int(one) for one in numbers]


class BodyDigest(NamedTuple):
    """All messages of one queue whose bodies have this digest. Of these each body is read, so it is asked of one queue only."""

    queue: int  # its number in the catalog
    sha256: str  # in hexadecimal, small letters

    def fits_body(self, body: bytes | memoryview) -> bool:
        return sha256(body).hexdigest() == self.sha256


def body_digest(queue: int, text: str) -> BodyDigest:
    """Raises ValueError."""
    digits = text.lower()
    if len(digits) != DIGEST_DIGITS or set(digits) - set("0123456789abcdef"):
        raise ValueError(f"{text[:80]!r} is no SHA-256 of a body: it has {DIGEST_DIGITS} hexadecimal digits")
    return BodyDigest(queue, digits)


class InQueue(NamedTuple):
    """Of those that are sought the ones in this queue."""

    sought: TextProperty
    queue: int  # its number in the catalog

    def needles(self) -> list[bytes]:
        return self.sought.needles()

    def fits(self, found: FoundMessage, in_body: bool) -> bool:
        return found.place.queue in numbers_of(self.queue) and self.sought.fits(found, in_body)


def numbers_of(queue: int) -> tuple[int, int]:
    """Under which a log speaks of the queue with this number in the catalog: as of a classic one, or as of a group."""
    return queue, queue | QUEUE_GROUPS


Sought = TextProperty | HeaderValue | BodyText | SuccessorOf | InQueue


class LookFor(NamedTuple):
    """What one pass over the files looks for, all at once."""

    sought: tuple[Sought, ...] = ()
    places: tuple[AtPlace, ...] = ()
    digests: tuple[BodyDigest, ...] = ()
    sequences: frozenset[tuple[int, int]] = frozenset()  # of classic queues, by number: what became of them
    groups: frozenset[int] = frozenset()  # quorum queues: where their entries lie, and what nodes say of them
    consumed: frozenset[str] = frozenset()  # names of queues without virtual host: who their consumers are
    actors: frozenset[tuple[int, int]] = frozenset()  # incarnation and number, of any node: who they are
    matches_max: int = 100  # of one file
