"""Direct reply-to between nodes: replies go to the node that the requester's name tells, at most once. Topic REPLIES of
node/peers/calls.py; little endian:

    reply        1 u8 | messages u32 | vhost_len u16 | vhost | name_len u16 | name | content                       told
    is there     2 u8 | vhost_len u16 | vhost | name_len u16 | name                  asked; answered 1 u8: yes, or 0: no

Replies to a node for which too much waits already are dropped: nobody promised them, and their number is up to clients.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Protocol

from broker.messages.message import Run
from broker.pending import Pending
from native.content import take
from node.peers.calls import REPLIES, Answer, PeerCalls
from raft.core.byte_reader import ByteReader, encode_text
from raft.core.errors import BadBytes
from raft.core.messages import NodeId

_REPLY, _IS_THERE = 1, 2
_HEAD = Struct("<BI")
_ALL_BYTES = 1 << 62


class Here(Protocol):
    """This node's requesters: broker/routing/reply_to.py."""

    def is_there(self, vhost: str, name: str) -> Pending[bool]: ...

    def deliver(self, vhost: str, run: Run, now: int) -> bool: ...


class RemoteReplies:
    """Both sides. Fulfils broker.routing.reply_to.Elsewhere; a place is a node's number."""

    def __init__(self, calls: PeerCalls, here: Here, wall_ms: Callable[[], int]) -> None:
        self._calls = calls
        self._here = here
        self._wall_ms = wall_ms
        calls.serve(REPLIES, self._hear)

    def deliver(self, place: str, vhost: str, run: Run) -> bool:
        node = node_at(place)
        if node is None or not self._calls.connected(node):
            return False
        if self._calls.writable(node):
            head = _HEAD.pack(_REPLY, run.count) + encode_text(vhost) + encode_text(run.routing_key)
            self._calls.tell(node, REPLIES, [head, run.content])
        return True

    def is_there(self, place: str, vhost: str, name: str) -> Pending[bool]:
        node = node_at(place)
        if node is None:
            return Pending.of(False)
        pending: Pending[bool] = Pending()
        asked = bytes((_IS_THERE,)) + encode_text(vhost) + encode_text(name)
        self._calls.ask(node, REPLIES, asked, lambda answer: pending.resolve(answer == b"\1"))
        return pending

    def _hear(self, node: NodeId, payload: bytes, answer: Answer | None) -> None:
        reader = ByteReader(payload)
        kind = reader.u8()
        if kind == _IS_THERE and answer is not None:
            vhost, name = reader.text(), reader.text()
            reader.must_end()
            self._here.is_there(vhost, name).then(lambda there: answer(bytes((there,))), lambda _: answer(b"\0"))
        elif kind == _REPLY and answer is None:
            count = reader.u32()
            vhost, name = reader.text(), reader.text()
            taken, end, body_bytes = take(payload, reader.at, count, _ALL_BYTES)
            if not count or taken != count or end != len(payload):
                raise BadBytes(f"{taken} replies end at {end}: not {count} that end at {len(payload)}")
            self._here.deliver(vhost, Run("", name, payload[reader.at :], count, body_bytes), self._wall_ms())
        else:
            raise BadBytes(f"{kind} is neither a reply nor asks for a requester")


def node_at(place: str) -> NodeId | None:
    return int(place) if place.isascii() and place.isdigit() and len(place) < 20 else None
