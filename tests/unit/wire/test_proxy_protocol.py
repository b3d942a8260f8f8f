"""PROXY headers, whole and in pieces."""

from __future__ import annotations

import socket
import struct

import pytest

from wire.proxy_protocol import HEADER_BYTES_MAX, MalformedProxyHeader, read_proxy_header

V1 = b"PROXY TCP4 203.0.113.9 192.0.2.1 41000 5672\r\n"
SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"


def v2(command: int, family: int, body: bytes) -> bytes:
    return SIGNATURE + struct.pack(">BBH", command, family, len(body)) + body


IPV4 = v2(0x21, 0x11, bytes([203, 0, 113, 9, 192, 0, 2, 1]) + struct.pack(">HH", 41000, 5672))
IPV6 = v2(
    0x21,
    0x21,
    socket.inet_pton(socket.AF_INET6, "2001:db8::9")
    + socket.inet_pton(socket.AF_INET6, "2001:db8::1")
    + struct.pack(">HH", 41000, 5672)
    + b"\x04\x00\x03ext",
)


@pytest.mark.parametrize(
    ("header", "source", "target"),
    [
        (V1, ("203.0.113.9", 41000), ("192.0.2.1", 5672)),
        (b"PROXY TCP6 2001:db8::9 2001:db8::1 41000 5672\r\n", ("2001:db8::9", 41000), ("2001:db8::1", 5672)),
        (b"PROXY TCP4 203.0.113.9 192.0.2.1 65535 5672\r\n", ("203.0.113.9", 65535), ("192.0.2.1", 5672)),
        (b"PROXY UNKNOWN\r\n", None, None),
        (b"PROXY UNKNOWN whatever it says\r\n", None, None),
        (IPV4, ("203.0.113.9", 41000), ("192.0.2.1", 5672)),
        (IPV6, ("2001:db8::9", 41000), ("2001:db8::1", 5672)),
        (v2(0x20, 0x00, b""), None, None),
        (v2(0x20, 0x11, IPV4[-12:]), None, None),
        (v2(0x21, 0x31, bytes(216)), None, None),
    ],
)
def test_headers_name_the_client(header: bytes, source: tuple[str, int] | None, target: tuple[str, int] | None) -> None:
    assert read_proxy_header(header + b"AMQP") == (len(header), source, target)
    for end in range(len(header)):
        assert read_proxy_header(header[:end]) is None, f"{end} bytes are no whole header"


@pytest.mark.parametrize(
    "data",
    [
        b"AMQP\x00\x00\x09\x01",
        b"PROXY TCP4 203.0.113.9\r\n",
        b"PROXY TCP4 203.0.113.999 192.0.2.1 41000 5672\r\n",
        b"PROXY TCP4 203.0.113.9 192.0.2.1 65536 5672\r\n",
        b"PROXY TCP4 203.0.113.9 192.0.2.1 -1 5672\r\n",
        b"PROXY HTTP a b c d\r\n",
        b"PROXY " + b"x" * 200,
        v2(0x31, 0x11, bytes(12)),
        v2(0x21, 0x11, bytes(8)),
        SIGNATURE + struct.pack(">BBH", 0x21, 0x11, HEADER_BYTES_MAX),
    ],
)
def test_anything_else_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedProxyHeader):
        read_proxy_header(data)
