"""Keys that signatures of tokens are verified with, and with which algorithms each may be used.

The key decides that, never the token: with the text of a public key as the secret of HS256, say, everybody could sign. A shared
secret is a key only where the operator has put it (`shared_secrets`), and no algorithm is `none`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import jwt
import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from cryptography.x509 import load_pem_x509_certificate

RSA_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
EC_ALGORITHMS = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
HMAC_ALGORITHMS = {"HS256": 32, "HS384": 48, "HS512": 64}  # with the bytes that a secret has at least
ALGORITHMS = (*RSA_ALGORITHMS, *EC_ALGORITHMS.values(), "EdDSA", *HMAC_ALGORITHMS)
RSA_BITS_MIN = 2_048
RSA_BITS_MAX = 8_192  # a verification takes time with the square of it
JWKS_KEYS_MAX = 64
SECRET = "oct"


class BadKey(Exception):
    """Returned when a key cannot be used; the text says why, without the key."""


@dataclass(slots=True, frozen=True)
class VerificationKey:
    """One key."""

    key: Any = field(repr=False)  # as the library takes it
    algorithms: frozenset[str]


def key_of_file(content: bytes) -> VerificationKey:
    """A PEM public key or certificate, or a JWK. Raises BadKey."""
    if content.lstrip().startswith(b"{"):
        return _key_of_jwk(_decoded(content, "the JWK"), shared_secrets=True)
    try:
        if b"BEGIN CERTIFICATE" in content:
            return _usable(load_pem_x509_certificate(content).public_key())
        return _usable(load_pem_public_key(content))
    except (ValueError, UnsupportedAlgorithm) as error:
        raise BadKey("it is no PEM public key, no PEM certificate and no JWK") from error


def keys_of_jwks(content: bytes) -> tuple[dict[str, VerificationKey], list[str]]:
    """By key id, and what is wrong with those that are left out: providers publish others too. Raises BadKey."""
    listed = _decoded(content, "the JWKS").get("keys")
    if not isinstance(listed, list) or len(listed) > JWKS_KEYS_MAX:
        raise BadKey(f"the JWKS has no list of keys, or more than {JWKS_KEYS_MAX}")
    keys, left_out = {}, []
    for place, jwk in enumerate(listed):
        try:
            kid = _kid(jwk)
            keys[kid] = _key_of_jwk(jwk, shared_secrets=False)
        except BadKey as error:
            left_out.append(f"key {place}: {error}")
    if not keys:
        raise BadKey(f"the JWKS has no key that can be used: {'; '.join(left_out) or 'it is empty'}")
    return keys, left_out


def _decoded(content: bytes, what: str) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadKey(f"{what} is not JSON") from error
    if not isinstance(value, dict):
        raise BadKey(f"{what} is no JSON object")
    return value


def _kid(jwk: Any) -> str:
    """Empty: it has none, and is for tokens that name none."""
    kid = jwk.get("kid", "") if isinstance(jwk, dict) else None
    if not isinstance(kid, str):
        raise BadKey("it is no object, or its kid is no text")
    return kid


def _key_of_jwk(jwk: Mapping[str, Any], *, shared_secrets: bool) -> VerificationKey:
    if jwk.get("use", "sig") != "sig":
        raise BadKey("its use is not sig")
    if "d" in jwk:
        raise BadKey("it is a private key, which only its issuer is to have")
    if jwk.get("kty") == SECRET and not shared_secrets:
        raise BadKey("it is a shared secret, and those are taken from files of oauth2.keys only")
    try:
        key = jwt.PyJWK({name: value for name, value in jwk.items() if name != "alg"}).key
    except (jwt.PyJWTError, ValueError, TypeError, KeyError, UnsupportedAlgorithm) as error:
        raise BadKey(f"it cannot be read as a key of kind {str(jwk.get('kty'))[:20]!r}") from error
    usable = _usable(key)
    named = jwk.get("alg")
    return usable if named is None else _only(usable, named)


def _only(key: VerificationKey, algorithm: Any) -> VerificationKey:
    if algorithm not in key.algorithms:
        raise BadKey(f"its alg is {str(algorithm)[:20]!r}, and it can be used with {', '.join(sorted(key.algorithms))}")
    return VerificationKey(key.key, frozenset({algorithm}))


def _usable(key: Any) -> VerificationKey:
    match key:
        case rsa.RSAPublicKey() if RSA_BITS_MIN <= key.key_size <= RSA_BITS_MAX:
            return VerificationKey(key, frozenset(RSA_ALGORITHMS))
        case ec.EllipticCurvePublicKey() if key.curve.name in EC_ALGORITHMS:
            return VerificationKey(key, frozenset({EC_ALGORITHMS[key.curve.name]}))
        case ed25519.Ed25519PublicKey() | ed448.Ed448PublicKey():
            return VerificationKey(key, frozenset({"EdDSA"}))
        case bytes() if len(key) >= min(HMAC_ALGORITHMS.values()):
            long_enough = {name for name, size in HMAC_ALGORITHMS.items() if len(key) >= size}
            return VerificationKey(key, frozenset(long_enough))
    raise BadKey(
        f"give an RSA key of {RSA_BITS_MIN} to {RSA_BITS_MAX} bits, an elliptic curve key of {', '.join(EC_ALGORITHMS)}, an "
        f"Ed25519 or Ed448 key, or a secret of at least {min(HMAC_ALGORITHMS.values())} bytes"
    )
