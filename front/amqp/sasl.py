"""What a client says in connection.start-ok to prove who it is. Deciding whether to believe it is the broker's.

PLAIN      authorization id NUL user NUL password
AMQPLAIN   the fields of a table without its size: LOGIN, PASSWORD
ANONYMOUS  nothing that counts: the configuration names the user and the password that stand for everybody
EXTERNAL   nothing: the TLS certificate has said it
"""

from __future__ import annotations

import struct

from front.sockets.plain_login import Credentials, MalformedResponse, check_size, plain
from wire.amqp.tables import TableError, decode_table


def mechanisms(tls_user: str | None, anonymous: Credentials | None) -> list[str]:
    """What connection.start offers. EXTERNAL needs a certificate that names a user."""
    offered = ["PLAIN", "AMQPLAIN"]
    if anonymous is not None:
        offered.append("ANONYMOUS")
    if tls_user is not None:
        offered.append("EXTERNAL")
    return offered


def amqplain(response: bytes) -> Credentials:
    try:
        table, _ = decode_table(struct.pack(">I", len(response)) + response)
    except TableError:
        raise MalformedResponse("an AMQPLAIN response is a table, this one does not parse") from None
    user, password = table.get("LOGIN"), table.get("PASSWORD")
    if not isinstance(user, str) or not isinstance(password, (str, bytes)):
        raise MalformedResponse("an AMQPLAIN response has the strings LOGIN and PASSWORD")
    return Credentials(user, password.encode() if isinstance(password, str) else password)


def credentials(mechanism: str, response: bytes) -> Credentials:
    """User and password of PLAIN or AMQPLAIN."""
    check_size(response)
    return plain(response) if mechanism == "PLAIN" else amqplain(response)
