"""Which of several nodes is spoken to: the first that can be reached, and another one when it is lost.

A gRPC channel to each node is made when it is needed and kept to the end: what still runs on the node that was used before goes
on there. What has been sent to a node that is lost is never sent to another one here: whether it was done is not known, and
whoever sent it is told so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio

from leveret.errors import ConnectionLost
from leveret.v1 import admin_pb2_grpc, consume_pb2_grpc, publish_pb2_grpc, streams_pb2_grpc, topology_pb2_grpc

DEFAULT_PORT = 5680
DEFAULT_TARGET = f"127.0.0.1:{DEFAULT_PORT}"
MESSAGE_BYTES_MAX = 32 * 1_048_576  # sent or received in one piece; nodes send about 1 MiB unless a message is larger


@dataclass(slots=True, frozen=True)
class Tls:
    """How to speak TLS: whom to believe, and who we are. All of it is PEM."""

    ca: bytes | None = None  # None: the certificate authorities that gRPC ships with
    certificate: bytes | None = None  # ours, for nodes that ask for one
    key: bytes | None = None
    server_name: str | None = None  # the name in the node's certificate, when it is not the one you connect to


@dataclass(slots=True, frozen=True)
class Stubs:
    """The services of a node."""

    publisher: Any
    consumer: Any
    topology: Any
    streams: Any
    admin: Any


def addresses(target: str | Sequence[str]) -> tuple[str, ...]:
    """One or more nodes: a list, or one text with commas; where no port is given it is DEFAULT_PORT. Raises ValueError."""
    given = target.split(",") if isinstance(target, str) else target
    found = tuple(_with_port(one.strip()) for one in given)
    if not found:
        raise ValueError("no node is given: HOST:PORT, or several of them with commas")
    return found


def _with_port(address: str) -> str:
    """HOST, HOST:PORT, [IPv6]:PORT, or an address that bears a scheme of gRPC's, such as dns:///name:port."""
    if not address:
        raise ValueError("the address of a node is empty: HOST:PORT is needed")
    if "/" in address or address.startswith(("unix:", "ipv4:", "ipv6:", "dns:")):
        return address
    if address.startswith("["):
        return address if "]:" in address else f"{address}:{DEFAULT_PORT}"
    if address.count(":") > 1:  # an IPv6 address as people write it
        return f"[{address}]:{DEFAULT_PORT}"
    host, colon, port = address.partition(":")
    if colon and not (port.isascii() and port.isdigit() and 0 < int(port) < 65_536):
        raise ValueError(f"{address!r} has no port between 1 and 65535 behind its colon")
    return address if colon else f"{host}:{DEFAULT_PORT}"


class Channels:
    """The connections of one `leveret.Node`."""

    def __init__(self, target: str | Sequence[str], tls: Tls | None) -> None:
        self.addresses = addresses(target)
        self._tls = tls
        self._current = 0
        self._open: dict[str, tuple[grpc.aio.Channel, Stubs]] = {}

    @property
    def target(self) -> str:
        """The node that is used now."""
        return self.addresses[self._current]

    @property
    def several(self) -> bool:
        return len(self.addresses) > 1

    def lost(self, target: str) -> None:
        """This node does not answer, or ended what ran there: the next one is asked first from now on."""
        if target == self.target:
            self._current = (self._current + 1) % len(self.addresses)

    async def reach(self, timeout_s: float) -> Stubs:
        """The services of a node that a connection is open to. Raises ConnectionLost when there is none.

        With one node to choose from the call itself finds out, and says more about what is wrong.
        """
        if not self.several:
            return self._channel(self.target)[1]
        share_s = timeout_s / len(self.addresses)
        for _ in self.addresses:
            channel, stubs = self._channel(self.target)
            if await _is_ready(channel, share_s):
                return stubs
            self.lost(self.target)
        raise ConnectionLost(f"no connection to any of {', '.join(self.addresses)}")

    async def close(self) -> None:
        channels, self._open = [channel for channel, _ in self._open.values()], {}
        for channel in channels:
            await channel.close()

    def _channel(self, target: str) -> tuple[grpc.aio.Channel, Stubs]:
        if target not in self._open:
            channel = _channel(target, self._tls)
            self._open[target] = channel, _stubs(channel)
        return self._open[target]


async def _is_ready(channel: grpc.aio.Channel, timeout_s: float) -> bool:
    """Whether a connection is open, or can be opened at once."""
    try:
        async with asyncio.timeout(timeout_s):
            while (state := channel.get_state(try_to_connect=True)) is not grpc.ChannelConnectivity.READY:
                if state is grpc.ChannelConnectivity.TRANSIENT_FAILURE:
                    return False
                await channel.wait_for_state_change(state)
    except TimeoutError:
        return False
    return True


def _channel(target: str, tls: Tls | None) -> grpc.aio.Channel:
    options: list[tuple[str, Any]] = [
        ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
        ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
        # A node that is gone without a word is noticed within half a minute, also by a consumer that only listens.
        ("grpc.keepalive_time_ms", 20_000),
        ("grpc.keepalive_timeout_ms", 10_000),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.max_reconnect_backoff_ms", 5_000),
        # Each Node has a connection of its own, so that one that is closed takes nothing from another.
        ("grpc.use_local_subchannel_pool", 1),
    ]
    if tls is None:
        return grpc.aio.insecure_channel(target, options=options)
    if tls.server_name is not None:
        options.append(("grpc.ssl_target_name_override", tls.server_name))
    credentials = grpc.ssl_channel_credentials(tls.ca, tls.key, tls.certificate)
    return grpc.aio.secure_channel(target, credentials, options=options)


def _stubs(channel: grpc.aio.Channel) -> Stubs:
    return Stubs(
        publisher=publish_pb2_grpc.PublisherStub(channel),  # type: ignore[no-untyped-call]
        consumer=consume_pb2_grpc.ConsumerStub(channel),  # type: ignore[no-untyped-call]
        topology=topology_pb2_grpc.TopologyStub(channel),  # type: ignore[no-untyped-call]
        streams=streams_pb2_grpc.StreamsStub(channel),  # type: ignore[no-untyped-call]
        admin=admin_pb2_grpc.AdminStub(channel),  # type: ignore[no-untyped-call]
    )
