"""links/shovel/definition.py: RabbitMQ's keys and texts, and no secret in any of them."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from links.parameter_checks import DefinitionError
from links.shovel.definition import read_definition

LEAST = {"src-uri": "amqp://u:hush@s", "src-queue": "q", "dest-uri": "amqp://u:hush@d"}


def test_what_is_not_said_is_as_rabbitmq_has_it() -> None:
    read = read_definition("s", LEAST)
    assert (read.ack_mode, read.reconnect_delay_s) == ("on-confirm", 5.0)
    assert (read.source.prefetch, read.source.delete_after, read.source.protocol) == (1000, "never", "amqp091")
    assert (read.destination.queue, read.destination.exchange, read.destination.exchange_key) == (None, None, None)


def test_older_names_mean_the_same() -> None:
    value = {"prefetch-count": 7, "delete-after": 9, "add-forward-headers": True, "publish-properties": {"app-id": "x"}}
    read = read_definition("s", LEAST | value)
    assert (read.source.prefetch, read.source.delete_after) == (7, 9)
    assert (read.destination.forward_headers, read.destination.properties) == (True, {"app_id": "x"})


def test_no_secret_is_in_its_description() -> None:
    assert "hush" not in repr(read_definition("s", LEAST))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"src-queue": None}, "src-queue should be binary, actually was None"),
        ({"src-exchange": "x"}, "Cannot specify 'src-exchange' and 'src-queue'"),
        ({"dest-queue": "a", "dest-exchange": "b"}, "Cannot specify 'dest-exchange' and 'dest-queue'"),
        ({"ack-mode": "no-ack", "src-delete-after": 5}, "Cannot specify 'no-ack' and numerical 'delete-after'"),
        ({"ack-mode": "maybe"}, "ack-mode should be one of on-confirm, on-publish, no-ack, actually was 'maybe'"),
        ({"delete-after": "soon"}, 'src-delete-after should be number, "never" or "queue-length", actually was'),
        ({"delete-after": 0}, "src-delete-after should be number"),
        ({"src-delete-after-duration": "1h"}, "src-delete-after-duration should be a number"),
        ({"delete-after-duration": 0}, "src-delete-after-duration should be above 0"),
        ({"delete-after": 2**63}, "src-delete-after should be number"),
        ({"prefetch-count": "5"}, "src-prefetch-count should be a number, actually was '5'"),
        ({"prefetch-count": 65_536}, "src-prefetch-count should be between 0 and 65535"),
        ({"reconnect-delay": -1}, "reconnect-delay should be between 0 and 86400 seconds"),
        ({"reconnect-delay": "soon"}, "reconnect-delay should be a number"),
        ({"reconnect-delay": True}, "reconnect-delay should be a number"),
        ({"dest-predeclared": 1}, "dest-predeclared should be boolean, actually was 1"),
        ({"src-queue": "q" * 256}, "src-queue should be at most 255 bytes"),
        ({"src-queue-args": []}, "src-queue-args should be a map"),
        ({"dest-publish-properties": {"colour": 1}}, "there is no message property"),
        ({"dest-publish-properties": {"priority": 300}}, "priority is between 0 and 255"),
        ({"dest-publish-properties": {"priority": "high"}}, "priority cannot be 'high'"),
        ({"dest-publish-properties": {"message-id": 5}}, "message-id cannot be 5"),
        (
            {"dest-publish-properties": {"expiration": date(2026, 1, 1)}},
            "expiration cannot be datetime.date(2026, 1, 1)",
        ),
        ({"dest-publish-properties": {"headers": 5}}, "headers cannot be 5"),
        ({"unknown": 1}, "Unrecognised terms unknown in s"),
        ({"src-protocol": "amqp10"}, "src-protocol should be one of amqp091, local"),
        ({"src-uri": []}, "src-uri should have at least one URI"),
        ({"src-uri": ["amqp://u:hush@h", 5]}, "src-uri should be binary, actually was int"),
        ({"src-uri": "amqp://u:hush@h:x"}, '"amqp://h:x" not a valid URI'),
        ({"dest-uri": "amqp:///v"}, '"amqp:///v" names no user'),
    ],
)
def test_what_is_wrong_is_said(change: dict[str, Any], text: str) -> None:
    with pytest.raises(DefinitionError) as raised:
        read_definition("s", LEAST | change)
    assert text in str(raised.value)
    assert "hush" not in str(raised.value)


@pytest.mark.parametrize("value", [None, ["amqp://u:hush@h"], "amqp://u:hush@h", 5])
def test_what_is_no_object_is_refused(value: Any) -> None:
    with pytest.raises(DefinitionError, match="s should be a map, actually was") as raised:
        read_definition("s", value)
    assert "hush" not in str(raised.value)


@pytest.mark.parametrize(("given", "delay_s"), [(0, 0.0), (1e-9, 1.0), (0.5, 1.0), (7, 7.0), (None, 5.0)])
def test_who_begins_again_waits_for_a_second_at_least(given: float | None, delay_s: float) -> None:
    """Less kept a node busy with connecting."""
    value = LEAST if given is None else LEAST | {"reconnect-delay": given}
    assert read_definition("s", value).reconnect_delay_s == delay_s
