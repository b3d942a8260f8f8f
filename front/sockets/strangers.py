"""What the first bytes of a client look like that speaks another protocol, for the log."""

from __future__ import annotations


def protocol_named(head: bytes) -> str:
    if head[:4] == b"AMQP":
        return f"AMQP {' '.join(str(number) for number in head[4:])}"
    if head[:2] == b"\x16\x03":
        return "a TLS hello on a plain port"
    if head[:4] in (b"GET ", b"POST", b"HEAD", b"PUT "):
        return "HTTP"
    return repr(head)
