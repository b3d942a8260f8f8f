"""When the provider of keys is asked, and which keys are good while it says nothing or nonsense."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from node.tokens.key_ring import REFRESH_EVERY_S, REFRESH_PAUSE_S, KeyRing
from node.tokens.verification_keys import key_of_file
from tests.token_issuer import TokenIssuer

ISSUER = TokenIssuer()
FIRST = json.dumps({"keys": [ISSUER.elliptic.jwk]}).encode()
SECOND = json.dumps({"keys": [ISSUER.edwards.jwk]}).encode()


class Provider:
    """Answers when the test says so. Fulfils KeySource."""

    def __init__(self) -> None:
        self.asked: list[Callable[[bytes | None, str], None]] = []

    def fetch(self, done: Callable[[bytes | None, str], None]) -> None:
        self.asked.append(done)


class World:
    def __init__(self, configured: dict[str, Any] | None = None) -> None:
        self.now = 1_000.0
        self.provider = Provider()
        self.changes = 0
        self.ring = KeyRing(configured or {}, self.provider, lambda: self.now, logging.getLogger("test"))
        self.ring.on_changed = self._changed

    def _changed(self) -> None:
        self.changes += 1

    def refresh(self) -> list[bool]:
        """What is answered lands in the list."""
        answers: list[bool] = []
        self.ring.refresh().then(answers.append, lambda error: pytest.fail(str(error)))
        return answers

    def answer(self, content: bytes | None) -> None:
        self.provider.asked.pop()(content, "it does not answer")


def test_whoever_waits_is_told_when_the_provider_has_answered() -> None:
    world = World()
    first, second = world.refresh(), world.refresh()
    assert (first, second, len(world.provider.asked)) == ([], [], 1), "one request at a time"
    world.answer(FIRST)
    assert (first, second) == ([True], [True])
    assert list(world.ring.keys) == ["ec-1"] and world.changes == 1


def test_it_is_not_asked_again_a_moment_later_whether_it_has_answered_or_not() -> None:
    world = World()
    world.refresh()
    world.answer(None)
    assert world.refresh() == [False] and world.provider.asked == []
    world.now += REFRESH_PAUSE_S - 0.1
    assert world.refresh() == [False]
    world.now += 0.2
    assert world.refresh() == [] and len(world.provider.asked) == 1


@pytest.mark.parametrize("answer", [None, b"", b"{}", b'{"keys": []}', b"<html>"])
def test_the_last_keys_are_good_while_it_is_away_or_says_what_is_no_keys(answer: bytes | None) -> None:
    world = World()
    world.refresh()
    world.answer(FIRST)
    world.now += REFRESH_PAUSE_S
    waiting = world.refresh()
    world.answer(answer)
    assert waiting == [True] and list(world.ring.keys) == ["ec-1"] and world.changes == 1


def test_a_key_that_the_provider_takes_back_is_gone_and_whoever_remembers_hears_of_it() -> None:
    world = World()
    for content, changes in ((FIRST, 1), (FIRST, 1), (SECOND, 2)):
        world.refresh()
        world.answer(content)
        world.now += REFRESH_PAUSE_S
        assert world.changes == changes
    assert list(world.ring.keys) == ["ed-1"]


def test_keys_of_the_configuration_stay_and_count_before_those_of_the_provider() -> None:
    own = key_of_file(TokenIssuer().elliptic.pem)
    world = World({"ec-1": own})
    world.refresh()
    world.answer(FIRST)
    assert world.ring.keys == {"ec-1": own}
    world.now += REFRESH_PAUSE_S
    world.refresh()
    world.answer(SECOND)
    assert set(world.ring.keys) == {"ec-1", "ed-1"}


def test_what_was_said_an_hour_ago_is_asked_for_again_and_nobody_waits() -> None:
    world = World()
    world.refresh()
    world.answer(FIRST)
    world.ring.refresh_when_old()
    assert world.provider.asked == []
    world.now += REFRESH_EVERY_S
    world.ring.refresh_when_old()
    world.ring.refresh_when_old()
    assert len(world.provider.asked) == 1


def test_without_a_provider_nobody_is_asked() -> None:
    ring = KeyRing({}, None, lambda: 0.0, logging.getLogger("test"))
    answers: list[bool] = []
    ring.refresh().then(answers.append, lambda error: None)
    assert answers == [False]
