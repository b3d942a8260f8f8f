"""The certificate with which this node speaks TLS to clients, loaded again when its files change.

Connections that are open go on with the one they began with; new ones see what is in the files. A pair that cannot be used, for
one of its files is not written yet, say, is told of and changes nothing. Authorities are only ever added: one that is not to be
trusted any more is until the node starts again.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from datetime import UTC, datetime
from logging import Logger
from pathlib import Path

from front.grpc.server import Tls
from node.config import ConfigError, TlsSection

LOOK_EVERY_S = 10.0
DER_VERSION, DER_UTC_TIME = 0xA0, 0x17
FieldsOfDer = list[tuple[int, bytes]]


class Certificates:
    """Of the section `tls`. `context` is what listeners offer; each has the same one."""

    def __init__(self, section: TlsSection, logger: Logger) -> None:
        self._section = section
        self._logger = logger
        self._context: ssl.SSLContext | None = None
        self._taken: list[tuple[int, int]] = []  # stamps of the files that are in use
        self._refused = ""  # why those that are there now are not

    @property
    def context(self) -> ssl.SSLContext:
        """Raises ConfigError when the files cannot be used."""
        if self._context is None:
            self._taken = self._stamps()
            self._context = self._loaded(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        return self._context

    async def watch(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            self.look()

    def look(self) -> None:
        """Load what has changed, also what could not be loaded before: for want of descriptors, perhaps. Then the context may
        have one of two files."""
        if self._context is None:
            return
        stamps = self._stamps()
        if stamps == self._taken:
            return
        try:
            self._loaded(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
            self._loaded(self._context)
        except ConfigError as error:
            if (refused := f"{stamps} {error}") != self._refused:
                self._refused = refused
                self._logger.error("the certificate has changed and is not taken: %s", error)
        else:
            self._taken, self._refused = stamps, ""
            self._logger.info("the certificate %s has changed: new connections get it", self._section.certificate)

    def not_after(self) -> datetime | None:
        """Until when it is valid; None: it is not in use. Raises ConfigError."""
        return None if self._context is None else not_after(Path(self._section.certificate))

    def _loaded(self, context: ssl.SSLContext) -> ssl.SSLContext:
        tls = self._section
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(tls.certificate, tls.key)
            if tls.ca:
                context.load_verify_locations(tls.ca)
                context.verify_mode = ssl.CERT_REQUIRED if tls.verify_peer else ssl.CERT_OPTIONAL
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"tls: {tls.certificate}, {tls.key}, {tls.ca or 'no ca'}: {error}") from error
        return context

    def _stamps(self) -> list[tuple[int, int]]:
        """What changes with the files; one that is missing has none."""
        paths = filter(None, (self._section.certificate, self._section.key, self._section.ca))
        return [stamp for path in paths if (stamp := _stamp(path)) is not None]


def grpc_certificate(tls: TlsSection) -> Tls:
    """Raises ConfigError when a file cannot be read."""
    try:
        ca = Path(tls.ca).read_bytes() if tls.ca else None
        return Tls(Path(tls.certificate).read_bytes(), Path(tls.key).read_bytes(), ca, tls.verify_peer)
    except OSError as error:
        raise ConfigError(f"tls: {error.filename}: {error.strerror}") from error


def _stamp(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino


def not_after(path: Path) -> datetime:
    """Of the first certificate in a PEM file. Raises ConfigError."""
    try:
        text = path.read_text("ascii", "replace")
        first = text[text.index("-----BEGIN CERTIFICATE-----") :].partition("-----END CERTIFICATE-----")
        der = ssl.PEM_cert_to_DER_cert(first[0] + first[1])
        return _not_after(der)
    except (OSError, ValueError, IndexError) as error:
        raise ConfigError(f"{path} is no certificate: {error}") from error


def _not_after(der: bytes) -> datetime:
    """X.509: a sequence whose first part has, behind version, serial number, algorithm and issuer, from when and until when."""
    certificate = _fields(_fields(der)[0][1])
    parts = _fields(certificate[0][1])
    if parts[0][0] == DER_VERSION:
        parts = parts[1:]
    tag, raw = _fields(parts[3][1])[1]
    form = "%y%m%d%H%M%SZ" if tag == DER_UTC_TIME else "%Y%m%d%H%M%SZ"
    found = datetime.strptime(raw.decode("ascii"), form)
    return found.replace(tzinfo=UTC)


def _fields(raw: bytes) -> FieldsOfDer:
    """Tags with what each holds."""
    found, at = [], 0
    while at < len(raw):
        tag, size = raw[at], raw[at + 1]
        at += 2
        if size & 0x80:
            length_bytes = size & 0x7F
            size = int.from_bytes(raw[at : at + length_bytes], "big")
            at += length_bytes
        found.append((tag, raw[at : at + size]))
        at += size
    return found
