"""Hashes of passwords: as users' records keep them, and as definitions of Leveret and RabbitMQ name them.

    kept                            in definitions
    $argon2id$v=19$m=...,t=...      argon2id, the same text
    $rabbit-sha256$<base64>         rabbit_password_hashing_sha256, <base64>
    $rabbit-sha512$<base64>         rabbit_password_hashing_sha512, <base64>
    $rabbit-md5$<base64>            rabbit_password_hashing_md5, <base64>

<base64> is of 4 bytes of salt, and of the digest of salt and password. RabbitMQ knows these three and not argon2id.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets

import argon2

from broker.catalog.definitions.definitions_writer import PasswordHashes
from broker.errors import PreconditionFailed

ARGON2 = "argon2id"
HASHINGS = (ARGON2, "sha256", "sha512")  # that new passwords may be kept with
RABBITMQ_NAME = "rabbit_password_hashing_"
SALT_BYTES = 4
DIGEST_BYTES = {"sha256": 32, "sha512": 64, "md5": 16}
BASE64_LENGTH_OF_SHA512 = 92  # with the salt
# Of a hash that is imported: a verification must not cost more than this, whoever made it.
IMPORTED_MEMORY_KIB_MAX = 262_144
IMPORTED_PASSES_MAX = 16


def salted_hash(digest: str, password: bytes) -> str:
    """What to keep, in RabbitMQ's form."""
    salt = secrets.token_bytes(SALT_BYTES)
    return _kept(digest, base64.b64encode(salt + _digest(digest, salt, password)).decode())


def salted_hash_matches(kept: str, password: bytes) -> bool:
    """False for what is not in RabbitMQ's form."""
    digest, encoded = _parts(kept)
    if digest not in DIGEST_BYTES:
        return False
    try:
        salt, expected = _decoded(digest, encoded)
    except PreconditionFailed:
        return False
    return hmac.compare_digest(_digest(digest, salt, password), expected)


class Hashes(PasswordHashes):
    """See the module."""

    def exported(self, kept: str) -> tuple[str, str]:
        digest, encoded = _parts(kept)
        return (RABBITMQ_NAME + digest, encoded) if digest in DIGEST_BYTES else (ARGON2, kept)

    def imported(self, algorithm: str, password_hash: str) -> str:
        if algorithm == ARGON2:
            return _checked_argon2(password_hash)
        algorithm = algorithm or _algorithm_by_length(password_hash)
        digest = algorithm.removeprefix(RABBITMQ_NAME)
        if digest == algorithm or digest not in DIGEST_BYTES:
            known = ", ".join([*(RABBITMQ_NAME + one for one in DIGEST_BYTES), ARGON2])
            raise PreconditionFailed(f"hashing_algorithm '{algorithm}' is not known: give one of {known}")
        _decoded(digest, password_hash)
        return _kept(digest, password_hash)


def _kept(digest: str, encoded: str) -> str:
    return f"$rabbit-{digest}${encoded}"


def _parts(kept: str) -> tuple[str, str]:
    """Digest and <base64>; the digest is none of DIGEST_BYTES where the form is another."""
    digest, _, encoded = kept.removeprefix("$rabbit-").partition("$")
    return digest, encoded


def _digest(name: str, salt: bytes, password: bytes) -> bytes:
    return hashlib.new(name, salt + password, usedforsecurity=False).digest()


def _decoded(digest: str, encoded: str) -> tuple[bytes, bytes]:
    """Raises PreconditionFailed, without the hash in it."""
    try:
        raw = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError) as error:
        raise PreconditionFailed(f"a password hash of RabbitMQ is base64: {error}") from error
    expected = SALT_BYTES + DIGEST_BYTES[digest]
    if len(raw) != expected:
        raise PreconditionFailed(f"a salted {digest} hash of RabbitMQ has {expected} bytes, not {len(raw)}")
    return raw[:SALT_BYTES], raw[SALT_BYTES:]


def _algorithm_by_length(encoded: str) -> str:
    """rabbitmqadmin does not tell that it was told to use SHA-512. RabbitMQ then keeps a hash that lets nobody in."""
    is_long = len(encoded) == BASE64_LENGTH_OF_SHA512
    return RABBITMQ_NAME + ("sha512" if is_long else "sha256")


def _checked_argon2(password_hash: str) -> str:
    try:
        cost = argon2.extract_parameters(password_hash)
    except argon2.exceptions.InvalidHashError:
        raise PreconditionFailed(f"a password hash of {ARGON2} begins with $argon2id$, and this one is none") from None
    costs_too_much = cost.memory_cost > IMPORTED_MEMORY_KIB_MAX or cost.time_cost > IMPORTED_PASSES_MAX
    if cost.type is not argon2.Type.ID or costs_too_much:
        raise PreconditionFailed(
            f"a password hash that costs more than {IMPORTED_MEMORY_KIB_MAX} KiB or {IMPORTED_PASSES_MAX} passes, or is "
            f"not of {ARGON2}, is not taken"
        )
    return password_hash
