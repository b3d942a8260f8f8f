"""Whether a peer is on this machine."""

from __future__ import annotations

from ipaddress import ip_address


def is_loopback(host: str) -> bool:
    """For an address as a socket tells it: `127.0.0.1`, `::1`, `::ffff:127.0.0.1` of a listener for both, `fe80::1%eth0`.
    What is no address is not of this machine."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
