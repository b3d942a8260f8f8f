"""Where a node listens: which of the addresses of an option can be had on this machine."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from logging import Logger

from broker.operations.node_facts import ListenerFacts
from node.addresses import endpoint, host_and_port
from node.config import StreamSection

IPV6_LOOPBACK = "::1"
ANY_ADDRESS = ("0.0.0.0", "::")


def has_ipv6_loopback() -> bool:
    """Whether a socket can be bound to ::1: not in a kernel or container without IPv6."""
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind((IPV6_LOOPBACK, 0))
    except OSError:
        return False
    return True


def advertised(section: StreamSection, listeners: Sequence[ListenerFacts], host_name: str, *, tls: bool) -> str:
    """HOST:PORT where clients of the stream protocol, in plain or within TLS, are to find this node; empty: nothing listens for
    them."""
    name, given_port = ("streams", section.advertised_tls_port) if tls else ("stream", section.advertised_port)
    own = [one.address for one in listeners if one.protocol == name]
    if not own:
        return ""
    host, port = host_and_port(own[0])
    host = host_name if host in ANY_ADDRESS else host
    return endpoint(section.advertised_host or host, given_port or port)


def addresses(
    option: str, configured: Sequence[str], logger: Logger, has_ipv6: Callable[[], bool] = has_ipv6_loopback
) -> list[tuple[str, int]]:
    """Hosts and ports of `listen.<option>`. ::1 beside other addresses, as by default, is left out where there is no IPv6;
    alone it stays, and listening fails with the system's reason. Raises BadAddress."""
    found = [host_and_port(one) for one in configured]
    others = [one for one in found if one[0] != IPV6_LOOPBACK]
    if not others or len(others) == len(found) or has_ipv6():
        return found
    logger.info("listen.%s: this machine has no IPv6, so nothing listens on %s", option, IPV6_LOOPBACK)
    return others
