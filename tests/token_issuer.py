"""An issuer of tokens for tests: keys of each kind, tokens signed with them or forged, and a server that publishes the keys."""

from __future__ import annotations

import base64
import contextlib
import json
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

RESOURCE_SERVER = "leveret"
EVERYTHING = tuple(f"{RESOURCE_SERVER}.{one}:*/*/*" for one in ("configure", "write", "read"))


def encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


@dataclass
class SigningKey:
    """A key pair with its id."""

    kid: str
    algorithm: str
    private: Any = field(repr=False)

    @property
    def jwk(self) -> dict[str, Any]:
        algorithm = jwt.get_algorithm_by_name(self.algorithm)
        return {**algorithm.to_jwk(self.private.public_key(), as_dict=True), "kid": self.kid, "use": "sig"}

    @property
    def pem(self) -> bytes:
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        return bytes(self.private.public_key().public_bytes(serialization.Encoding.PEM, form))


class TokenIssuer:
    """Keys are made when they are first needed: those of RSA take a while."""

    @cached_property
    def rsa(self) -> SigningKey:
        return SigningKey("rsa-1", "RS256", rsa.generate_private_key(65537, 2048))

    @cached_property
    def elliptic(self) -> SigningKey:
        return SigningKey("ec-1", "ES256", ec.generate_private_key(ec.SECP256R1()))

    @cached_property
    def edwards(self) -> SigningKey:
        return SigningKey("ed-1", "EdDSA", ed25519.Ed25519PrivateKey.generate())

    def token(
        self,
        scopes: Sequence[str] = EVERYTHING,
        *,
        key: SigningKey | None = None,
        algorithm: str | None = None,
        header: dict[str, Any] | None = None,
        **claims: Any,
    ) -> str:
        """A claim or a header that is None is left out."""
        key = key or self.elliptic
        said = {
            "sub": "alice", "aud": [RESOURCE_SERVER], "exp": int(time.time()) + 600, "scope": " ".join(scopes), **claims
        }  # fmt: skip
        said = {name: value for name, value in said.items() if value is not None}
        return jwt.encode(said, key.private, algorithm or key.algorithm, headers={"kid": key.kid, **(header or {})})


def forged(header: dict[str, Any], claims: Any, signature: bytes = b"") -> str:
    """Whatever somebody puts together without a key."""
    parts = [part if isinstance(part, bytes) else json.dumps(part).encode() for part in (header, claims)]
    return ".".join(map(encoded, [*parts, signature]))


class JwksServer(ThreadingHTTPServer):
    """Publishes keys on loopback, and counts who asks."""

    daemon_threads = True

    def __init__(self, keys: Sequence[SigningKey]) -> None:
        self.keys = list(keys)
        self.status = 200
        self.asked = 0
        super().__init__(("127.0.0.1", 0), _JwksHandler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/keys?version=1"


class _JwksHandler(BaseHTTPRequestHandler):
    server: JwksServer

    def do_GET(self) -> None:
        self.server.asked += 1
        body = json.dumps({"keys": [key.jwk for key in self.server.keys]}).encode()
        self.send_response(self.server.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@contextlib.contextmanager
def publishing(keys: Sequence[SigningKey]) -> Iterator[JwksServer]:
    server = JwksServer(keys)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
