"""What a connection of the stream protocol is told about the world: its limits, and how the server presents itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

PROTOCOL = "stream"
PUBLISHERS_MAX = SUBSCRIPTIONS_MAX = 256  # on one connection: their numbers have one byte
REFERENCE_BYTES_MAX = 255
PARTITIONS_MAX = 1_000


@dataclass(slots=True, frozen=True)
class StreamLimits:
    """What is proposed in Tune, and how long things may take. 0 is no limit, and no heartbeats."""

    frame_max: int = 1_048_576
    initial_frame_max: int = 8_192  # before the login
    heartbeat_s: int = 60
    step_timeout_s: float = 10.0  # for each step of the handshake, and for the answer to Close
    refusal_pause_s: float = 3.0
    consumer_update_timeout_s: float = 60.0
    write_buffer_high_bytes: int = 4_194_304
    # What may be published and not confirmed. Reading goes on when a quarter of it is confirmed.
    outstanding_messages_max: int = 50_000
    outstanding_bytes_max: int = 67_108_864


@dataclass(slots=True, frozen=True)
class StreamIdentity:
    """How the server presents itself. Clients choose what they do by `product` and `version`, so these are of the server whose
    behaviour is ours; who we are is beside them."""

    cluster_name: str
    version: str
    platform: str
    advertised: Callable[
        [bool], str
    ]  # HOST:PORT where clients, within TLS or not, are to find this node; empty: they do not
    announced_product: str = "RabbitMQ"
    announced_version: str = "4.3.6"
    information: str = "Licensed under the Apache License 2.0"

    def properties(self) -> dict[str, str]:
        return {
            "cluster_name": self.cluster_name,
            "copyright": "The authors of Leveret",
            "information": self.information,
            "leveret": self.version,
            "platform": self.platform,
            "product": self.announced_product,
            "version": self.announced_version,
        }

    def address(self, *, tls: bool) -> dict[str, str]:
        """Where clients are to find this node, as the answer to Open says it."""
        host, _, port = self.advertised(tls).rpartition(":")
        return {"advertised_host": host.removeprefix("[").removesuffix("]"), "advertised_port": port} if host else {}
