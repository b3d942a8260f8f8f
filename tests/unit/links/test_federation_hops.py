"""links/federation/hops.py: what a link writes on messages, and how far bindings are copied."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from links.amqp.events import Delivered
from links.federation.hops import ExchangeStamp, QueueStamp, Stamp, copied_arguments
from native.content import body_bytes, encode, messages
from native.frame_split import LOOK_CC
from wire.amqp.tables import decode_properties, encode_properties, join_properties, join_table

ENTRY = {"uri": "amqp://up", "exchange": "x", "cluster-name": "up", "vhost": "/"}
HERE = ("down", "/")


def run(*props: bytes, redelivered: bool = False) -> Delivered:
    content = b"".join(encode(one, b"body") for one in props)
    size = body_bytes(content, 0, len(props))
    names = (1, b"tag", 1, redelivered, b"from", b"key", len(props), content, size)
    return Delivered(*names, False, 0, None, None, 0)


def stamped(stamp: Stamp, *props: bytes, redelivered: bool = False) -> list[dict[str, Any] | None]:
    """The properties of each message that goes on."""
    found = stamp.stamped(run(*props, redelivered=redelivered))
    return [None if one is None else decode_properties(messages(one, 0, 1)[0][0]) for one in found]


def with_headers(**headers: Any) -> bytes:
    return encode_properties({"headers": {name.replace("_", "-"): value for name, value in headers.items()}})


def exchange_stamp(max_hops: int = 2) -> ExchangeStamp:
    return ExchangeStamp(ENTRY, max_hops, HERE, trusts_user_id=False)


def test_the_newest_hop_comes_first_and_all_else_stays_as_it_was() -> None:
    older = {"cluster-name": "other", "vhost": "/", "x": 1.5}
    (found,) = stamped(exchange_stamp(), with_headers(x_received_from=[older], a=b"\xff"), redelivered=True)
    assert found == {"headers": {"x-received-from": [{**ENTRY, "redelivered": True}, older], "a": b"\xff"}}


def test_what_was_here_or_came_too_far_does_not_go_on() -> None:
    here = {"cluster-name": "down", "vhost": "/"}
    far = with_headers(x_received_from=[{}, {}])
    assert stamped(exchange_stamp(), with_headers(x_received_from=[here]), b"\0\0", far) == [
        None, {"headers": {"x-received-from": [{**ENTRY, "redelivered": False}]}}, None,
    ]  # fmt: skip


def test_a_message_whose_headers_have_no_room_for_it_does_not_go_on() -> None:
    assert stamped(exchange_stamp(), with_headers(a="a" * 131_000)) == [None]


def test_headers_that_cannot_be_read_give_way() -> None:
    unreadable = b"\x20\0" + b"\0\0\0\x03\x01a?"
    assert stamped(exchange_stamp(), unreadable) == [
        {"headers": {"x-received-from": [{**ENTRY, "redelivered": False}]}}
    ]


def test_a_list_of_links_that_is_nested_too_deep_is_a_clients_own_and_gives_way() -> None:
    """It must not end the link: the message would come again, for ever."""
    value = b"V"
    for _ in range(40):
        value = b"A" + len(value).to_bytes(4, "big") + value
    props = join_properties({"headers": join_table({"x-received-from": value})})
    assert stamped(exchange_stamp(), props) == [{"headers": {"x-received-from": [{**ENTRY, "redelivered": False}]}}]
    (found,) = stamped(QueueStamp({"uri": "amqp://up"}, trusts_user_id=False), props)
    assert found is not None
    assert [one["visit-count"] for one in found["headers"]["x-received-from"]] == [1]


def test_a_queue_link_notes_where_a_message_was_first_and_counts_its_visits() -> None:
    stamp = QueueStamp({"uri": "amqp://up", "queue": "q"}, trusts_user_id=False)
    (first,) = stamped(stamp, with_headers(CC=["r"]))
    assert first is not None
    hop = {"uri": "amqp://up", "queue": "q", "redelivered": False}
    assert first["headers"] == {
        "x-original-exchange": "from", "x-original-routing-key": "key", "x-original-cc": ["r"],
        "x-received-from": [{**hop, "visit-count": 1}],
    }  # fmt: skip
    (second,) = stamped(stamp, encode_properties(first))
    assert second is not None
    assert second["headers"]["x-received-from"] == [{**hop, "visit-count": 2}]
    assert not stamp.look_kept & LOOK_CC


def test_a_queue_link_keeps_what_other_links_have_written_and_counts_for_itself() -> None:
    stamp = QueueStamp({"uri": "amqp://up", "queue": "q"}, trusts_user_id=False)
    others = [{"uri": "amqp://far", "queue": "q", "visit-count": 7}, {"uri": "amqp://up", "queue": "r"}, 5]
    own = [{"uri": "amqp://up", "queue": "q", "visit-count": odd} for odd in (-1, 2**62, True, "2", 3)]
    (found,) = stamped(stamp, with_headers(x_received_from=[*others, *own]))
    assert found is not None
    hop = {"uri": "amqp://up", "queue": "q", "redelivered": False, "visit-count": 4}
    assert found["headers"]["x-received-from"] == [hop, *others]


def test_what_a_client_has_written_where_hops_are_noted_gives_way() -> None:
    assert stamped(exchange_stamp(), with_headers(x_received_from="a text of a client")) == [
        {"headers": {"x-received-from": [{**ENTRY, "redelivered": False}]}}
    ]


CLUSTERS = st.sampled_from(["a", "b", "c", "d"])


@given(st.lists(st.tuples(CLUSTERS, st.integers(1, 4)), min_size=1, max_size=8))
def test_a_binding_goes_as_far_as_messages_would_come(links: list[tuple[str, int]]) -> None:
    """Along a path of links, each with its max-hops: a message that comes back over all of them is stopped by none."""
    arguments: dict[str, Any] | None = {"a": 1}
    here = "origin"
    for at, (there, max_hops) in enumerate(links):
        assert arguments is not None
        copied = copied_arguments(arguments, {"cluster-name": here, "vhost": "/"}, max_hops, (there, "/"))
        been = ["origin", *(name for name, _ in links[:at])]
        reaches = all(most > at - place for place, (_, most) in enumerate(links[: at + 1]))
        assert (copied is not None) == (reaches and there not in been[:at])  # two clusters may have the same name
        if copied is None:
            return
        assert copied["a"] == 1
        assert [one["cluster-name"] for one in copied["x-bound-from"]] == been[::-1]
        arguments, here = copied, there


def test_what_a_client_has_written_there_goes_no_further() -> None:
    for odd in ("text", [], [1], [{"hops": "many"}], [{"hops": True}]):
        assert copied_arguments({"x-bound-from": odd}, {}, 5, ("up", "/")) is None
