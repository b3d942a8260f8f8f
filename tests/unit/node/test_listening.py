"""node/listening.py: a machine without IPv6 starts with the defaults, and fails where only ::1 was asked for."""

from __future__ import annotations

import logging

import pytest

from node.addresses import endpoint
from node.config import Config
from node.listening import addresses

LOGGER = logging.getLogger("test")
DEFAULTS = Config().listen


@pytest.mark.parametrize("option", ["amqp", "grpc", "http"])
def test_fronts_listen_on_both_loopback_addresses_by_default(option: str) -> None:
    found = addresses(option, getattr(DEFAULTS, option), LOGGER, has_ipv6=lambda: True)
    assert [host for host, _ in found] == ["127.0.0.1", "::1"]
    assert len({port for _, port in found}) == 1


@pytest.mark.parametrize("option", ["amqp", "grpc", "http"])
def test_without_ipv6_the_default_is_127_0_0_1_alone_and_the_log_says_so(
    option: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        found = addresses(option, getattr(DEFAULTS, option), LOGGER, has_ipv6=lambda: False)
    assert [host for host, _ in found] == ["127.0.0.1"]
    assert f"listen.{option}" in caplog.text


def test_what_was_asked_for_alone_is_not_left_out() -> None:
    assert addresses("amqp", ["[::1]:5672"], LOGGER, has_ipv6=lambda: False) == [("::1", 5672)]


def test_other_ipv6_addresses_stay() -> None:
    assert addresses("amqp", ["[::]:5672"], LOGGER, has_ipv6=lambda: False) == [("::", 5672)]


def test_an_address_is_written_so_that_it_can_be_read_again() -> None:
    assert (endpoint("127.0.0.1", 1), endpoint("::1", 1)) == ("127.0.0.1:1", "[::1]:1")
