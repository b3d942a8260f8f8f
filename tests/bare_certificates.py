"""Certificates as small authorities make them: without the identifiers of keys that RFC 5280 asks for and TLS does not need."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

NEWER_FLAGS = ssl.VerifyFlags.VERIFY_X509_STRICT  # which Python sets by default from 3.13 on
NOW = datetime.now(UTC)


def bare_server(host: str, folder: Path) -> tuple[ssl.SSLContext, Path]:
    """What a server speaks TLS with as `host`, and the file of its authority."""
    authority, server = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = _name("a small authority")
    own = _began(issuer, authority).subject_name(issuer).add_extension(x509.BasicConstraints(True, None), critical=True)
    issued = _began(issuer, server).subject_name(_name(host))
    issued = issued.add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
    ca_file, chain = folder / "bare-ca.pem", folder / "bare-server.pem"
    ca_file.write_bytes(own.sign(authority, hashes.SHA256()).public_bytes(Encoding.PEM))
    key = server.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    chain.write_bytes(issued.sign(authority, hashes.SHA256()).public_bytes(Encoding.PEM) + key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain)
    return context, ca_file


def as_newer_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Default contexts have its flags."""
    default = ssl.create_default_context

    def newer(*given: Any, **named: Any) -> ssl.SSLContext:
        context = default(*given, **named)
        context.verify_flags |= NEWER_FLAGS
        return context

    monkeypatch.setattr(ssl, "create_default_context", newer)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])


def _began(issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    dated = x509.CertificateBuilder(not_valid_before=NOW - timedelta(1), not_valid_after=NOW + timedelta(7))
    return dated.issuer_name(issuer).public_key(key.public_key()).serial_number(x509.random_serial_number())
