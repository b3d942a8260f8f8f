"""links/shovel/rewriting.py."""

from __future__ import annotations

from links.amqp.opening import FRAME_MAX
from links.shovel.rewriting import FORWARDS_MAX, Rewriting
from native.content import encode, messages
from wire.amqp.tables import decode_properties, encode_properties, join_properties


def rewritten(rewriting: Rewriting, **properties: object) -> dict[str, object]:
    content = rewriting.rewritten(encode(encode_properties(properties), b"body"), 1, 77)
    ((props, body),) = messages(content, 0, 1)
    assert body == b"body"
    return decode_properties(props)


def test_nothing_to_set_changes_nothing() -> None:
    assert not Rewriting({}, None, timestamp=False).changes_something


def test_one_thing_to_set_changes_something() -> None:
    assert Rewriting({"content_type": "b"}, None, timestamp=False).changes_something
    assert Rewriting({}, {"shovel-name": "s"}, timestamp=False).changes_something
    assert Rewriting({}, None, timestamp=True).changes_something


def test_when_it_was_moved_is_said_without_who_did() -> None:
    headers = rewritten(Rewriting({}, None, timestamp=True), headers={"own": 1})["headers"]
    assert headers == {"own": 1, "x-shovelled-timestamp": 77}


def test_properties_are_set_over_those_of_the_message() -> None:
    rewriting = Rewriting({"content_type": "b", "delivery_mode": 2}, None, timestamp=False)
    assert rewritten(rewriting, content_type="a", message_id="m") == {
        "content_type": "b", "delivery_mode": 2, "message_id": "m",
    }  # fmt: skip


def test_the_newest_shovel_comes_first_and_other_headers_stay() -> None:
    rewriting = Rewriting({}, {"shovel-name": "new"}, timestamp=True)
    headers = rewritten(rewriting, headers={"own": 1, "x-shovelled": [{"shovel-name": "old"}]})["headers"]
    assert headers == {
        "own": 1,
        "x-shovelled": [{"shovel-name": "new"}, {"shovel-name": "old"}],
        "x-shovelled-timestamp": 77,
    }


def test_a_header_of_that_name_that_is_no_list_is_replaced() -> None:
    headers = rewritten(Rewriting({}, {"shovel-name": "s"}, timestamp=False), headers={"x-shovelled": 5})["headers"]
    assert headers == {"x-shovelled": [{"shovel-name": "s"}]}


def test_a_message_that_goes_in_circles_does_not_grow_without_end() -> None:
    circles = [{"shovel-name": str(number)} for number in range(FORWARDS_MAX)]
    headers = rewritten(Rewriting({}, {"shovel-name": "s"}, timestamp=False), headers={"x-shovelled": circles})[
        "headers"
    ]
    assert isinstance(headers, dict)
    assert len(headers["x-shovelled"]) == FORWARDS_MAX


def test_headers_that_nobody_can_read_go_on_as_they_came() -> None:
    """They stopped the shovel at each try, and all that waited behind them."""
    unreadable = b"\x01aZ\0"
    props = join_properties({"headers": len(unreadable).to_bytes(4, "big") + unreadable})
    content = encode(props, b"body")
    assert Rewriting({}, {"shovel-name": "s"}, timestamp=True).rewritten(content, 1, 77) == content


def test_what_has_no_room_for_more_headers_goes_on_as_it_came() -> None:
    content = encode(encode_properties({"headers": {"own": "x" * (FRAME_MAX - 100)}}), b"body")
    assert Rewriting({}, {"shovel-name": "s" * 100}, timestamp=True).rewritten(content, 1, 77) == content
