"""What is said to a client when something was wrong: how an error (broker/reply_codes.py) ends its channel or its connection.

A soft error closes the channel it happened on, a hard one the connection.
"""

from __future__ import annotations

from typing import NamedTuple

from broker.errors import BrokerError
from broker.reply_codes import code_of, reply_text

SOFT = frozenset({403, 404, 405, 406})


class ProtocolError(Exception):
    """Raised when what a client sent breaks the protocol itself: always the end of its connection."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


class Reply(NamedTuple):
    """What goes into channel.close or connection.close."""

    code: int
    text: str
    hard: bool  # True: the connection ends, not only the channel
    class_id: int = 0  # the method that failed; 0.0 when it was none
    method_id: int = 0


def reply_to(error: BrokerError | ProtocolError, class_id: int = 0, method_id: int = 0) -> Reply:
    if isinstance(error, ProtocolError):
        return Reply(error.code, reply_text(error.code, error.text), True, class_id, method_id)
    code = code_of(error)
    return Reply(code, reply_text(code, error.text), code not in SOFT, class_id, method_id)
