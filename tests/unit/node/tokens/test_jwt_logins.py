"""Logins with tokens: verified once, remembered until they end, in turn for each source, and with keys that came meanwhile."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from typing import Any

import pytest

from broker.errors import AccessRefused, BrokerError, ResourceExhausted
from broker.vouched.claims import TokenTerms
from node.tokens.jwt_logins import QUEUE_LIMITS, REMEMBERED_MAX, JwtLogins
from node.tokens.key_ring import REFRESH_PAUSE_S, KeyRing
from node.tokens.token_check import TokenRules
from node.tokens.verification_keys import ALGORITHMS
from tests.token_issuer import RESOURCE_SERVER, SigningKey, TokenIssuer
from tests.unit.node.test_auth import Held, Later

ISSUER = TokenIssuer()
RULES = TokenRules(TokenTerms(RESOURCE_SERVER, f"{RESOURCE_SERVER}."), frozenset(ALGORITHMS))


def jwks(*keys: SigningKey) -> bytes:
    return json.dumps({"keys": [key.jwk for key in keys]}).encode()


class World:
    """`held` has the checks that wait for the thread, `provider` the requests for keys."""

    def __init__(self) -> None:
        self.later = Later()
        self.held = Held()
        self.wall_ms = int(time.time() * 1000)
        self.provider: list[Callable[[bytes | None, str], None]] = []
        self.ring = KeyRing({}, self, lambda: self.later.now, logging.getLogger("test"))
        self.logins = JwtLogins(self.ring, RULES, self.held, lambda: self.later.now, self.later, lambda: self.wall_ms)
        self.ring.refresh()
        self.provide(jwks(ISSUER.elliptic))

    def fetch(self, done: Callable[[bytes | None, str], None]) -> None:
        self.provider.append(done)

    def provide(self, content: bytes | None) -> None:
        self.provider.pop()(content, "it does not answer")

    def log_in(self, token: str, source: str = "192.0.2.1") -> list[Any]:
        """The user, or the error, lands in the list."""
        answers: list[Any] = []
        self.logins.log_in(token.encode(), source).then(answers.append, answers.append)
        return answers

    def work(self) -> None:
        """All checks that may run."""
        while self.held.waiting:
            self.held.release()
            self.later.advance(0.05)


@pytest.fixture
def world() -> World:
    return World()


def test_a_token_is_verified_once_and_known_until_it_ends(world: World) -> None:
    token = ISSUER.token(exp=world.wall_ms // 1000 + 60)
    first, second = world.log_in(token), world.log_in(token, "192.0.2.2")
    assert len(world.held.waiting) == 1, "equal ones share a check"
    world.work()
    assert first[0].name == second[0].name == "alice"
    assert world.log_in(token)[0] is first[0] and not world.held.waiting
    world.wall_ms += 60_000
    assert world.log_in(token) == [] and len(world.held.waiting) == 1
    assert len(world.logins) == 0


def test_a_refusal_says_why_and_is_not_remembered(world: World) -> None:
    answers = world.log_in(ISSUER.token(aud="other"))
    world.work()
    (error,) = answers
    assert isinstance(error, AccessRefused) and "audience" in error.text
    assert len(world.logins) == 0


def test_the_tokens_used_last_are_remembered(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("node.tokens.jwt_logins.REMEMBERED_MAX", 2)
    tokens = [ISSUER.token(jti=str(number)) for number in range(3)]
    for token in (tokens[0], tokens[1], tokens[0], tokens[2]):
        world.log_in(token)
        world.work()
    assert len(world.logins) == 2
    assert world.log_in(tokens[0]) and not world.log_in(tokens[1])
    assert REMEMBERED_MAX == 4_096


def test_a_key_that_is_new_is_asked_for_and_the_token_waits(world: World) -> None:
    world.later.advance(REFRESH_PAUSE_S)
    answers = world.log_in(ISSUER.token(key=ISSUER.edwards))
    world.work()
    assert answers == [] and len(world.provider) == 1
    world.provide(jwks(ISSUER.elliptic, ISSUER.edwards))
    world.work()
    assert answers[0].name == "alice"


@pytest.mark.parametrize("content", [None, jwks(ISSUER.elliptic)])
def test_a_key_that_the_provider_does_not_have_either_is_refused(world: World, content: bytes | None) -> None:
    world.later.advance(REFRESH_PAUSE_S)
    answers = world.log_in(ISSUER.token(key=ISSUER.edwards))
    world.work()
    world.provide(content)
    world.work()
    assert isinstance(answers[0], AccessRefused) and "kid" in answers[0].text


def test_made_up_key_ids_do_not_have_the_provider_asked_again_and_again(world: World) -> None:
    world.later.advance(REFRESH_PAUSE_S)
    for number in range(20):
        world.log_in(ISSUER.token(header={"kid": f"made-up-{number}"}))
    world.work()
    assert len(world.provider) == 1
    world.provide(jwks(ISSUER.elliptic))
    world.work()
    late = world.log_in(ISSUER.token(header={"kid": "made-up"}))
    world.work()
    assert "asked a moment ago" in late[0].text and world.provider == []


def test_tokens_are_verified_anew_when_the_provider_publishes_other_keys(world: World) -> None:
    token = ISSUER.token()
    world.log_in(token)
    world.work()
    world.later.advance(REFRESH_PAUSE_S)
    world.ring.refresh()
    world.provide(jwks(ISSUER.edwards))
    answers = world.log_in(token)
    world.work()
    assert isinstance(answers[0], AccessRefused)


def test_a_key_taken_back_while_a_token_is_verified_with_it_is_not_remembered_for_it(world: World) -> None:
    world.log_in(ISSUER.token())
    work, done = world.held.waiting.pop()
    verdict = work()
    world.later.advance(REFRESH_PAUSE_S)
    world.ring.refresh()
    world.provide(jwks(ISSUER.edwards))
    done(verdict, None)
    assert len(world.logins) == 0


def test_a_flood_of_bad_tokens_takes_a_share_of_its_source_and_delays_no_other(world: World) -> None:
    mine = TokenIssuer()
    flood = [world.log_in(mine.token(jti=str(number)), "203.0.113.9") for number in range(200)]
    good = world.log_in(ISSUER.token(), "192.0.2.1")
    checked = 0
    while not good:
        world.held.release()
        world.later.advance(0.001)
        checked += 1
    assert good[0].name == "alice" and checked <= 3
    assert sum(map(bool, flood)) <= 2


def test_what_waits_is_bounded_and_told_to_try_again(world: World) -> None:
    answers = [
        world.log_in(f"eyJhbGciOiJFUzI1NiJ9.e30.{number:04}") for number in range(QUEUE_LIMITS.waiting_per_source + 10)
    ]
    world.later.advance(2.0)
    busy = [error for answer in answers for error in answer if isinstance(error, ResourceExhausted)]
    assert len(busy) == 9, "one is being checked"


@pytest.mark.parametrize("token", ["", "x", "x" * (1 << 20), "e" * 100 + "." * 50, "\x00"])
def test_whatever_is_said_to_be_a_token_is_refused_like_any_wrong_one(world: World, token: str) -> None:
    answers: list[BrokerError] = world.log_in(token)
    assert answers == [], "it waits and counts like any other"
    world.work()
    assert isinstance(answers[0], AccessRefused)
