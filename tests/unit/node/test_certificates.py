"""The certificate of a node: until when it is valid, and files that change while the node runs."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import ssl
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
import trustme
from cryptography import x509
from msgspec.structs import replace

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


def test_a_certificate_is_told_of_once_for_each_change(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    authority = trustme.CA()
    certificates = Certificates(write_pair(tmp_path, authority, "old.example"), LOGGER)
    context = certificates.context
    caplog.set_level(logging.INFO)
    for name in ("new.example", "newer.example"):
        write_pair(tmp_path, authority, name)
        for _ in range(3):
            certificates.look()
        assert name_shown(context, authority) == name
    assert caplog.text.count("has changed") == 2


def test_a_file_put_in_place_of_another_with_the_same_time_is_another(tmp_path: Path) -> None:
    """As tools do that keep the times of what they copy."""
    authority = trustme.CA()
    section = write_pair(tmp_path, authority, "old.example")
    certificates = Certificates(section, LOGGER)
    context = certificates.context
    (new := tmp_path / "new").mkdir()
    write_pair(new, authority, "new.example")
    for path in map(Path, (section.certificate, section.key)):
        before = path.stat().st_mtime_ns
        os.utime(new / path.name, ns=(before, before))
        (new / path.name).replace(path)
    certificates.look()
    assert name_shown(context, authority) == "new.example"


def is_let_in(context: ssl.SSLContext, authority: trustme.CA, shown: trustme.CA | None) -> bool:
    """Whether a client is that shows a certificate of that authority, or none."""
    trusting = ssl.create_default_context()
    trusting.check_hostname = False
    authority.configure_trust(trusting)
    if shown is not None:
        shown.issue_cert("client").configure_cert(trusting)
    here, there = socket.socketpair()
    let_in: list[bool] = []

    def serve() -> None:
        try:
            with context.wrap_socket(there, server_side=True) as served:
                served.sendall(b"welcome")
                let_in.append(True)
        except ssl.SSLError:
            there.close()

    server = threading.Thread(target=serve)
    server.start()
    with contextlib.suppress(OSError), trusting.wrap_socket(here) as client:
        client.recv(7)
    server.join()
    return bool(let_in)


@pytest.mark.parametrize("verify_peer", [True, False])
def test_who_shows_no_certificate_is_let_in_unless_one_is_asked_of_all(tmp_path: Path, verify_peer: bool) -> None:
    own, theirs = trustme.CA(), trustme.CA()
    theirs.cert_pem.write_to_path(tmp_path / "ca.pem")
    section = write_pair(tmp_path, own, "node.example")
    context = Certificates(replace(section, ca=str(tmp_path / "ca.pem"), verify_peer=verify_peer), LOGGER).context
    assert is_let_in(context, own, shown=theirs)
    assert is_let_in(context, own, shown=None) is not verify_peer
    assert not is_let_in(context, own, shown=own), "this authority is not believed for clients"
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2


def test_an_authority_that_is_added_is_believed_without_a_restart(tmp_path: Path) -> None:
    own, first, second = trustme.CA(), trustme.CA(), trustme.CA()
    ca = tmp_path / "ca.pem"
    first.cert_pem.write_to_path(ca)
    certificates = Certificates(replace(write_pair(tmp_path, own, "node.example"), ca=str(ca)), LOGGER)
    context = certificates.context
    assert not is_let_in(context, own, shown=second)
    second.cert_pem.write_to_path(ca, append=True)
    certificates.look()
    assert is_let_in(context, own, shown=second) and is_let_in(context, own, shown=first)


def test_a_certificate_that_could_not_be_opened_when_it_changed_is_taken_later(
    tmp_path: Path, all_descriptors: Callable[[], Callable[[], None]], caplog: pytest.LogCaptureFixture
) -> None:
    """A node without file descriptors looked at each change once, and went on with a certificate that ran out."""
    authority = trustme.CA()
    certificates = Certificates(write_pair(tmp_path, authority, "old.example"), LOGGER)
    context = certificates.context
    write_pair(tmp_path, authority, "new.example")
    give_back = all_descriptors()
    for _ in range(3):
        certificates.look()
    give_back()
    assert caplog.text.count("is not taken") == 1
    assert name_shown(context, authority) == "old.example"
    certificates.look()
    assert name_shown(context, authority) == "new.example"


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
