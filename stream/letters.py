"""The letter between nodes that only streams have. Those of every replicated queue, and the head of all, are in
replicated/letters.py. Little endian:

    kind  name       what follows the head
       3  END        nothing. An ask of the leader's node; answered by: status u8 | leader node u32 | if that is DONE,
                     index u64 of the last entry that is applied there
"""

from __future__ import annotations

import struct
from enum import IntEnum
from struct import Struct

from replicated.letters import STATUS, AnswerStatus, BadLetter, decode_answer, head
from storage.disk import Buffer


class StreamLetter(IntEnum):
    """See the module."""

    END = 3


_INDEX = Struct("<Q")


def end(group: int) -> bytes:
    return head(StreamLetter.END, group)


def end_answer(leader: int, index: int) -> bytes:
    return STATUS.pack(AnswerStatus.DONE, leader) + _INDEX.pack(index)


def decode_end_answer(answer: Buffer) -> int | None:
    """None: the node does not know it. Raises BadLetter."""
    if decode_answer(bytes(answer)).status is not AnswerStatus.DONE:
        return None
    try:
        index: int = _INDEX.unpack_from(answer, STATUS.size)[0]
    except struct.error as error:
        raise BadLetter(f"an answer to END of {len(answer)} bytes: {error}") from error
    return index
