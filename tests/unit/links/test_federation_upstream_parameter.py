"""links/federation/upstream.py: keys, defaults, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from links.federation.upstream import check_upstream, check_upstream_set, read_upstream
from links.parameter_checks import DefinitionError

URI = "amqp://user:secret@h"


def test_defaults_are_those_of_rabbitmq() -> None:
    found = read_upstream("up", {"uri": URI})
    assert (found.uris, found.prefetch, found.reconnect_delay_s, found.ack_mode) == ((URI,), 1000, 5.0, "on-confirm")
    assert (found.max_hops, found.expires_ms, found.message_ttl_ms, found.queue_type) == (1, None, None, "classic")
    assert (found.exchange, found.queue, found.consumer_tag) == (None, None, "federation-link-up")
    assert (found.trust_user_id, found.cleans_up) == (False, True)
    assert "secret" not in repr(found)


def test_an_entry_of_a_set_says_otherwise() -> None:
    found = read_upstream("up", {"uri": URI, "max-hops": 2, "queue": "a"}, {"upstream": "up", "queue": "b"})
    assert (found.max_hops, found.queue) == (2, "b")


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ([], "up should be a map"),
        ({}, 'Key "uri" not found in up'),
        ({"uri": "http://h"}, "its scheme is 'http'"),
        ({"uri": URI, "hops": 1}, "Unrecognised terms hops in up"),
        ({"uri": URI, "max-hops": 0}, "max-hops should be between 1 and 32767, actually was 0"),
        ({"uri": URI, "expires": "1"}, "expires should be a number"),
        ({"uri": URI, "ack-mode": "never"}, "ack-mode should be one of on-confirm, on-publish, no-ack"),
        ({"uri": URI, "queue-type": "stream"}, "queue-type should be one of classic, quorum"),
        ({"uri": URI, "trust-user-id": 1}, "trust-user-id should be boolean"),
    ],
)
def test_what_is_no_upstream_is_refused(value: Any, why: str) -> None:
    with pytest.raises(DefinitionError, match=why) as raised:
        check_upstream("up", value)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({}, "s should be a list of upstreams"),
        ([{}], 'Key "upstream" not found in s'),
        ([{"upstream": 1}], "upstream should be binary"),
        ([{"upstream": "u", "prefetch-count": -1}], "prefetch-count should be between"),
    ],
)
def test_what_is_no_set_is_refused(value: Any, why: str) -> None:
    with pytest.raises(DefinitionError, match=why):
        check_upstream_set("s", value)
