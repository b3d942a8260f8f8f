"""Which keys are taken, and which algorithms each may be used with: the key says that, no token does."""

import json
from typing import Any

import pytest
import trustme
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import dsa, ec, rsa

from node.tokens.verification_keys import BadKey, key_of_file, keys_of_jwks
from tests.token_issuer import SigningKey, TokenIssuer, encoded

ISSUER = TokenIssuer()
SECRET = {"kty": "oct", "k": encoded(b"s" * 48), "kid": "shared"}
RSA_ALGORITHMS = {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}


def jwks(*keys: Any) -> bytes:
    return json.dumps({"keys": keys}).encode()


@pytest.mark.parametrize(
    ("key", "algorithms"), [("rsa", RSA_ALGORITHMS), ("elliptic", {"ES256"}), ("edwards", {"EdDSA"})]
)
def test_a_public_key_is_taken_as_pem_as_jwk_and_from_a_jwks(key: str, algorithms: set[str]) -> None:
    pair: SigningKey = getattr(ISSUER, key)
    assert key_of_file(pair.pem).algorithms == algorithms
    assert key_of_file(json.dumps(pair.jwk).encode()) == key_of_file(pair.pem)
    assert keys_of_jwks(jwks(pair.jwk))[0] == {pair.kid: key_of_file(pair.pem)}


def test_a_jwk_that_names_its_algorithm_is_used_with_no_other() -> None:
    assert key_of_file(json.dumps({**ISSUER.rsa.jwk, "alg": "PS256"}).encode()).algorithms == {"PS256"}
    for other in ("HS256", "none", "ES256", 7):
        with pytest.raises(BadKey, match="its alg is"):
            key_of_file(json.dumps({**ISSUER.rsa.jwk, "alg": other}).encode())


def test_a_shared_secret_is_taken_from_a_file_and_never_from_a_provider() -> None:
    assert key_of_file(json.dumps(SECRET).encode()).algorithms == {"HS256", "HS384"}
    keys, left_out = keys_of_jwks(jwks(SECRET, ISSUER.elliptic.jwk))
    assert list(keys) == ["ec-1"]
    assert left_out == ["key 0: it is a shared secret, and those are taken from files of oauth2.keys only"]


def test_a_certificate_stands_for_its_key() -> None:
    certificate = trustme.CA().issue_cert("issuer").cert_chain_pems[0].bytes()
    assert key_of_file(certificate).algorithms == {"ES256"}


def public_pem(private: Any) -> bytes:
    return SigningKey("", "", private).pem


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n",
        b"{}",
        b"{",
        b'{"kty": "RSA"}',
        b'{"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"}',
        json.dumps({"kty": "oct", "k": encoded(b"short")}).encode(),
        public_pem(rsa.generate_private_key(65537, 1024)),
        public_pem(ec.generate_private_key(ec.SECP256K1())),
        public_pem(dsa.generate_private_key(1024)),
    ],
)
def test_what_is_no_key_or_a_weak_one_is_refused(content: bytes) -> None:
    with pytest.raises(BadKey):
        key_of_file(content)


def test_a_private_key_is_refused_wherever_it_comes_from() -> None:
    private = ISSUER.rsa.private
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    with pytest.raises(BadKey):
        key_of_file(private.private_bytes(*form))
    with pytest.raises(BadKey, match="private key"):
        keys_of_jwks(jwks({**ISSUER.rsa.jwk, "d": "AQAB"}))


def test_keys_that_cannot_be_used_are_left_out_and_told_of() -> None:
    encryption = {**ISSUER.rsa.jwk, "use": "enc", "kid": "e"}
    keys, left_out = keys_of_jwks(jwks(encryption, 7, {"kty": "x", "kid": "y"}, {"kid": 7}, ISSUER.rsa.jwk))
    assert list(keys) == ["rsa-1"]
    assert len(left_out) == 4 and left_out[0] == "key 0: its use is not sig"


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{}", jwks(), b'{"keys": {}}', b"\xff", b"[" * 100_000, jwks(*[{}] * 65)]
)
def test_a_provider_without_a_key_that_can_be_used_has_said_nothing(content: bytes) -> None:
    with pytest.raises(BadKey):
        keys_of_jwks(content)
