"""links/federation/exchange_setup.py: what is asked of upstreams of every kind, and which refusals end a link."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from broker.records import ExchangeRecord
from links.amqp.conversation import ChannelRefused, Steps
from links.federation.exchange_setup import UNANSWERED_MAX, ExchangeLinkTerms, begin_steps, change_steps, leave_steps
from links.federation.upstream import read_upstream
from links.parameter_checks import DefinitionError

TERMS = ExchangeLinkTerms(
    read_upstream("up", {"uri": "amqp://up"}), ExchangeRecord("/", "x", "topic"), cluster="down", vhost_there="/"
)
Asked = tuple[str, dict[str, Any]]


def asked(steps: Steps, refusal: Callable[[str, dict[str, Any]], int | None] = lambda *_: None) -> list[Asked]:
    """All requests. `refusal`: the code with which the upstream refuses one."""
    found: list[Asked] = []
    request = next(steps)
    while True:
        _, method, given = request
        found.append((method, given))
        code = refusal(method, given)
        try:
            request = steps.send({}) if code is None else steps.throw(ChannelRefused(code, "refused"))
        except StopIteration:
            return found


def begin(refusal: Callable[[str, dict[str, Any]], int | None] = lambda *_: None) -> list[Asked]:
    return asked(begin_steps(TERMS, lambda suffix: [(True, "k", {})]), refusal)


def declares_internal(method: str, given: dict[str, Any]) -> bool:
    return method == "exchange.declare" and given["internal"]


def test_one_of_many_bindings_is_answered_so_that_not_all_wait_and_all_are_known_to_be_done() -> None:
    found = asked(change_steps(TERMS, "A", [(True, str(number), {}) for number in range(2 * UNANSWERED_MAX + 1)]))
    *bindings, (last, given) = found
    answered = [at for at, (_, one) in enumerate(bindings, 1) if not one["no_wait"]]
    assert answered == [UNANSWERED_MAX, 2 * UNANSWERED_MAX]
    assert (last, given["passive"], given["queue"]) == ("queue.declare", True, TERMS.queue)


def test_a_broker_that_does_not_know_the_type_gets_a_fanout_exchange_that_goes_like_the_other() -> None:
    def refusal(method: str, given: dict[str, Any]) -> int | None:
        return 406 if method == "exchange.declare" and given["type"] == "x-federation-upstream" else None

    _, fanout = [given for method, given in begin(refusal) if declares_internal(method, given)]
    assert (fanout["type"], fanout["durable"], fanout["auto_delete"], fanout["internal"]) == (
        "fanout",
        True,
        True,
        True,
    )
    assert fanout["arguments"] == {"x-internal-purpose": "federation"}


def test_a_queue_that_was_declared_with_other_limits_is_taken_as_it_is() -> None:
    def refusal(method: str, given: dict[str, Any]) -> int | None:
        return 406 if method == "queue.declare" and not given["passive"] else None

    assert [given["passive"] for method, given in begin(refusal) if method == "queue.declare"][:2] == [False, True]


@pytest.mark.parametrize("what", ["queue", "exchange", "internal"])
def test_what_may_not_be_declared_or_looked_at_ends_the_link(what: str) -> None:
    """Taken for one that is not there, an exchange was declared; taken for an older broker, hops were not counted there."""

    def refusal(method: str, given: dict[str, Any]) -> int | None:
        met = {"queue": method == "queue.declare", "exchange": given.get("passive"), "internal": given.get("internal")}
        if not met[what]:
            return None
        refused.append(method)
        return 403

    refused: list[str] = []
    with pytest.raises(ChannelRefused, match="403"):
        begin(refusal)
    assert len(refused) == 1, "nothing was asked behind it"


def test_the_upstream_is_told_how_much_it_may_send_and_where_messages_must_not_have_been() -> None:
    terms = replace(TERMS, record=replace(TERMS.record, vhost="v"))
    found = asked(begin_steps(terms, lambda suffix: []))
    assert [given["prefetch_count"] for method, given in found if method == "basic.qos"] == [TERMS.upstream.prefetch]
    (internal,) = [given["arguments"] for method, given in found if declares_internal(method, given)]
    assert (internal["x-downstream-name"], internal["x-downstream-vhost"]) == ("down", "v")


def test_what_is_deleted_when_a_link_leaves_is_its_own_also_when_it_is_not_empty() -> None:
    (_, queue), (_, exchange) = asked(leave_steps(TERMS, "B"))
    assert (queue["queue"], queue["if_unused"], queue["if_empty"]) == ("federation: x -> down", False, False)
    assert exchange["exchange"] == "federation: x -> down B"


@pytest.mark.parametrize(
    ("vhost", "there", "name"),
    [
        ("/", None, "federation: x -> down"),
        ("/", "y", "federation: y -> down:x"),
        ("v", None, "federation: x -> down:v:x"),
    ],
)
def test_two_exchanges_that_are_federated_from_one_have_queues_of_their_own_there(
    vhost: str, there: str | None, name: str
) -> None:
    upstream = read_upstream("up", {"uri": "amqp://up", **({"exchange": there} if there else {})})
    terms = ExchangeLinkTerms(upstream, ExchangeRecord(vhost, "x", "topic"), cluster="down", vhost_there="/")
    assert terms.queue == name


def test_an_exchange_that_is_there_is_taken_as_it_is_and_one_that_is_not_is_declared_as_the_one_here() -> None:
    def declares(method: str, given: dict[str, Any]) -> bool:
        return method == "exchange.declare" and given["exchange"] == "x"

    there = [given for method, given in begin() if declares(method, given)]
    assert [one["passive"] for one in there] == [True]
    missing = begin(lambda method, given: 404 if declares(method, given) and given["passive"] else None)
    assert [(one["passive"], one["type"]) for method, one in missing if declares(method, one)] == [
        (True, "fanout"),
        (False, "topic"),
    ]


def test_no_channel_is_closed_that_its_upstream_has_closed() -> None:
    """Each refusal closes the channel on which it was asked; a close of that ends the connection."""
    refused = begin(
        lambda method, given: 406 if declares_internal(method, given) and given["type"] != "fanout" else None
    )
    assert [method for method, _ in refused].count("channel.close") == [method for method, _ in begin()].count(
        "channel.close"
    ) - 1
    other_arguments = begin(lambda method, given: 406 if method == "queue.declare" and not given["passive"] else None)
    assert [method for method, _ in other_arguments].count("channel.close") == [method for method, _ in begin()].count(
        "channel.close"
    ) - 1


def test_a_name_that_has_no_room_at_the_upstream_is_refused() -> None:
    longest = 255 - len(replace(TERMS, record=ExchangeRecord("/", "", "topic")).internal("A"))
    fits = replace(TERMS, record=ExchangeRecord("/", "x" * longest, "topic"))
    assert len(fits.internal("A")) == 255
    fits.check_names()
    with pytest.raises(DefinitionError, match="is too long for the name of a queue at the upstream"):
        replace(TERMS, record=ExchangeRecord("/", "x" * (longest + 1), "topic")).check_names()
