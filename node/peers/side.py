"""The side of this node that other nodes see: its listener, the links to them, and what proves that they are of one cluster.

A node without a secret has links to nobody and listens nowhere; it is a cluster of its own.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from logging import Logger
from typing import NamedTuple

from node.addresses import endpoint, host_and_port
from node.peers.dialer import Dialer
from node.peers.handshake import Gatekeeper, PeerIdentity, Secret
from node.peers.link import LinkLimits, PeerLink, PeerLinks
from node.peers.server import Doorman, PeerServer
from node.peers.stranger import Stranger

RandomBytes = Callable[[int], bytes]


class PeerCredentials(NamedTuple):
    """What proves to other nodes that this one is of their cluster, and to this one that they are."""

    secret: Secret
    called: ssl.SSLContext | None = None  # for those who call; None: without TLS
    calling: ssl.SSLContext | None = None


class PeerSettings(NamedTuple):
    listen: str  # HOST:PORT
    advertise: str = ""  # HOST:PORT where others reach this node, when it is not where it listens
    credentials: PeerCredentials | None = None  # None: this node stays alone


class PeerSide:
    """`listen` once, `enter` as soon as this node has a number, `stop` at the end."""

    def __init__(
        self, settings: PeerSettings, monotonic: Callable[[], float], random_bytes: RandomBytes, logger: Logger
    ) -> None:
        self.links = PeerLinks(LinkLimits(), logger)
        self.address = settings.advertise or settings.listen
        self.stranger: Stranger | None = None  # None: this node stays alone
        self._me: PeerIdentity | None = None
        self._settings = settings
        self._random_bytes = random_bytes
        self._logger = logger
        self._credentials = settings.credentials
        self._server: PeerServer | None = None
        if self._credentials is None:
            return
        secret = self._credentials.secret
        self._gatekeeper = Gatekeeper(secret, None, monotonic, random_bytes)
        self._server = PeerServer(self.links, self._gatekeeper, logger)
        self.stranger = Stranger(secret, random_bytes, self._credentials.calling)

    @property
    def listens(self) -> bool:
        return self._server is not None

    async def listen(self) -> None:
        """Raises CannotListen."""
        if self._server is None or self._credentials is None:
            return
        host, _ = host_and_port(self._settings.listen)
        port = await self._server.listen(self._settings.listen, self._credentials.called)
        if not self._settings.advertise:
            self.address = endpoint(host, port)
        self._logger.info("listening for other nodes on %s", self.address)

    def answer_strangers(self, doorman: Doorman | None) -> None:
        if self._server is not None:
            self._server.doorman = doorman

    def enter(self, me: PeerIdentity) -> None:
        """From now on this node is one of the cluster's, under this number."""
        self._me = me
        if self._server is not None:
            self._gatekeeper.me = me

    def dialer(self, link: PeerLink, address: str) -> Dialer:
        assert self._me is not None and self._credentials is not None, (
            f"node {link.node} is called by a node without a number"
        )
        return Dialer(
            link,
            address,
            self._me,
            self._credentials.secret,
            random_bytes=self._random_bytes,
            tls=self._credentials.calling,
            logger=self._logger,
        )

    async def stop(self) -> None:
        self.links.close()
        if self._server is not None:
            await self._server.stop()
