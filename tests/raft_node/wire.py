"""What clients and the register service say to each other: lists of requests and lists of answers, as MessagePack."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import msgspec

SERVICE = "leveret.test.Register"
EXECUTE = "Execute"  # a stream of requests, and one of answers, in any order
CALL = "Call"  # one question to the node itself: [name, arguments]

COMMAND = 0  # payload: a command of tests/raft_node/register.py
READ = 1  # payload: a key


class Said(IntEnum):
    """What became of a request. After UNKNOWN it may be applied or not; after all others but OK it never will be."""

    OK = 0
    NOT_LEADER = 1
    BUSY = 2
    UNKNOWN = 3
    NO_GROUP = 5


Request = tuple[int, int, int, bytes]  # id, group, COMMAND or READ, payload
Answer = tuple[int, int, Any]  # id, Said, the outcome or what was found; for NOT_LEADER the leader's node, 0: unknown

encode = msgspec.msgpack.Encoder().encode
decode_requests = msgspec.msgpack.Decoder(list[Request]).decode
decode_answers = msgspec.msgpack.Decoder(list[Answer]).decode
decode = msgspec.msgpack.Decoder().decode
