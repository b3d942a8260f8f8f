"""The header that a load balancer puts before a connection's bytes to say who the client really is (PROXY v1 and v2).

    v1    "PROXY TCP4|TCP6 source target source-port target-port CR LF", or "PROXY UNKNOWN ... CR LF"; at most 107 bytes
    v2    12 bytes signature | version and command u8 | family u8 | size u16 | addresses and extensions (size bytes)

A header without addresses (UNKNOWN, LOCAL: the balancer's own health checks) leaves the socket's addresses in force.
"""

from __future__ import annotations

import ipaddress
import struct
from typing import NamedTuple

HEADER_BYTES_MAX = 4096  # v2 may carry extensions; nobody needs more of them
_V1_BYTES_MAX = 107
_V2_SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"
_V2_HEAD = struct.Struct(">12sBBH")


class MalformedProxyHeader(ValueError):
    """Raised when a connection does not begin with a PROXY header, or with one that makes no sense."""


class Proxied(NamedTuple):
    size: int  # bytes of the header
    source: tuple[str, int] | None  # the client
    target: tuple[str, int] | None


def read_proxy_header(data: bytes) -> Proxied | None:
    """The header at the start of `data`, None while it is incomplete."""
    if data.startswith(b"PROXY ") or b"PROXY ".startswith(data):
        return _read_v1(data)
    if data.startswith(_V2_SIGNATURE) or _V2_SIGNATURE.startswith(data):
        return _read_v2(data)
    raise MalformedProxyHeader("a PROXY header is expected on this listener, and there is none")


def _read_v1(data: bytes) -> Proxied | None:
    end = data.find(b"\r\n", 0, _V1_BYTES_MAX)
    if end < 0:
        if len(data) >= _V1_BYTES_MAX:
            raise MalformedProxyHeader(f"a PROXY v1 header ends within {_V1_BYTES_MAX} bytes")
        return None
    fields = data[:end].split(b" ")
    if fields[1] == b"UNKNOWN":
        return Proxied(end + 2, None, None)
    if len(fields) != 6 or fields[1] not in (b"TCP4", b"TCP6"):
        raise MalformedProxyHeader(f"not a PROXY v1 header: {data[:end]!r}")
    return Proxied(end + 2, _v1_endpoint(fields[2], fields[4]), _v1_endpoint(fields[3], fields[5]))


def _v1_endpoint(host: bytes, port: bytes) -> tuple[str, int]:
    try:
        address = str(ipaddress.ip_address(host.decode("ascii")))
    except ValueError as error:
        raise MalformedProxyHeader(f"not an address in a PROXY v1 header: {host!r}") from error
    if not port.isdigit() or int(port) > 65_535:
        raise MalformedProxyHeader(f"not a port in a PROXY v1 header: {port!r}")
    return address, int(port)


def _read_v2(data: bytes) -> Proxied | None:
    if len(data) < _V2_HEAD.size:
        return None
    _, version_and_command, family, size = _V2_HEAD.unpack_from(data)
    end = _V2_HEAD.size + size
    if version_and_command not in (0x20, 0x21):
        raise MalformedProxyHeader(f"PROXY v2 version and command {version_and_command:#04x}")
    if end > HEADER_BYTES_MAX:
        raise MalformedProxyHeader(f"a PROXY v2 header of {end} bytes, at most {HEADER_BYTES_MAX} are read")
    if len(data) < end:
        return None
    address_size = {0x11: 4, 0x21: 16}.get(family)
    if version_and_command == 0x20 or address_size is None:
        return Proxied(end, None, None)
    if size < 2 * address_size + 4:
        raise MalformedProxyHeader(f"PROXY v2 addresses of {size} bytes, {2 * address_size + 4} are needed")
    start = _V2_HEAD.size
    source = ipaddress.ip_address(data[start : start + address_size])
    target = ipaddress.ip_address(data[start + address_size : start + 2 * address_size])
    ports = struct.unpack_from(">HH", data, start + 2 * address_size)
    return Proxied(end, (str(source), ports[0]), (str(target), ports[1]))
