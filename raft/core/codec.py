"""The bytes of what members say to each other. Little endian; a batch holds the messages of one group, and batches follow one
another in what is sent to a node:

    offset size field                                 a message: kind u8, then to u64 | sender u64 | term u32, then
         0    1 version   2; 1 knew the kinds to 8    1 VoteRequest    last_index u64 | last_term u32 | pre u8 | transfer u8
         1    4 length    of all that follows         2 VoteReply      granted u8 | pre u8
         5    8 group                                 3 Append         prev_index u64 | prev_term u32 | commit u64 |
        13    4 count     of messages                                  read_round u64 | packs u32 | packs
        17      messages                              4 AppendReply    accepted u8 | index u64 | commit u64 | rejected u64 |
                                                                       hint_term u32 | read_round u64
                                                      5 SnapshotChunk  meta | offset u64 | last u8 | size u32 | data
                                                      6 SnapshotReply  index u64 | next_offset u64 | installed u8
                                                      7 TransferNow
                                                      8 Replaced       old u64
                                                      9 LeaderCheck
                                                     10 LeaderLookup
                                                     11 NotLeading
                                                     12 TransferDeclined
                                                     13 MatchCheck     index u64 | index_term u32

    pack         term u32 | kind u8 | size u32 | the bytes of raft/core/packs.py; the first entry is at prev_index + 1
    meta         index u64 | term u32 | machine_version u32 | membership
    membership   voters u16 | learners u16 | promotable u16 | as many members u64, each of the three ascending

Whatever the bytes are, decoding returns messages or raises BadBytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from struct import Struct

from raft.core import packs
from raft.core.byte_reader import ByteReader, encode_membership
from raft.core.errors import BadBytes
from raft.core.messages import (
    Append,
    AppendReply,
    Entry,
    EntryKind,
    EntryRun,
    LeaderCheck,
    LeaderLookup,
    MatchCheck,
    Message,
    NotLeading,
    Pack,
    Replaced,
    SnapshotChunk,
    SnapshotMeta,
    SnapshotReply,
    TransferDeclined,
    TransferNow,
    VoteReply,
    VoteRequest,
)
from storage.disk import Buffer

VERSION = 2

_BATCH = Struct("<BIQI")
_VERSION_AND_LENGTH = 5
_HEAD = Struct("<BQQI")
_VOTE_REQUEST = Struct("<QIBB")
_VOTE_REPLY = Struct("<BB")
_APPEND = Struct("<QIQQI")
_PACK = Struct("<IBI")
_APPEND_REPLY = Struct("<BQQQIQ")
_CHUNK = Struct("<QBI")
_SNAPSHOT_REPLY = Struct("<QQB")
_META = Struct("<QII")
_OLD = Struct("<Q")
_MATCH_CHECK = Struct("<QI")

# Whole batches of one message: an AppendReply, and an Append with one entry, up to its data.
_LONE_REPLY = Struct(_BATCH.format + _HEAD.format[1:] + _APPEND_REPLY.format[1:])
_LONE_APPEND = Struct(_BATCH.format + _HEAD.format[1:] + _APPEND.format[1:] + _PACK.format[1:] + "II")
_LONE_DATA_BYTES_MAX = packs.PACK_BYTES_MAX - packs.ONE_HEAD_BYTES
_APPEND_KIND, _APPEND_REPLY_KIND = 3, 4

_ENTRY_KINDS = frozenset(EntryKind)


def encode_batch(group: int, messages: Sequence[Message]) -> bytes:
    """Messages of one group. May be joined with others."""
    return b"".join(batch_parts(group, messages)[0])


def batch_parts(group: int, messages: Sequence[Message]) -> tuple[list[Buffer], int]:
    """The same in parts, and their size: entries, which may be large, are copied once, by whoever joins these to a letter."""
    parts: list[Buffer] = [b""]
    for one in messages:
        parts.append(_HEAD.pack(_KINDS[type(one)], one.to, one.sender, one.term))
        if type(one) is Append:
            _add_append(parts, one)
        else:
            parts.append(_body(one))
    size = _BATCH.size + sum(map(len, parts))
    parts[0] = _BATCH.pack(VERSION, size - _VERSION_AND_LENGTH, group, len(messages))
    return parts, size


def decode_batch(data: Buffer) -> tuple[int, list[Message]]:
    """Exactly one batch: the group and its messages. Raises BadBytes."""
    batches = list(decode_batches(data))
    if len(batches) != 1:
        raise BadBytes(f"there are {len(batches)} batches, not one")
    return batches[0]


def encode_lone(group: int, message: Message) -> tuple[bytes, ...] | None:
    """The batch of one message that `_lone` reads, as few parts as it has; None: the message is another one."""
    if type(message) is AppendReply:
        return (
            _LONE_REPLY.pack(
                VERSION, _LONE_REPLY.size - _VERSION_AND_LENGTH, group, 1, _APPEND_REPLY_KIND,
                message.to, message.sender, message.term, message.accepted, message.index, message.commit,
                message.rejected, message.hint_term, message.read_round,
            ),
        )  # fmt: skip
    if type(message) is not Append or len(message.entries) != 1:
        return None
    (entry,) = message.entries
    size = len(entry.data)
    if size > _LONE_DATA_BYTES_MAX:
        return None
    assert entry.index == message.prev_index + 1, f"entry {entry.index} behind {message.prev_index}"
    head = _LONE_APPEND.pack(
        VERSION, _LONE_APPEND.size - _VERSION_AND_LENGTH + size, group, 1, _APPEND_KIND,
        message.to, message.sender, message.term, message.prev_index, message.prev_term, message.commit,
        message.read_round, 1, entry.term, entry.kind, packs.ONE_HEAD_BYTES + size, 1, size,
    )  # fmt: skip
    return head, entry.data


def decode_batches(data: Buffer, at: int = 0) -> Iterable[tuple[int, list[Message]]]:
    """Batches that follow one another, from there on. Raises BadBytes at the first that is none; those before it were given."""
    lone = _lone(data, at)
    return (lone,) if lone is not None else _batches(data, at)


def _batches(data: Buffer, at: int) -> Iterator[tuple[int, list[Message]]]:
    while at < len(data):
        reader = ByteReader(data, at)
        version, length, group, count = reader.fields(_BATCH)
        if version != VERSION:
            raise BadBytes(f"messages of version {version} are unknown here, {VERSION} is the newest: update this node")
        at += _VERSION_AND_LENGTH + length
        if at > len(data) or at < reader.at:
            raise BadBytes(f"a batch of {length} bytes does not fit its buffer")
        reader.end = at
        if count > length // _HEAD.size:
            raise BadBytes(f"a batch of {length} bytes cannot hold {count} messages")
        messages = [_message(reader) for _ in range(count)]
        reader.must_end()
        yield group, messages


def _lone(data: Buffer, at: int) -> tuple[int, list[Message]] | None:
    """The only batch from there on, if all that it holds is an AppendReply or an Append with one small entry. That is what a
    command alone has nodes say, and reading it by fields takes three times as many steps. None: it may be anything else."""
    size = len(data) - at
    if size == _LONE_REPLY.size:
        return _lone_reply(data, at)
    if 0 <= size - _LONE_APPEND.size <= _LONE_DATA_BYTES_MAX:
        return _lone_append(data, at, size - _LONE_APPEND.size)
    return None


def _lone_reply(data: Buffer, at: int) -> tuple[int, list[Message]] | None:
    (
        version, length, group, count, kind, to, sender, term, accepted, index, commit, rejected, hint_term, read_round
    ) = _LONE_REPLY.unpack_from(data, at)  # fmt: skip
    if version != VERSION or length != _LONE_REPLY.size - _VERSION_AND_LENGTH or count != 1:
        return None
    if kind != _APPEND_REPLY_KIND or accepted > 1:
        return None
    return group, [AppendReply(to, sender, term, accepted == 1, index, commit, rejected, hint_term, read_round)]


def _lone_append(data: Buffer, at: int, size: int) -> tuple[int, list[Message]] | None:
    (
        version, length, group, count, message_kind, to, sender, term, prev_index, prev_term, commit, read_round,
        pack_count, entry_term, kind, pack_size, entry_count, entry_size,
    ) = _LONE_APPEND.unpack_from(data, at)  # fmt: skip
    if version != VERSION or length != _LONE_APPEND.size - _VERSION_AND_LENGTH + size or count != 1:
        return None
    if message_kind != _APPEND_KIND or pack_count != 1 or entry_count != 1:
        return None
    if entry_size != size or pack_size != packs.ONE_HEAD_BYTES + size:
        return None
    index = prev_index + 1
    if kind not in _ENTRY_KINDS or index >= 1 << 64:
        return None
    content = bytes(data[at + _LONE_APPEND.size :])
    entries = EntryRun((Entry(index, entry_term, kind, content),))
    entries.packs = (packs.of_one(index, entry_term, kind, content),)
    return group, [Append(to, sender, term, prev_index, prev_term, commit, entries, read_round)]


def encode_meta(meta: SnapshotMeta) -> bytes:
    return _META.pack(meta.index, meta.term, meta.machine_version) + encode_membership(meta.membership)


def read_meta(reader: ByteReader) -> SnapshotMeta:
    index, term, machine_version = reader.fields(_META)
    return SnapshotMeta(index, term, reader.membership(), machine_version)


def _body(message: Message) -> bytes:
    match message:
        case AppendReply(accepted=accepted, index=index, commit=commit, rejected=rejected):
            return _APPEND_REPLY.pack(accepted, index, commit, rejected, message.hint_term, message.read_round)
        case VoteRequest(last_index=last_index, last_term=last_term):
            return _VOTE_REQUEST.pack(last_index, last_term, message.pre, message.transfer)
        case VoteReply(granted=granted, pre=pre):
            return _VOTE_REPLY.pack(granted, pre)
        case SnapshotChunk(meta=meta, offset=offset, data=data, last=last):
            return b"".join([encode_meta(meta), _CHUNK.pack(offset, last, len(data)), data])
        case SnapshotReply(index=index, next_offset=next_offset, installed=installed):
            return _SNAPSHOT_REPLY.pack(index, next_offset, installed)
        case Replaced(old=old):
            return _OLD.pack(old)
        case MatchCheck(index=index, index_term=index_term):
            return _MATCH_CHECK.pack(index, index_term)
        case TransferNow() | TransferDeclined() | LeaderCheck() | LeaderLookup() | NotLeading():
            return b""
        case Append():
            raise AssertionError("is encoded in parts")


def _add_append(parts: list[Buffer], message: Append) -> None:
    entries = message.entries
    if entries:
        expected = message.prev_index + 1
        assert entries[0].index == expected, f"entries from {entries[0].index} behind {message.prev_index}"
        assert entries[-1].index == message.prev_index + len(entries), f"{len(entries)} entries are not consecutive"
    encoded = packs.packs_of(entries)
    parts.append(_APPEND.pack(message.prev_index, message.prev_term, message.commit, message.read_round, len(encoded)))
    for one in encoded:
        parts.append(_PACK.pack(one.term, one.kind, one.size))
        parts += one.parts


def _message(reader: ByteReader) -> Message:
    kind, to, sender, term = reader.fields(_HEAD)
    read = _READERS.get(kind)
    if read is None:
        raise BadBytes(f"there is no message of kind {kind}")
    return read(reader, to, sender, term)


def _read_vote_request(reader: ByteReader, to: int, sender: int, term: int) -> VoteRequest:
    last_index, last_term, pre, transfer = reader.fields(_VOTE_REQUEST)
    return VoteRequest(to, sender, term, last_index, last_term, _yes(pre), _yes(transfer))


def _read_vote_reply(reader: ByteReader, to: int, sender: int, term: int) -> VoteReply:
    granted, pre = reader.fields(_VOTE_REPLY)
    return VoteReply(to, sender, term, _yes(granted), _yes(pre))


def _read_append(reader: ByteReader, to: int, sender: int, term: int) -> Append:
    prev_index, prev_term, commit, read_round, count = reader.fields(_APPEND)
    entries = _read_entries(reader, prev_index, count) if count else ()
    return Append(to, sender, term, prev_index, prev_term, commit, entries, read_round)


def _read_entries(reader: ByteReader, prev_index: int, count: int) -> EntryRun:
    entries: list[Entry] = []
    received = []
    for _ in range(count):
        pack_term, kind, size = reader.fields(_PACK)
        if kind not in _ENTRY_KINDS:
            raise BadBytes(f"there is no entry of kind {kind}")
        first = prev_index + 1 + len(entries)
        # Nothing may refer to the letter, which is overwritten. A large pack is a single entry: all that is copied of it.
        data: Buffer = reader.view(size) if size > packs.PACK_BYTES_MAX else reader.take(size)
        new = packs.decode(first, pack_term, kind, data)
        received.append(_received(Pack(first, pack_term, kind, len(new), (data,), size), new))
        entries += new
    if prev_index + len(entries) >= 1 << 64:
        raise BadBytes(f"{len(entries)} entries behind {prev_index} are more than a log holds")
    run = EntryRun(entries)
    run.packs = received
    return run


def _received(pack: Pack, entries: Sequence[Entry]) -> Pack:
    (data,) = pack.parts
    if type(data) is bytes:
        return pack
    if len(entries) == 1:
        return packs.of_one(pack.first, pack.term, pack.kind, entries[0].data)
    return pack._replace(parts=(bytes(data),))


def _read_append_reply(reader: ByteReader, to: int, sender: int, term: int) -> AppendReply:
    accepted, index, commit, rejected, hint_term, read_round = reader.fields(_APPEND_REPLY)
    return AppendReply(to, sender, term, _yes(accepted), index, commit, rejected, hint_term, read_round)


def _read_chunk(reader: ByteReader, to: int, sender: int, term: int) -> SnapshotChunk:
    meta = read_meta(reader)
    offset, last, size = reader.fields(_CHUNK)
    return SnapshotChunk(to, sender, term, meta, offset, reader.take(size), _yes(last))


def _read_snapshot_reply(reader: ByteReader, to: int, sender: int, term: int) -> SnapshotReply:
    index, next_offset, installed = reader.fields(_SNAPSHOT_REPLY)
    return SnapshotReply(to, sender, term, index, next_offset, _yes(installed))


def _without_fields(message: Callable[[int, int, int], Message]) -> Callable[[ByteReader, int, int, int], Message]:
    return lambda reader, to, sender, term: message(to, sender, term)


def _read_replaced(reader: ByteReader, to: int, sender: int, term: int) -> Replaced:
    return Replaced(to, sender, term, reader.fields(_OLD)[0])


def _read_match_check(reader: ByteReader, to: int, sender: int, term: int) -> MatchCheck:
    index, index_term = reader.fields(_MATCH_CHECK)
    return MatchCheck(to, sender, term, index, index_term)


def _yes(value: int) -> bool:
    if value > 1:
        raise BadBytes(f"yes or no is {value}")
    return value == 1


_KINDS: dict[type[Message], int] = {
    VoteRequest: 1,
    VoteReply: 2,
    Append: _APPEND_KIND,
    AppendReply: _APPEND_REPLY_KIND,
    SnapshotChunk: 5,
    SnapshotReply: 6,
    TransferNow: 7,
    Replaced: 8,
    LeaderCheck: 9,
    LeaderLookup: 10,
    NotLeading: 11,
    TransferDeclined: 12,
    MatchCheck: 13,
}
_READERS: dict[int, Callable[[ByteReader, int, int, int], Message]] = {
    1: _read_vote_request,
    2: _read_vote_reply,
    _APPEND_KIND: _read_append,
    _APPEND_REPLY_KIND: _read_append_reply,
    5: _read_chunk,
    6: _read_snapshot_reply,
    7: _without_fields(TransferNow),
    8: _read_replaced,
    9: _without_fields(LeaderCheck),
    10: _without_fields(LeaderLookup),
    11: _without_fields(NotLeading),
    12: _without_fields(TransferDeclined),
    13: _read_match_check,
}
