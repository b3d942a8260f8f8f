"""The ops that another node's session may have an entry made of, checked before they are proposed.

Refused are ops that are cut off, that are the leader's own to say (such as a new version of the machine), that speak for
another node, or whose numbers and messages are not what they say. What becomes of them then is in replicated/peer_letters.py.

An op of a kind that is unknown here is let through, as long as it is whole: a later version says it to find out whether this
queue's machine knows it, and all machines that do not know it do nothing (quorum/fifo/versions.py). So is an outcome of SETTLE:
a machine that does not know it takes the messages back as never seen, and one that does has to do the same below the version
that brought it. Refused, it would be said again for ever, and the messages stay with their consumer.
"""

from __future__ import annotations

from native.content import take
from quorum.fifo.commands import (
    ENQUEUE_HEAD,
    ID_END,
    NUMBERED,
    OP_HEAD,
    RANGE,
    SETTLE_HEAD,
    TAG_BYTES_MAX,
    Cancel,
    CommandKind,
    Consume,
    Get,
    Origins,
    Purge,
    PurgeOnce,
    Tick,
    Who,
    Window,
    Withdraw,
    decode,
)
from raft.core.messages import NodeId
from replicated.peer_letters import RefusedProposal

SESSION_KINDS = frozenset(
    {
        CommandKind.CONSUME,
        CommandKind.CANCEL,
        CommandKind.GET,
        CommandKind.PURGE,
        CommandKind.PURGE_ONCE,
        CommandKind.WITHDRAW,
        CommandKind.TICK,
        CommandKind.WINDOW,
        CommandKind.WHO,
        CommandKind.ORIGINS,
    }
)
LEADER_KINDS = frozenset(
    {
        CommandKind.POLICY,
        CommandKind.NODE_DOWN,
        CommandKind.NODE_UP,
        CommandKind.SESSION_GONE,
        CommandKind.DEAD_SETTLED,
        CommandKind.UPGRADE,
    }
)
_ALL_BYTES = 1 << 62


def check(data: bytes, at: int, node: NodeId) -> None:
    """The ops from this offset on are whole, sound, and this node's to say. Raises RefusedProposal."""
    end = len(data)
    while at < end:
        if end - at < OP_HEAD.size:
            raise RefusedProposal(f"the op at {at} is cut off: {end - at} bytes")
        kind, size = OP_HEAD.unpack_from(data, at)
        op_end = at + OP_HEAD.size + size
        if op_end > end:
            raise RefusedProposal(f"the op at {at} has {size} bytes, and all ends at {end}")
        if kind == CommandKind.ENQUEUE:
            _check_enqueue(data, at, op_end, node)
        elif kind == CommandKind.SETTLE:
            _check_settle(data, at, op_end, node)
        elif kind in LEADER_KINDS:
            raise RefusedProposal(f"{CommandKind(kind).name} is not for other nodes to say")
        elif kind in SESSION_KINDS:
            _check_other(data, at, node)
        at = op_end


def _check_enqueue(data: bytes, at: int, end: int, node: NodeId) -> None:
    if end - at < ENQUEUE_HEAD.size:
        raise RefusedProposal(f"the ENQUEUE at {at} is cut off: {end - at} bytes")
    (
        _, _, who, _, sequence, answered, count, body_bytes, _, flags, _, exchange_len, key_len
    ) = ENQUEUE_HEAD.unpack_from(data, at)  # fmt: skip
    _must_speak_for_itself(who, node)
    if not count or not 0 < sequence <= ID_END - count or answered > sequence:
        raise RefusedProposal(f"an ENQUEUE of {count} messages from {sequence} on, answered below {answered}")
    content = at + ENQUEUE_HEAD.size + exchange_len + key_len
    try:
        if flags & NUMBERED:
            producer = decode(data, at)
            content = producer.content[0]  # type: ignore[union-attr]  # it is an ENQUEUE
        taken, position, found = take(data, content, count, _ALL_BYTES)
    except ValueError as error:
        raise RefusedProposal(f"the ENQUEUE at {at}: {error}") from error
    if (taken, position, found) != (count, end, body_bytes):
        raise RefusedProposal(
            f"an ENQUEUE says {count} messages with {body_bytes} bytes that end at {end}, and has {taken} with {found} "
            f"that end at {position}"
        )


def _check_settle(data: bytes, at: int, end: int, node: NodeId) -> None:
    start = at + SETTLE_HEAD.size
    if end < start or (end - start) % RANGE.size:
        raise RefusedProposal(f"the SETTLE at {at} has {end - at} bytes: its ranges are cut off")
    _, _, who, *_ = SETTLE_HEAD.unpack_from(data, at)
    _must_speak_for_itself(who, node)
    for first, length in RANGE.iter_unpack(memoryview(data)[start:end]):
        if first + length > ID_END:
            raise RefusedProposal(f"a SETTLE of {length} messages from {first} on")


def _check_other(data: bytes, at: int, node: NodeId) -> None:
    try:
        op = decode(data, at)
    except ValueError as error:
        raise RefusedProposal(f"the op at {at}: {error}") from error
    match op:
        case Consume(consumer, tag):
            _must_speak_for_itself(consumer.node, node)
            if len(tag.encode("utf-8", "surrogateescape")) > TAG_BYTES_MAX:
                raise RefusedProposal(f"a CONSUME with a tag of {len(tag)} characters, {TAG_BYTES_MAX} bytes are kept")
        case (
            Cancel(consumer)
            | Get(consumer)
            | PurgeOnce(consumer)
            | Withdraw(consumer)
            | Window(consumer)
            | Who(consumer)
        ):
            _must_speak_for_itself(consumer.node, node)
        case Purge() | Tick() | Origins():
            pass  # they say nothing beside themselves


def _must_speak_for_itself(who: NodeId, node: NodeId) -> None:
    if who != node:
        raise RefusedProposal(f"node {node} speaks for a session of node {who}")
