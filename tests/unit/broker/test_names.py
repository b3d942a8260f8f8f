"""Names: which are reserved, and RabbitMQ's words about them."""

import pytest

from broker.errors import AccessRefused
from broker.names import (
    check_deletable_exchange,
    check_not_default_exchange,
    check_not_reserved,
    clean,
    not_found,
    server_consumer_tag,
    server_named,
)


def test_line_breaks_are_stripped() -> None:
    assert clean("a\r\nb\n") == "ab"
    assert clean("plain") == "plain"


def test_reserved_names() -> None:
    with pytest.raises(AccessRefused) as refused:
        check_not_reserved("queue", "amq.foo")
    assert refused.value.text == "queue name 'amq.foo' contains reserved prefix 'amq.*'"
    check_not_reserved("queue", "amqp")


def test_the_default_exchange() -> None:
    for check in (check_not_default_exchange, lambda name: check_deletable_exchange(name, "/")):
        with pytest.raises(AccessRefused) as refused:
            check("")
        assert refused.value.text == "operation not permitted on the default exchange"
    check_not_default_exchange("x")


@pytest.mark.parametrize("name", ["amq.direct", "amq.foo"])
def test_system_exchanges_are_not_deleted(name: str) -> None:
    with pytest.raises(AccessRefused) as refused:
        check_deletable_exchange(name, "/")
    assert refused.value.text == f"deletion of system exchange '{name}' in vhost '/' not allowed"
    check_deletable_exchange("mine", "/")


def test_what_is_missing() -> None:
    assert not_found("queue", "x", "/").text == "no queue 'x' in vhost '/'"


def test_names_made_by_the_broker() -> None:
    assert server_named(b"\xff" * 16) == "amq.gen-_____________________w"
    assert server_consumer_tag(bytes(16)) == "amq.ctag-AAAAAAAAAAAAAAAAAAAAAA"
