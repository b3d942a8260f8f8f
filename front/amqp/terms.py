"""What a connection is told about the world: its limits, and how the server presents itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from front.sockets.plain_login import Credentials

PRODUCT = "Leveret"

CAPABILITIES = {
    "publisher_confirms": True,
    "exchange_exchange_bindings": True,
    "basic.nack": True,
    "consumer_cancel_notify": True,
    "connection.blocked": True,
    "consumer_priorities": True,
    "authentication_failure_close": True,
    "per_consumer_qos": True,
    "direct_reply_to": True,
}


@dataclass(slots=True, frozen=True)
class Limits:
    """What is proposed in connection.tune, and how long things may take."""

    channel_max: int = 2047
    frame_max: int = 131_072
    initial_frame_max: int = 8_192
    heartbeat_s: int = 60
    message_bytes_max: int = 16_777_216
    handshake_timeout_s: float = 10.0
    refusal_pause_s: float = 3.0
    close_timeout_s: float = 30.0
    write_buffer_high_bytes: int = 4_194_304


@dataclass(slots=True, frozen=True)
class Identity:
    """How the server presents itself in connection.start. Clients choose what they do by `product` and `version`, so these may
    be the product that they know, at the version whose behaviour is ours (amqp.announce_version). Who we are is beside them."""

    cluster_name: str
    version: str
    platform: str
    announced_product: str = ""  # empty: Leveret and its version
    announced_version: str = ""
    information: str = "Licensed under the Apache License 2.0"
    # Whom ANONYMOUS logs in as; None: it is not offered. Not shown, for there is a password in it.
    anonymous: Credentials | None = field(default=None, repr=False)

    def properties(self) -> dict[str, Any]:
        return {
            "capabilities": CAPABILITIES,
            "cluster_name": self.cluster_name,
            "information": self.information,
            "platform": self.platform,
            "product": self.announced_product or PRODUCT,
            "product_name": PRODUCT,
            "product_version": self.version,
            "version": self.announced_version or self.version,
        }
