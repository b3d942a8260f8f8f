"""node/doors/listening.py: where clients are sent, and that a node starts with the defaults on a machine without IPv6."""

from __future__ import annotations

import logging

import pytest

from broker.operations.node_facts import ListenerFacts
from node.addresses import endpoint
from node.config import Config, StreamSection
from node.doors.listening import addresses, advertised

LOGGER = logging.getLogger("test")
DEFAULTS = Config().listen


@pytest.mark.parametrize("option", ["amqp", "stream", "grpc", "http"])
def test_fronts_listen_on_both_loopback_addresses_by_default(option: str) -> None:
    found = addresses(option, getattr(DEFAULTS, option), LOGGER, has_ipv6=lambda: True)
    assert [host for host, _ in found] == ["127.0.0.1", "::1"]
    assert len({port for _, port in found}) == 1


@pytest.mark.parametrize("option", ["amqp", "stream", "grpc", "http"])
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


@pytest.mark.parametrize(
    ("listening", "section", "expected"),
    [
        ([("amqp", "127.0.0.1:5672")], StreamSection(), ""),
        ([("amqp", "127.0.0.1:5672"), ("stream", "10.0.0.1:5552")], StreamSection(), "10.0.0.1:5552"),
        ([("streams", "10.0.0.1:5551"), ("stream", "[::1]:5552")], StreamSection(), "[::1]:5552"),
        ([("streams", "10.0.0.1:5551")], StreamSection(), ""),
        ([("stream", "0.0.0.0:5552")], StreamSection(), "me:5552"),
        ([("stream", "[::]:5552")], StreamSection(advertised_port=1), "me:1"),
        ([("stream", "0.0.0.0:5552")], StreamSection(advertised_host="out.side"), "out.side:5552"),
        ([], StreamSection(advertised_host="out.side", advertised_port=1), ""),
    ],
)
def test_where_stream_clients_are_sent(listening: list[tuple[str, str]], section: StreamSection, expected: str) -> None:
    listeners = [ListenerFacts(protocol, address) for protocol, address in listening]
    assert advertised(section, listeners, "me", tls=False) == expected


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        (StreamSection(), "me:5551"),
        (StreamSection(advertised_host="out.side", advertised_port=1), "out.side:5551"),
        (StreamSection(advertised_tls_port=2), "me:2"),
    ],
)
def test_stream_clients_within_tls_are_sent_where_tls_is(section: StreamSection, expected: str) -> None:
    listeners = [ListenerFacts("stream", "10.0.0.1:5552"), ListenerFacts("streams", "0.0.0.0:5551", tls=True)]
    assert advertised(section, listeners, "me", tls=True) == expected
    assert advertised(section, listeners[:1], "me", tls=True) == ""
