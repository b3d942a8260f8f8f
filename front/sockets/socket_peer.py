"""Who is at the other end of a socket: its address or the one that a load balancer tells, and what its certificate says."""

from __future__ import annotations

import asyncio
from typing import Any

from front.loopback import is_loopback
from front.sockets.peer import Peer
from wire.proxy_protocol import Proxied


def peer_of(
    transport: asyncio.Transport, id_: str, protocol: str, proxied: Proxied | None, tls_username_from: str
) -> Peer:
    """Of a transport whose client is still there."""
    source, target = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
    loopback = is_loopback(str(source[0]))
    if proxied is not None and proxied.source is not None and proxied.target is not None:
        source, target = proxied.source, proxied.target
        loopback = loopback and is_loopback(source[0])  # a header alone makes nobody local
    certificate = transport.get_extra_info("peercert")
    tls = transport.get_extra_info("ssl_object")
    details: dict[str, Any] = {"host": str(target[0]), "port": int(target[1])}
    if tls is not None:
        details |= {"tls_protocol": tls.version(), "tls_cipher": tls.cipher()[0]}
    return Peer(
        id=id_,
        name=f"{endpoint_text(source)} -> {endpoint_text(target)}",
        host=str(source[0]),
        port=int(source[1]),
        loopback=loopback,
        tls=tls is not None,
        tls_user=_certified_user(certificate, tls_username_from) if certificate else None,
        details=details,
        protocol=protocol,
    )


def endpoint_text(address: tuple[Any, ...]) -> str:
    host = str(address[0])
    return f"[{host}]:{address[1]}" if ":" in host else f"{host}:{address[1]}"


def _certified_user(certificate: dict[str, Any], username_from: str) -> str | None:
    """The user that a verified client certificate stands for."""
    names = [pair for group in certificate.get("subject", ()) for pair in group]
    if username_from == "distinguished-name":
        short = {"commonName": "CN", "organizationName": "O", "organizationalUnitName": "OU", "countryName": "C",
                 "localityName": "L", "stateOrProvinceName": "ST"}  # fmt: skip
        return ",".join(f"{short.get(name, name)}={value}" for name, value in reversed(names)) or None
    return next((str(value) for name, value in names if name == "commonName"), None)
