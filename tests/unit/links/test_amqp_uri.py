"""links/amqp/uri.py."""

from __future__ import annotations

import pytest

from links.amqp.uri import UriError, parse_uri, without_secrets


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("amqp://", ("", 5672, "/", None, None)),
        ("amqp:///", ("", 5672, "", None, None)),
        ("amqp:///%2f", ("", 5672, "/", None, None)),
        ("amqp://ada:s%40t@", ("", 5672, "/", "ada", "s@t")),
        ("amqp://ada:pw@/orders", ("", 5672, "orders", "ada", "pw")),
        ("amqp://host", ("host", 5672, "/", None, None)),
        ("amqps://host", ("host", 5671, "/", None, None)),
        ("AMQP://u:p@host:5673/v", ("host", 5673, "v", "u", "p")),
        ("amqp://u:@[::1]:5673/", ("::1", 5673, "", "u", "")),
    ],
)
def test_parts_and_their_defaults(text: str, expected: tuple[object, ...]) -> None:
    uri = parse_uri(text)
    assert (uri.host, uri.port, uri.vhost, uri.user, uri.password) == expected


def test_what_the_query_says() -> None:
    uri = parse_uri(
        "amqps://h/v?heartbeat=5&connection_timeout=900&frame_max=4096&channel_max=3&auth_mechanism=external"
        "&cacertfile=/ca.pem&certfile=/c.pem&keyfile=/k.pem&verify=verify_none&server_name_indication=other"
    )
    assert (uri.heartbeat_s, uri.connection_timeout_ms, uri.frame_max, uri.channel_max) == (5, 900, 4096, 3)
    assert (uri.mechanism, uri.verify, uri.server_name) == ("EXTERNAL", False, "other")
    assert dict(uri.files) == {"cacertfile": "/ca.pem", "certfile": "/c.pem", "keyfile": "/k.pem"}


def test_what_is_about_tls_means_nothing_without_it() -> None:
    """`rabbitmqadmin federation disable_tls_peer_verification_for_all_upstreams` sets it in every URI."""
    uri = parse_uri("amqp://h/v?verify=verify_none&cacertfile=/ca.pem&server_name_indication=other")
    assert (uri.tls, uri.shown) == (False, "amqp://h/v")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("http://h", "its scheme is 'http'"),
        ("h", "its scheme is ''"),
        ("amqp://h:70000", "a port is a number up to 65535"),
        ("amqp://h:x", "a port is a number up to 65535"),
        ("amqp://:5672", "a port needs a host"),
        ("amqp://h:0", "port 0"),
        ("amqp://h/a/b", "write it as %2F"),
        ("amqp://u:12#ss@h", "write it as %23"),
        ("amqp://h/%ff", "not UTF-8"),
        ("amqp://h?heartbeat=soon", "heartbeat is 'soon', expected a number from 0 to 65535"),
        ("amqp://h?heartbeat=65536", "heartbeat is '65536'"),
        ("amqp://h?username=x", "'username' cannot be set by a URI"),
        ("amqp://h?verify=maybe", "verify is 'maybe'"),
        ("amqps://h?verify=maybe", "verify is 'maybe', expected one of verify_peer, verify_none"),
        ("amqp://h?auth_mechanism=crdemo", "auth_mechanism is 'crdemo'"),
    ],
)
def test_what_cannot_be_read_is_refused_with_what_is_wrong(text: str, why: str) -> None:
    with pytest.raises(UriError) as raised:
        parse_uri(text)
    assert why in str(raised.value)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("amqp://ada:pw@host:5673/v", "amqp://host:5673/v"),
        ("amqps://ada:pw@host:5671/%2f?password=pw", "amqps://host"),
        ("amqp://ada:pw@host:x/pw", "amqp://host:x/pw"),
        ("amqp://ada:pw@host?heartbeat=pw", "amqp://host"),
        ("amqp://ada:p/w@host", "amqp://host"),
        ("amqp://ada:p#w@host", "amqp://host"),
        ("amqp://ada:p?w@host/v?x=pw", "amqp://host/v"),
        ("amqp://ada:p@w/w@host/a/b", "amqp://host/a/b"),
        ("ada:pw@host", "host"),
        ("\namqp://ada:p\nw@host/a/b", "\namqp://host/a/b"),
    ],
)
def test_no_secret_is_shown(text: str, shown: str) -> None:
    assert without_secrets(text) == shown


def test_no_secret_is_in_its_description() -> None:
    assert "pw" not in repr(parse_uri("amqp://ada:pw@host"))


def test_no_path_leads_to_the_vhost_that_the_asker_means() -> None:
    assert parse_uri("amqp://h", "own").vhost == "own"
    assert parse_uri("amqp://h/", "own").vhost == ""
    assert parse_uri("amqp://h/other", "own").vhost == "other"
