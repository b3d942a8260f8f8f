"""What parts of two nodes say to each other: requests, their answers, and messages without one, by topic.

They travel beside Raft's letters over the links of node/peers/link.py, in a queue of their own: in order, none is lost while
the link lives, and all that is under way is gone when it breaks. Whoever waits for an answer is told None then, and whether it
was done is unknown; an answer never passes from one link to the next. What is said in one turn leaves as one letter.

The letters, little endian:

    offset  size  field
         0     1  kind     4
         1        entries, one behind the other
    entry
         0     1  kind     1: ask   2: tell   3: answer   4: part   5: not served, for an ask whose topic nobody knows,
                           or whose handler failed
         1     2  topic    of ask and tell, else 0
         3     8  number   of an ask, as its node counts them; answer and not served say it back, else 0
        11     4  size
        15        payload, size bytes

A payload longer than PART_BYTES comes in parts: all but its end in entries of that kind, its end in the entry it is for. So
Raft's letters find a way between the parts.

Whose fault it is decides what follows. BadBytes is the other node's: the link ends, and the log says what came. Anything else
that a handler raises is a fault of this node, and is logged as that with its traceback: what was asked is answered as if the
topic were not served, and the link goes on; behind something that was told, or an answer, nobody here knows any more what was
heard of this link, so it ends.

What is heard is heard in turns (broker/background_work.py), an entry at a time: each may be work for thousands of queues. What
has come and was not heard yet waits, up to INBOX_BYTES_MAX of each node; beyond that it is heard at once, and so the other node
is held up as by any connection that is not read.

More than HIGH_BYTES waiting for a node make it unwritable, until they are LOW_BYTES or less. That stops nothing by itself:
whoever can wait, waits. A node for which more than LinkLimits.calls_bytes_max wait loses its link.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from logging import Logger
from struct import Struct
from typing import Any, Protocol

from broker.background_work import Steps, Unsliced, Work, begin
from node.peers.link import CALLS, CallEars, HandlerFailed
from raft.core.errors import BadBytes
from raft.core.messages import NodeId
from storage.disk import Buffer

METADATA = 1
CLASSIC = 2
QUORUM = 3
CLUSTER = 4
REPLIES = 5
STREAM = 6
GROUPS = 7  # of single active consumers
WEB = 8  # what is shown over HTTP
LIVES = 9  # of messages, as logs tell them
QUEUES = 10  # replicated ones, as members' nodes tell of them

LETTER_BYTES = 1 << 20  # a fuller one is closed, and another begun
PART_BYTES = 1 << 20
PAYLOAD_BYTES_MAX = 128 << 20
HIGH_BYTES = 8 << 20
LOW_BYTES = 2 << 20
INBOX_BYTES_MAX = 4 << 20

_ASK, _TELL, _ANSWER, _PART, _NOT_SERVED = 1, 2, 3, 4, 5
_ENTRY = Struct("<BHQI")
_LETTER_HEAD = bytes([CALLS])

Payload = Buffer | Sequence[Buffer]  # several count as one, in this order. Nobody changes them afterwards
OnAnswer = Callable[[bytes | None], None]
Answer = Callable[[Payload], None]
Handler = Callable[[NodeId, bytes, Answer | None], None]


class CallsLoop(Protocol):
    """What is needed of an event loop."""

    def call_soon(self, callback: Callable[..., object], *args: Any) -> object: ...


class Wire(Protocol):
    """What carries the letters: PeerLinks."""

    def hear_calls(self, ears: CallEars) -> None: ...

    def send_call(self, node: NodeId, letter: bytes) -> None: ...

    def calls_waiting(self, node: NodeId) -> int:
        """Bytes that have not left."""

    def end_link(self, node: NodeId, fault: Exception) -> None:
        """BadBytes, or HandlerFailed."""


class PeerCalls:
    """All of this node's. Belongs to the loop's thread."""

    def __init__(self, wire: Wire, loop: CallsLoop, logger: Logger) -> None:
        self.work: Work = Unsliced()  # by which the others are heard
        self._wire = wire
        self._loop = loop
        self._logger = logger
        self._peers: dict[NodeId, _Peer] = {}  # to whom there is a link
        self._handlers: dict[int, Handler] = {}
        self._on_link: list[Callable[[NodeId, bool], None]] = []
        self._on_writable: list[Callable[[NodeId], None]] = []
        self._speaking: dict[NodeId, _Peer] = {}  # for whom something was gathered in this turn
        self.handler_failures = 0  # exceptions of handlers, which are faults of this node
        self._asked = 0
        self._at_turn_end: list[Callable[[], None]] = []
        self._turn_ends_soon = False
        wire.hear_calls(self)

    # what parts of this node use

    def ask(self, node: NodeId, topic: int, payload: Payload, on_answer: OnAnswer) -> None:
        """`on_answer` is called once, later: with None if the link broke, there is none, or the node does not know the topic;
        whether it was done is unknown then."""
        peer = self._peers.get(node)
        if peer is None:
            self._loop.call_soon(on_answer, None)
            return
        self._asked += 1
        peer.asked[self._asked] = on_answer
        self._say(peer, _ASK, topic, self._asked, payload)

    def tell(self, node: NodeId, topic: int, payload: Payload) -> bool:
        """False: there is no link. True does not say that it arrives."""
        peer = self._peers.get(node)
        if peer is None:
            return False
        self._say(peer, _TELL, topic, 0, payload)
        return True

    def at_turn_end(self, call: Callable[[], None]) -> None:
        """Call it once, before what was said in this turn leaves: what it says goes with it."""
        self._at_turn_end.append(call)
        self._end_turn_soon()

    def serve(self, topic: int, handler: Handler) -> None:
        """Have `handler(node, payload, answer)` called for each ask and tell. `answer` is None for a tell; for an ask it is to
        be called once, now or later. It raises BadBytes for a payload that is none, which ends the link."""
        assert topic not in self._handlers, f"topic {topic} is served twice"
        self._handlers[topic] = handler

    def on_link(self, listener: Callable[[NodeId, bool], None]) -> None:
        """Have it told of each link that came (True) and went (False). What waited for answers was told before."""
        self._on_link.append(listener)

    def on_writable(self, listener: Callable[[NodeId], None]) -> None:
        """Have it told of each node that has become writable again, while its link lives."""
        self._on_writable.append(listener)

    def connected(self, node: NodeId) -> bool:
        return node in self._peers

    def writable(self, node: NodeId) -> bool:
        """False also when there is no link."""
        peer = self._peers.get(node)
        return peer is not None and not peer.full

    # what links tell (CallEars)

    def link_came(self, node: NodeId) -> None:
        assert node not in self._peers, f"node {node} has two links"
        self._peers[node] = _Peer(node)
        for listener in self._on_link:
            listener(node, True)

    def link_went(self, node: NodeId) -> None:
        peer = self._peers.pop(node)
        self._speaking.pop(node, None)
        asked, peer.asked = peer.asked, {}
        for number, on_answer in asked.items():
            try:
                on_answer(None)
            except Exception:  # the others are still to be told
                self._logger.exception("who asked node %d as %d could not be told that its link went", node, number)
        for listener in self._on_link:
            listener(node, False)

    def drained(self, node: NodeId) -> None:
        peer = self._peers.get(node)
        if peer is not None and peer.full and self._waiting(peer) <= LOW_BYTES:
            peer.full = False
            for listener in self._on_writable:
                listener(node)

    def receive(self, node: NodeId, letter: bytes) -> None:
        peer = self._peers[node]
        peer.inbox.append(letter)
        peer.inbox_bytes += len(letter)
        if peer.hearing is None:
            peer.hearing = self._hear_inbox(peer)
            begin(self.work, peer.hearing)
            self._end_turn_soon()
        elif peer.inbox_bytes > INBOX_BYTES_MAX:
            for _ in peer.hearing:
                if peer.inbox_bytes <= INBOX_BYTES_MAX:
                    break

    # steps

    def _hear_inbox(self, peer: _Peer) -> Steps:
        try:
            while peer.inbox:
                letter = peer.inbox.popleft()
                yield from self._hear_letter(peer, letter)
                peer.inbox_bytes -= len(letter)
        except (BadBytes, HandlerFailed) as fault:
            peer.inbox.clear()
            self._wire.end_link(peer.node, fault)
        finally:
            peer.hearing = None

    def _hear_letter(self, peer: _Peer, letter: bytes) -> Steps:
        for kind, topic, number, start, end in entries(letter):
            if self._peers.get(peer.node) is not peer:
                return  # what came before has ended the link
            peer.parts.append(letter[start:end])
            peer.parts_bytes += end - start
            if peer.parts_bytes > PAYLOAD_BYTES_MAX:
                raise BadBytes(f"a payload of more than {PAYLOAD_BYTES_MAX} bytes on topic {topic}")
            if kind != _PART:
                self._hear(peer, kind, topic, number, peer.take_payload())
                yield

    def _hear(self, peer: _Peer, kind: int, topic: int, number: int, payload: bytes) -> None:
        if kind == _ASK:
            self._hear_ask(peer, topic, number, payload)
            return
        try:
            if kind == _TELL:
                handler = self._handlers.get(topic)
                if handler is not None:
                    handler(peer.node, payload, None)
            else:
                self._hear_answer(peer, number, payload if kind == _ANSWER else None)
        except BadBytes:
            raise
        except Exception as error:
            what = f"what node {peer.node} says on topic {topic}" if kind == _TELL else f"an answer of node {peer.node}"
            self._handler_failed(what)
            raise HandlerFailed(f"a fault of this node: {what} could not be handled") from error

    def _hear_answer(self, peer: _Peer, number: int, payload: bytes | None) -> None:
        on_answer = peer.asked.pop(number, None)
        if on_answer is None:
            raise BadBytes(f"an answer to request {number}, which waits for none")
        on_answer(payload)

    def _handler_failed(self, what: str) -> None:
        """To be called where the exception is handled."""
        self.handler_failures += 1
        self._logger.exception("a fault of this node: %s could not be handled", what)

    def _hear_ask(self, peer: _Peer, topic: int, number: int, payload: bytes) -> None:
        handler = self._handlers.get(topic)
        if handler is None:
            self._say(peer, _NOT_SERVED, 0, number, b"")
            return
        answered = failed = False

        def answer(payload: Payload) -> None:
            nonlocal answered
            if failed:
                return  # the handler kept it, and has failed behind that
            assert not answered, f"request {number} of node {peer.node} on topic {topic} is answered twice"
            answered = True
            if self._peers.get(peer.node) is peer:
                self._say(peer, _ANSWER, 0, number, payload)

        try:
            handler(peer.node, payload, answer)
        except BadBytes:
            raise
        except Exception:
            self._handler_failed(f"what node {peer.node} asks on topic {topic}")
            failed = True
            if not answered and self._peers.get(peer.node) is peer:
                self._say(peer, _NOT_SERVED, 0, number, b"")

    def _say(self, peer: _Peer, kind: int, topic: int, number: int, payload: Payload) -> None:
        parts = [payload] if isinstance(payload, (bytes, bytearray, memoryview)) else payload
        size = sum([len(part) for part in parts])
        if size > PART_BYTES:
            parts, size = [self._say_in_parts(peer, b"".join(parts), topic)], size % PART_BYTES or PART_BYTES
        peer.add(_ENTRY.pack(kind, topic, number, size), parts, size)
        self._speaking[peer.node] = peer
        self._end_turn_soon()
        if not peer.full and self._waiting(peer) > HIGH_BYTES:
            peer.full = True

    def _say_in_parts(self, peer: _Peer, payload: bytes, topic: int) -> Buffer:
        """All but the end; returns the end."""
        if len(payload) > PAYLOAD_BYTES_MAX:
            raise ValueError(f"{len(payload)} bytes on topic {topic}: another node takes at most {PAYLOAD_BYTES_MAX}")
        view, at = memoryview(payload), 0
        while len(payload) - at > PART_BYTES:
            peer.add(_ENTRY.pack(_PART, 0, 0, PART_BYTES), [view[at : at + PART_BYTES]], PART_BYTES)
            at += PART_BYTES
        return view[at:]

    def _waiting(self, peer: _Peer) -> int:
        return peer.gathered_bytes + self._wire.calls_waiting(peer.node)

    def _end_turn_soon(self) -> None:
        if not self._turn_ends_soon:
            self._turn_ends_soon = True
            self._loop.call_soon(self._end_turn)

    def _end_turn(self) -> None:
        calls, self._at_turn_end = self._at_turn_end, []
        try:
            for call in calls:
                call()
        finally:
            self._turn_ends_soon = False
            self.work.turn_ended()
            self._speak()

    def _speak(self) -> None:
        speaking, self._speaking = self._speaking, {}
        for node, peer in speaking.items():
            for letter in peer.take_letters():
                if self._peers.get(node) is peer:  # too many end the link
                    self._wire.send_call(node, letter)


class _Peer:
    """Another node while there is a link to it."""

    __slots__ = (
        "asked",
        "full",
        "gathered",
        "gathered_bytes",
        "hearing",
        "inbox",
        "inbox_bytes",
        "letter_bytes",
        "node",
        "parts",
        "parts_bytes",
    )

    def __init__(self, node: NodeId) -> None:
        self.node = node
        self.asked: dict[int, OnAnswer] = {}  # by number, in this order
        self.gathered: list[list[Buffer]] = []  # letters of this turn, each in pieces; the last may get more
        self.gathered_bytes = 0
        self.letter_bytes = 0  # of the last one
        self.full = False  # more than HIGH_BYTES waited, and not yet so few as LOW_BYTES
        self.inbox: deque[bytes] = deque()  # letters that came, and were not begun to be heard
        self.inbox_bytes = 0  # of these and of the one that is being heard
        self.hearing: Steps | None = None
        self.parts: list[bytes] = []  # what has come of the payload that comes at the moment
        self.parts_bytes = 0

    def add(self, head: bytes, parts: Sequence[Buffer], size: int) -> None:
        """One entry."""
        size += len(head)
        if not self.gathered or self.letter_bytes + size > LETTER_BYTES:
            self.gathered.append([_LETTER_HEAD])
            self.letter_bytes = 0
        self.gathered[-1].append(head)
        self.gathered[-1].extend(parts)
        self.letter_bytes += size
        self.gathered_bytes += size

    def take_letters(self) -> list[bytes]:
        letters, self.gathered, self.gathered_bytes = self.gathered, [], 0
        return [b"".join(pieces) for pieces in letters]

    def take_payload(self) -> bytes:
        parts, self.parts, self.parts_bytes = self.parts, [], 0
        return parts[0] if len(parts) == 1 else b"".join(parts)


def entries(letter: bytes) -> Iterator[tuple[int, int, int, int, int]]:
    """Kind, topic and number of each, and where its payload begins and ends. Raises BadBytes while they are taken."""
    at, end = 1, len(letter)
    if not letter or letter[0] != CALLS:
        raise BadBytes(f"this is no letter of kind {CALLS}: {bytes(letter[:8])!r}")
    while at < end:
        if end - at < _ENTRY.size:
            raise BadBytes(f"an entry begins at {at}, and the letter ends at {end}")
        kind, topic, number, size = _ENTRY.unpack_from(letter, at)
        at += _ENTRY.size
        if not _ASK <= kind <= _NOT_SERVED:
            raise BadBytes(f"there is no entry of kind {kind}, as before {at}")
        if size > end - at:
            raise BadBytes(f"an entry of {size} bytes at {at}, and the letter ends at {end}")
        yield kind, topic, number, at, at + size
        at += size
