"""What the configuration says about other nodes, as the rooms that deal with them take it. Files are read here, once."""

from __future__ import annotations

import ssl
from pathlib import Path

from node.config import ClusterSection, Config, ConfigError, cluster_secret
from node.membership.first_boot import BootSettings
from node.peers.handshake import Secret
from node.peers.side import PeerCredentials, PeerSettings


def peer_settings(config: Config) -> PeerSettings:
    """Raises ConfigError."""
    credentials = None
    if config.clustered:
        called, calling = _certificates(config.cluster)
        credentials = PeerCredentials(_secret(config), called, calling)
    return PeerSettings(config.listen.peer, config.cluster.advertise, credentials)


def boot_settings(config: Config) -> BootSettings:
    section = config.cluster
    return BootSettings(
        data_dir=config.node.data_dir,
        peers=section.peers,
        dns=section.dns,
        nodes_expected=section.nodes_expected,
        join=section.join,
        ram=section.ram,
        zone=config.zone,
    )


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
