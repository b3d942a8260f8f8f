"""The side of this node that other nodes see: its listener, the links to them, and what proves that they are of one cluster.

A node without a secret has links to nobody and listens nowhere; it is a cluster of its own.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from logging import Logger
from pathlib import Path

from node.config import ClusterSection, Config, ConfigError, cluster_secret, host_and_port
from node.peer_auth import Gatekeeper, Identity, Secret
from node.peer_dialer import Dialer
from node.peer_link import LinkLimits, PeerLink, PeerLinks
from node.peer_server import Doorman, PeerServer
from node.peer_stranger import Stranger

RandomBytes = Callable[[int], bytes]


class PeerSide:
    """`listen` once, `enter` as soon as this node has a number, `stop` at the end."""

    def __init__(
        self, config: Config, monotonic: Callable[[], float], random_bytes: RandomBytes, logger: Logger
    ) -> None:
        """Raises ConfigError."""
        self.links = PeerLinks(LinkLimits(), logger)
        self.address = config.cluster.advertise or config.listen.peer
        self.stranger: Stranger | None = None  # None: this node stays alone
        self._me: Identity | None = None
        self._config = config
        self._random_bytes = random_bytes
        self._logger = logger
        self._secret: Secret | None = None
        self._server: PeerServer | None = None
        if not config.clustered:
            return
        self._secret = _secret(config)
        self._server_tls, self._client_tls = _certificates(config.cluster)
        self._gatekeeper = Gatekeeper(self._secret, None, monotonic, random_bytes)
        self._server = PeerServer(self.links, self._gatekeeper, logger)
        self.stranger = Stranger(self._secret, random_bytes, self._client_tls)

    @property
    def listens(self) -> bool:
        return self._server is not None

    async def listen(self) -> None:
        """Raises CannotListen."""
        if self._server is None:
            return
        host, _ = host_and_port(self._config.listen.peer, "listen.peer")
        port = await self._server.listen(self._config.listen.peer, self._server_tls)
        if not self._config.cluster.advertise:
            self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._logger.info("listening for other nodes on %s", self.address)

    def answer_strangers(self, doorman: Doorman | None) -> None:
        if self._server is not None:
            self._server.doorman = doorman

    def enter(self, me: Identity) -> None:
        """From now on this node is one of the cluster's, under this number."""
        self._me = me
        if self._server is not None:
            self._gatekeeper.me = me

    def dialer(self, link: PeerLink, address: str) -> Dialer:
        assert self._me is not None and self._secret is not None, (
            f"node {link.node} is called by a node without a number"
        )
        return Dialer(
            link,
            address,
            self._me,
            self._secret,
            random_bytes=self._random_bytes,
            tls=self._client_tls,
            logger=self._logger,
        )

    async def stop(self) -> None:
        self.links.close()
        if self._server is not None:
            await self._server.stop()


def _secret(config: Config) -> Secret:
    try:
        return Secret(cluster_secret(config))
    except ValueError as error:
        raise ConfigError(f"cluster.secret: {error}") from error


def _certificates(section: ClusterSection) -> tuple[ssl.SSLContext | None, ssl.SSLContext | None]:
    """To be called with, and to call with: both show a certificate, and check that of the other."""
    if not section.tls_ca:
        return None, None
    try:
        for path in (section.tls_ca, section.tls_key, section.tls_certificate):
            Path(path).open("rb").close()  # ssl does not say which one is missing
        return _context(section, ssl.PROTOCOL_TLS_SERVER), _context(section, ssl.PROTOCOL_TLS_CLIENT)
    except ssl.SSLError as error:
        files = f"{section.tls_ca}, {section.tls_key} and {section.tls_certificate}"
        raise ConfigError(f"cluster: {files} cannot be used for TLS: {error}") from error
    except OSError as error:
        raise ConfigError(f"cluster: {error.filename}: {error.strerror}") from error


def _context(section: ClusterSection, protocol: int) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(section.tls_ca)
    context.load_cert_chain(section.tls_certificate, section.tls_key)
    return context
