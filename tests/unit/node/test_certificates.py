"""The certificate of a node: until when it is valid, and files that change while the node runs."""

from __future__ import annotations

import logging
import socket
import ssl
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest
import trustme
from cryptography import x509

from node.config import ConfigError, TlsSection
from node.doors.certificates import Certificates, not_after

LOGGER = logging.getLogger("test")
FAR = datetime(2061, 5, 4, tzinfo=UTC)  # as a time of 15 characters; up to 2049 it has 13


def write_pair(directory: Path, authority: trustme.CA, name: str, until: datetime | None = None) -> TlsSection:
    issued = authority.issue_cert(name, not_after=until) if until else authority.issue_cert(name)
    certificate, key = directory / "cert.pem", directory / "key.pem"
    issued.cert_chain_pems[0].write_to_path(certificate)
    issued.private_key_pem.write_to_path(key)
    return TlsSection(certificate=str(certificate), key=str(key))


@pytest.mark.parametrize("until", [datetime(2031, 2, 3, 4, 5, 6, tzinfo=UTC), FAR])
def test_until_when_a_certificate_is_valid(tmp_path: Path, until: datetime) -> None:
    section = write_pair(tmp_path, trustme.CA(), "node.example", until)
    found = not_after(Path(section.certificate))
    expected = x509.load_pem_x509_certificate(Path(section.certificate).read_bytes()).not_valid_after_utc
    assert found == expected == until
    certificates = Certificates(section, LOGGER)
    assert certificates.not_after() is None, "nothing has asked for it"
    assert certificates.context and certificates.not_after() == until


@pytest.mark.parametrize("content", ["", "nonsense", "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n"])
def test_what_is_no_certificate_is_named(tmp_path: Path, content: str) -> None:
    file = tmp_path / "cert.pem"
    file.write_text(content)
    for path in (file, tmp_path / "missing"):
        with pytest.raises(ConfigError, match="is no certificate"):
            not_after(path)


def name_shown(context: ssl.SSLContext, authority: trustme.CA) -> str:
    """Of the certificate that a client is shown."""
    trusting = ssl.create_default_context()
    trusting.check_hostname = False
    authority.configure_trust(trusting)
    here, there = socket.socketpair()

    def serve() -> None:
        with context.wrap_socket(there, server_side=True):
            pass

    server = threading.Thread(target=serve)
    server.start()
    with trusting.wrap_socket(here) as client:
        certificate = client.getpeercert()
    server.join()
    assert certificate is not None
    return str(certificate["subjectAltName"][0][1])  # type: ignore[index, misc]


def test_a_certificate_that_changes_is_shown_to_the_next_who_connects(tmp_path: Path) -> None:
    authority = trustme.CA()
    certificates = Certificates(write_pair(tmp_path, authority, "old.example"), LOGGER)
    context = certificates.context
    assert name_shown(context, authority) == "old.example"
    write_pair(tmp_path, authority, "new.example")
    certificates.look()
    assert certificates.context is context and name_shown(context, authority) == "new.example"


def test_a_pair_that_does_not_belong_together_is_told_of_and_not_taken(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority = trustme.CA()
    certificates = Certificates(write_pair(tmp_path, authority, "old.example"), LOGGER)
    context = certificates.context
    authority.issue_cert("new.example").cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    certificates.look()
    assert name_shown(context, authority) == "old.example" and "is not taken" in caplog.text
    (tmp_path / "key.pem").unlink()
    certificates.look()
    assert name_shown(context, authority) == "old.example"
