"""Groups of single active consumers whose clients are connected to several nodes: what these say to the node that decides.
Topic GROUPS of node/peers/calls.py; little endian, `text` is its size u16 and UTF-8:

    announce     1 u8 | key | part                                  asked; answered: decides u8, 0 or 1 | if it has something
                                                                    for the asker: consumer u64 | active u8
    what have    2 u8 | key                                         asked; answered: part
    look         3 u8 | key                                         told
    key          vhost text | stream text | name of the group text
    part         partition i32 | count u32 | for each consumer: number u64 | came at i64, wall-clock ms | flags u8: 1 its client
                 knows that it is subscribed, 2 was told that it is active, 4 has answered to what it was told
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from struct import Struct
from typing import Any

from broker.records import NodeRecord
from broker.stream_clients.consumer_groups import GroupAnswer, GroupConsumer, GroupKey, GroupPart, GroupStep
from broker.stream_clients.node_groups import NodeGroups
from node.peers.calls import GROUPS, Answer, PeerCalls
from raft.core.byte_reader import ByteReader, encode_text
from raft.core.errors import BadBytes
from raft.core.messages import NodeId

_ANNOUNCE, _WHAT_HAVE, _LOOK = 1, 2, 3
_PART = Struct("<iI")
_CONSUMER = Struct("<QqB")
_STEP = Struct("<QB")
_STARTED, _TOLD_ACTIVE, _ANSWERS = 1, 2, 4


class RemoteGroups:
    """Both sides. Fulfils broker.stream_clients.consumer_groups.GroupsElsewhere."""

    def __init__(
        self, calls: PeerCalls, here: NodeGroups, me: str, nodes: Callable[[], Mapping[str, NodeRecord]]
    ) -> None:
        """`nodes`: of the cluster, by name."""
        self._calls = calls
        self._here = here
        self._me = me
        self._nodes = nodes
        calls.serve(GROUPS, self._hear)
        calls.on_link(self._link_changed)

    def nodes(self) -> Sequence[str]:
        return [name for name, one in self._nodes().items() if name != self._me and self._calls.connected(one.number)]

    def announce(self, node: str, part: GroupPart, on_answer: Callable[[GroupAnswer | None], None]) -> None:
        payload = bytes((_ANNOUNCE,)) + _key(part.key) + _part(part)
        self._ask(node, payload, lambda data: on_answer(_read(_read_answer, data)))

    def ask_part(self, node: str, key: GroupKey, on_answer: Callable[[GroupPart | None], None]) -> None:
        def read_part(reader: ByteReader) -> GroupPart:
            return _read_part(key, reader)

        self._ask(node, bytes((_WHAT_HAVE,)) + _key(key), lambda data: on_answer(_read(read_part, data)))

    def look(self, node: str, key: GroupKey) -> None:
        found = self._nodes().get(node)
        if found is not None:
            self._calls.tell(found.number, GROUPS, bytes((_LOOK,)) + _key(key))

    def _ask(self, node: str, payload: bytes, on_answer: Callable[[bytes | None], None]) -> None:
        """A node that the catalog does not know has no link either."""
        found = self._nodes().get(node)
        self._calls.ask(found.number if found is not None else 0, GROUPS, payload, on_answer)

    def _hear(self, node: NodeId, payload: bytes, answer: Answer | None) -> None:
        reader = ByteReader(payload)
        kind = reader.u8()
        key = GroupKey(reader.text(), reader.text(), reader.text())
        name = self._name_of(node)
        if kind == _ANNOUNCE and answer is not None:
            answer(_answer(self._here.announced(name, _read_part(key, reader))))
        elif kind == _WHAT_HAVE and answer is not None:
            reader.must_end()
            answer(_part(self._here.part_of(key, name)))
        elif kind == _LOOK and answer is None:
            reader.must_end()
            self._here.look(key)
        else:
            raise BadBytes(f"{kind} says nothing about a group of consumers")

    def _link_changed(self, node: NodeId, came: bool) -> None:
        if not came:
            self._here.link_went(self._name_of(node))

    def _name_of(self, node: NodeId) -> str:
        """A node that has just been removed may still say something."""
        return next((name for name, one in self._nodes().items() if one.number == node), str(node))


def _key(key: GroupKey) -> bytes:
    return b"".join(map(encode_text, key))


def _part(part: GroupPart) -> bytes:
    consumers = [_CONSUMER.pack(one.number, one.came_at, _flags(one)) for one in part.consumers]
    return _PART.pack(part.partition_index, len(consumers)) + b"".join(consumers)


def _flags(one: GroupConsumer) -> int:
    return _STARTED * one.started | _TOLD_ACTIVE * one.told_active | _ANSWERS * one.answers


def _read_part(key: GroupKey, reader: ByteReader) -> GroupPart:
    partition_index, count = reader.fields(_PART)
    left = reader.end - reader.at
    if left != count * _CONSUMER.size:
        raise BadBytes(f"{count} consumers in {left} bytes")
    return GroupPart(key, partition_index, tuple([_consumer(*reader.fields(_CONSUMER)) for _ in range(count)]))


def _consumer(number: int, came_at: int, flags: int) -> GroupConsumer:
    return GroupConsumer(number, came_at, bool(flags & _STARTED), bool(flags & _TOLD_ACTIVE), bool(flags & _ANSWERS))


def _answer(answer: GroupAnswer) -> bytes:
    return bytes((answer.coordinates,)) + (b"" if answer.step is None else _STEP.pack(*answer.step))


def _read_answer(reader: ByteReader) -> GroupAnswer:
    decides = reader.flag()
    if reader.at == reader.end:
        return GroupAnswer(decides)
    number, active = reader.fields(_STEP)
    reader.must_end()
    return GroupAnswer(decides, GroupStep(number, bool(active)))


def _read(read: Callable[[ByteReader], Any], data: bytes | None) -> Any:
    """None: there is no answer, or one of another version."""
    if data is None:
        return None
    try:
        return read(ByteReader(data))
    except BadBytes:
        return None
