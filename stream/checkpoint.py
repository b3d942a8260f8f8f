"""What the first frame of a segment says: where the log stands at this place, and the machine's state there.

Little endian:

    offset  size  field
         0     1  flags             1: the log begins here, what older segments there may be does not count
         1     8  first_offset      of the message that will be stored next
         9     8  time              ms since 1970: of the entry before
        17     8  previous_end      bytes of the segment before, all of which were fsynced; 0 if there is none
        25     8  membership_index  of the entry from which on the membership is in force
        33     4  machine_version
        37        membership        in force (raft/core/codec.py)
                  state             of the machine, to the end

Its index and term, those of the last entry before the segment, stand in its frame. Nobody needs a log before its first
checkpoint, so retention removes whole segments and leaves a log that begins with one.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from raft.core.byte_reader import ByteReader, encode_membership
from raft.core.messages import Membership
from storage.disk import Buffer
from stream.framing import CHECKPOINT_KIND, FrameHeader, seal_frame

BEGINS_LOG = 1

_FIELDS = Struct("<BQqQQI")


class Checkpoint(NamedTuple):
    """Where the log and the machine stand behind the last entry."""

    last_index: int
    last_term: int
    first_offset: int
    time_ms: int
    membership_index: int
    membership: Membership
    machine_version: int
    state: Buffer
    previous_end: int = 0
    begins_log: bool = True


def seal_checkpoint(checkpoint: Checkpoint, segment: int) -> bytes:
    """The first frame of a segment."""
    payload = encode_checkpoint(checkpoint)
    return seal_frame(CHECKPOINT_KIND, checkpoint.last_term, checkpoint.last_index, segment, 0, payload, 0) + payload


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    fields = _FIELDS.pack(
        BEGINS_LOG if checkpoint.begins_log else 0,
        checkpoint.first_offset,
        checkpoint.time_ms,
        checkpoint.previous_end,
        checkpoint.membership_index,
        checkpoint.machine_version,
    )
    return b"".join((fields, encode_membership(checkpoint.membership), checkpoint.state))


def decode_checkpoint(header: FrameHeader, payload: bytes) -> Checkpoint:
    """Raises BadBytes."""
    reader = ByteReader(payload)
    flags, first_offset, time_ms, previous_end, membership_index, machine_version = reader.fields(_FIELDS)
    membership = reader.membership()
    return Checkpoint(
        header.entry_index,
        header.term,
        first_offset,
        time_ms,
        membership_index,
        membership,
        machine_version,
        payload[reader.at :],
        previous_end,
        bool(flags & BEGINS_LOG),
    )
