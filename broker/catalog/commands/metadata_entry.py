"""An entry of the metadata log: a command, who submitted it, and for whom.

Little endian:

    offset  size  field
         0     1  version      1, or from 2 on with time_ms and actor
         1     4  node         that submitted it
         5     8  incarnation  of its process
        13     8  number       of the command; grows with each that this process sends
        21     8  previous     the number of the one that it sent before this; 0: it is the first
        29     8  time_ms      from version 2 on: when it was submitted, since 1970 by the clock of the node
        37     4  actor        from version 2 on: for whom, as the log of the node names it (storage/history/name_records.py);
                               0: for the node itself, or for somebody whom it does not name
        29 or 41  the command, as broker/catalog/commands/catalog_commands.py writes it

Nothing depends on time and actor: they are for those who read the log later. Version 3 looks as 2: who reads it knows
exchanges of the types x-delayed-message and x-federation-upstream, and policies of mirroring, too, and none is declared
before all nodes do (broker/catalog/known_by_all.py). Version 4 looks as 2, too: who reads it knows how a queue is converted.
Version 5 looks as 2, too: who reads it knows queues that delay messages by their headers (x-delayed-messages). Version 6 looks
as 2, too: who reads it counts uses of queues, and deletes a queue for lack of use only if it knows of none since
(broker/catalog/parts/queue_uses.py).
Which version is written says node/catalog/entry_versions.py.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from broker.catalog.commands.catalog_commands import Command, UnknownVersion, decode_command

METADATA_GROUP = 1  # the Raft group whose log it is
ENTRY_OLDEST = 1
ENTRY_DELAYS = 3  # with it exchanges delay messages or lead to other clusters, and policies have queues mirrored
ENTRY_CONVERSIONS = 4  # with it classic queues become quorum queues
ENTRY_DELAYING_QUEUES = 5  # with it quorum queues delay messages by their headers
ENTRY_QUEUE_USES = 6  # with it a deletion for lack of use spares a queue that was used since
ENTRY_NEWEST = 6

_ENTRY = Struct("<BIQQQ")
_WHEN_AND_WHO = Struct("<QI")  # behind it, from version 2 on
ENTRY_HEAD_BYTES_MAX = _ENTRY.size + _WHEN_AND_WHO.size


class Origin(NamedTuple):
    """Who submitted a command, and where it stands among those of the same process."""

    node: int
    incarnation: int
    number: int
    previous: int


class WhenAndWho(NamedTuple):
    """What an entry says for those who read the log later."""

    time_ms: int
    actor: int  # 0: the node itself, or nobody that its log names


def encode_entry(origin: Origin, command: bytes, said: WhenAndWho | None = None, version: int = ENTRY_NEWEST) -> bytes:
    """Of this version if it says when and for whom, else of version 1."""
    if said is None:
        return _ENTRY.pack(ENTRY_OLDEST, *origin) + command
    return _ENTRY.pack(version, *origin) + _WHEN_AND_WHO.pack(*said) + command


def decode_entry(data: bytes) -> tuple[Origin, Command]:
    """Raises UnknownVersion."""
    origin, _, command = decode_whole(data)
    return origin, command


def version_of(data: bytes) -> int:
    return data[0] if data else 0


def head_bytes(data: bytes) -> int:
    """Where the command of this entry begins."""
    return _ENTRY.size + (_WHEN_AND_WHO.size if version_of(data) > ENTRY_OLDEST else 0)


def decode_whole(data: bytes) -> tuple[Origin, WhenAndWho | None, Command]:
    """Also what is there for readers of the log. Raises UnknownVersion."""
    version, command_at = version_of(data), head_bytes(data)
    if len(data) < command_at or not ENTRY_OLDEST <= version <= ENTRY_NEWEST:
        raise UnknownVersion(
            f"an entry of {len(data)} bytes and version {data[:1].hex() or 'missing'} of the metadata log, and versions "
            f"{ENTRY_OLDEST} to {ENTRY_NEWEST} are known"
        )
    _, *origin = _ENTRY.unpack_from(data)
    said = WhenAndWho(*_WHEN_AND_WHO.unpack_from(data, _ENTRY.size)) if version > ENTRY_OLDEST else None
    return Origin(*origin), said, decode_command(data[command_at:])
