"""Tokens that let in, and all those that do not: forged, for other keys and algorithms, too large, too deep, or none at all."""

import json
import time
from typing import Any

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.vouched.claims import TokenTerms
from node.tokens.token_check import TOKEN_BYTES_MAX, TokenRules, TokenVerdict, checked, has_token_form
from node.tokens.verification_keys import ALGORITHMS, key_of_file
from tests.token_issuer import RESOURCE_SERVER, TokenIssuer, encoded, forged

ISSUER = TokenIssuer()
SECRET = b"a secret that issuer and node share, of 48 bytes"
KEYS = {
    "rsa-1": key_of_file(ISSUER.rsa.pem),
    "ec-1": key_of_file(ISSUER.elliptic.pem),
    "ed-1": key_of_file(ISSUER.edwards.pem),
    "shared": key_of_file(json.dumps({"kty": "oct", "k": encoded(SECRET)}).encode()),
}
RULES = TokenRules(TokenTerms(RESOURCE_SERVER, f"{RESOURCE_SERVER}."), frozenset(ALGORITHMS))
TOMORROW = int(time.time()) + 86_400  # a whole run of tests may lie between this line and the tests below
CLAIMS = {"sub": "mallory", "aud": RESOURCE_SERVER, "exp": TOMORROW, "scope": "leveret.tag:administrator"}


def check(token: str | bytes, rules: TokenRules = RULES) -> TokenVerdict:
    raw = token if isinstance(token, bytes) else token.encode()
    return checked(raw, KEYS, rules, lambda: int(time.time() * 1000))


@pytest.mark.parametrize("algorithm", ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"])
def test_rsa_signatures_are_verified(algorithm: str) -> None:
    verdict = check(ISSUER.token(key=ISSUER.rsa, algorithm=algorithm))
    assert verdict.user is not None and verdict.user.name == "alice"


def test_signatures_of_elliptic_curves_and_shared_secrets_are_verified() -> None:
    assert check(ISSUER.token())
    assert check(ISSUER.token(key=ISSUER.edwards))
    assert check(jwt.encode(CLAIMS, SECRET, "HS256", headers={"kid": "shared"}))


def test_a_key_is_used_with_its_own_algorithms_only() -> None:
    """The old attack: the public key, which everybody has, as the secret of an HMAC."""
    for algorithm in ("HS256", "HS384", "HS512"):
        signer = jwt.get_algorithm_by_name(algorithm)
        head = (
            f"{encoded(json.dumps({'alg': algorithm, 'kid': 'rsa-1'}).encode())}.{encoded(json.dumps(CLAIMS).encode())}"
        )
        token = f"{head}.{encoded(signer.sign(head.encode(), ISSUER.rsa.pem))}"
        assert "algorithm" in check(token).refused
    assert "algorithm" in check(ISSUER.token(key=ISSUER.edwards, header={"kid": "rsa-1"})).refused
    rules = TokenRules(RULES.terms, frozenset({"RS256"}))
    assert check(ISSUER.token(key=ISSUER.rsa), rules)
    assert not check(ISSUER.token(key=ISSUER.rsa, algorithm="PS256"), rules)
    assert not check(ISSUER.token(), rules)


@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "nOnE", "", None, 7, ["ES256"], {"a": 1}])
def test_no_token_says_that_it_needs_no_signature(algorithm: Any) -> None:
    assert not check(forged({"alg": algorithm, "kid": "ec-1", "typ": "JWT"}, CLAIMS))
    assert not check(forged({"alg": algorithm, "kid": "ec-1"}, CLAIMS, b"signature"))


def test_whoever_signs_with_a_key_of_their_own_is_refused() -> None:
    mine = TokenIssuer()
    assert check(mine.token()).refused == "its signature is not of that key"
    named = check(mine.token(header={"jwk": mine.elliptic.jwk, "jku": "http://127.0.0.1/", "x5u": "http://127.0.0.1/"}))
    assert named.refused == "its signature is not of that key"


@pytest.mark.parametrize("kid", ["other", "", "../../etc/passwd", "ec-1' OR '1'='1", "ec-1\x00", "ec-1 ", "x" * 5_000])
def test_a_key_id_finds_a_key_by_its_whole_name_or_none(kid: str) -> None:
    assert check(ISSUER.token(header={"kid": kid})).key_missing
    assert not check(forged({"alg": "ES256", "kid": 7}, CLAIMS))
    assert not check(forged({"alg": "ES256", "kid": ["ec-1"]}, CLAIMS))


def test_a_token_that_names_no_key_is_for_the_default_one() -> None:
    bare = jwt.encode({**CLAIMS}, ISSUER.elliptic.private, "ES256")
    assert check(bare).key_missing
    assert check(bare, TokenRules(RULES.terms, RULES.algorithms, "ec-1"))


def test_a_token_of_which_anything_was_changed_is_refused() -> None:
    head, payload, signature = ISSUER.token().split(".")
    assert not check(f"{head}.{encoded(json.dumps(CLAIMS).encode())}.{signature}")
    assert not check(f"{head}.{payload}.{encoded(bytes(64))}")
    assert not check(f"{head}.{payload}.")
    other = encoded(json.dumps({"alg": "ES256", "kid": "ec-1", "typ": "x"}).encode())
    assert not check(f"{other}.{payload}.{signature}")


def test_extensions_of_the_form_are_refused() -> None:
    assert check(ISSUER.token(header={"crit": ["exp"]})).refused


def test_a_token_that_is_too_large_is_refused_before_it_is_read() -> None:
    assert "at most 16384" in check(ISSUER.token(padding="x" * TOKEN_BYTES_MAX)).refused
    assert "at most 16384" in check(b"eyJ" + b"a" * (1 << 20)).refused


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_json_that_is_nested_deeply_is_refused(opening: str) -> None:
    deep = (opening * (5_000 // len(opening))).encode()
    token = jwt.PyJWS().encode(deep, ISSUER.elliptic.private, "ES256", headers={"kid": "ec-1"})
    assert "JSON" in check(token).refused
    assert check(forged(b'{"alg":' + deep, CLAIMS)).refused  # type: ignore[arg-type]


@pytest.mark.parametrize("payload", [b"", b"7", b"[]", b"null", b'"text"', b"\xff", b'{"exp": 1e999}', b'{"exp": NaN}'])
def test_claims_that_are_no_object_are_refused(payload: bytes) -> None:
    token = jwt.PyJWS().encode(payload, ISSUER.elliptic.private, "ES256", headers={"kid": "ec-1"})
    assert check(token).refused


def test_passwords_do_not_look_like_tokens() -> None:
    assert has_token_form(ISSUER.token().encode())
    for password in (
        b"",
        b"guest",
        b"a.b.c",
        b"eJ.a.b",
        b"correct horse.battery.staple",
        b"eyJhbGciOiJub25lIn0",
        b"eyJh.b",
    ):
        assert not has_token_form(password)


@given(st.binary(max_size=60) | st.text(st.sampled_from("eyJ0.-_=aZ"), max_size=60).map(str.encode))
def test_whatever_the_bytes_are_there_is_a_verdict(raw: bytes) -> None:
    assert not check(raw)


@given(st.integers(min_value=0), st.integers(min_value=1, max_value=255))
def test_a_token_with_one_byte_changed_lets_nobody_in_as_somebody_else(place: int, change: int) -> None:
    token = bytearray(ISSUER.token(key=ISSUER.edwards).encode())
    token[place % len(token)] ^= change
    verdict = check(bytes(token))
    assert verdict.user is None or verdict.user.name == "alice"
