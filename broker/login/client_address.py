"""Where a request comes from: for logging, for audit, and for limits per source address."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv6Address, ip_address, ip_network

# A host or a customer is given a whole IPv6 network of this size, so one of its addresses says nothing.
IPV6_SOURCE_BITS = 64
SOURCES_KEPT = 1_024  # addresses whose source is remembered: a flood asks for the same ones thousands of times a second


@dataclass(slots=True, frozen=True)
class ClientAddress:
    """The far end of one connection."""

    host: str  # an IP address; empty when there is none
    port: int
    loopback: bool
    protocol: str  # "AMQP 0-9-1", "stream", "gRPC" or "HTTP"

    @property
    def source(self) -> str:
        return source_of(self.host)

    @property
    def address(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


@lru_cache(maxsize=SOURCES_KEPT)
def source_of(host: str) -> str:
    """What limits per source count by: the IPv4 address, or the network of an IPv6 address."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if not isinstance(address, IPv6Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    if address.is_loopback:
        return str(address)
    return str(ip_network((address, IPV6_SOURCE_BITS), strict=False))
