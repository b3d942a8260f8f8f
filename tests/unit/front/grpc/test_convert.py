"""What goes in comes out, as far as each side can say it; and every error has its status."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker import errors
from broker.catalog.arguments import TEN_YEARS_MS
from broker.messages.message import LOOK_CC, LOOK_HEADERS, LOOK_REPLY_TO
from front.grpc import convert
from leveret.v1 import message_pb2 as pb
from native import content
from wire.amqp.tables import Timestamp, decode_properties, encode_properties

LEAVES: st.SearchStrategy[Any] = (
    st.none()
    | st.booleans()
    | st.integers(min_value=-(2**63), max_value=2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(alphabet=st.characters(exclude_categories=["Cs"]))
    | st.binary()
    | st.integers(min_value=0, max_value=2**63 - 1).map(Timestamp)
    | st.decimals(min_value=-(2**20), max_value=2**20, places=3)
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(alphabet=st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(VALUES)
def test_a_value_survives_protobuf_with_its_type(value: Any) -> None:
    returned = convert.plain_value(pb.Value.FromString(convert.value(value).SerializeToString()))
    assert returned == value
    assert type(returned) is type(value)


def test_text_that_is_no_utf8_is_told_and_not_refused() -> None:
    raw = b"caf\xe9".decode("utf-8", "surrogateescape")
    assert convert.table({raw: raw}).entries["Not UTF-8, base64 is: Y2Fm6Q=="].text == "caf\ufffd"


@pytest.mark.parametrize("scale", [256, 4_000_000_000])
def test_a_decimal_that_amqp_has_no_place_for_is_refused_with_its_scale(scale: int) -> None:
    with pytest.raises(errors.InvalidRequest, match=f"up to 255 places, not {scale}"):
        convert.plain_value(pb.Value(decimal=pb.Decimal(scale=scale, unscaled=1)))


def test_decimals_keep_their_places() -> None:
    assert str(convert.plain_value(convert.value(Decimal("1.50")))) == "1.50"


FULL = pb.Properties(
    content_type="text/plain",
    content_encoding="gzip",
    headers=convert.table({"n": 1, "nested": {"list": [True, None]}}),
    delivery_mode=pb.DELIVERY_MODE_PERSISTENT,
    priority=7,
    correlation_id="c",
    reply_to="r",
    expiration_ms=60_000,
    message_id="m",
    timestamp_s=1_700_000_000,
    type="t",
    user_id="guest",
    app_id="a",
    cluster_id="x",
)


def test_all_properties_survive_their_amqp_form() -> None:
    shape = convert.shape_of(FULL)
    assert convert.properties(shape.props) == FULL
    assert decode_properties(shape.props)["expiration"] == "60000"
    assert (shape.persistent, shape.priority, shape.expiration_ms, shape.user_id) == (True, 7, 60_000, "guest")


def test_a_message_is_persistent_unless_it_says_otherwise() -> None:
    assert convert.shape_of(pb.Properties()).persistent
    assert not convert.shape_of(pb.Properties(delivery_mode=pb.DELIVERY_MODE_TRANSIENT)).persistent
    assert decode_properties(convert.DEFAULT_SHAPE.props) == {"delivery_mode": 2}


def test_an_amqp_message_without_delivery_mode_comes_out_transient() -> None:
    assert convert.properties(b"\0\0").delivery_mode == pb.DELIVERY_MODE_TRANSIENT


@pytest.mark.parametrize(
    ("properties", "look"),
    [
        (pb.Properties(), 0),
        (pb.Properties(headers=convert.table({"a": 1})), LOOK_HEADERS),
        (pb.Properties(headers=convert.table({"CC": ["x"]})), LOOK_HEADERS | LOOK_CC),
        (pb.Properties(headers=convert.table({"BCC": ["x"]})), LOOK_HEADERS | LOOK_CC),
        (pb.Properties(reply_to="amq.rabbitmq.reply-to"), LOOK_REPLY_TO),
    ],
)
def test_what_needs_a_look_of_its_own_is_seen(properties: pb.Properties, look: int) -> None:
    assert convert.shape_of(properties).look == look


def test_messages_with_copies_or_a_direct_reply_travel_alone() -> None:
    copied = convert.shape_of(pb.Properties(headers=convert.table({"CC": ["x"]})))
    assert not copied.travels_with(copied)
    assert convert.DEFAULT_SHAPE.travels_with(convert.shape_of(pb.Properties(message_id="1")))
    assert not convert.DEFAULT_SHAPE.travels_with(convert.shape_of(pb.Properties(priority=1)))


def test_a_priority_beyond_a_byte_is_refused() -> None:
    with pytest.raises(errors.PreconditionFailed, match="priority is between 0 and 255, not 256"):
        convert.shape_of(pb.Properties(priority=256))


def test_a_message_lives_ten_years_at_most() -> None:
    assert convert.shape_of(pb.Properties(expiration_ms=TEN_YEARS_MS)).expiration_ms == TEN_YEARS_MS
    with pytest.raises(errors.InvalidRequest, match="at most 315360000000"):
        convert.shape_of(pb.Properties(expiration_ms=TEN_YEARS_MS + 1))


def test_headers_that_nobody_can_read_are_left_out_and_the_rest_delivered() -> None:
    whole = encode_properties({"headers": {"a": "b"}, "message_id": "m"})
    broken = whole.replace(b"S\0\0\0\1b", b"?\0\0\0\1b")
    assert convert.properties(broken) == pb.Properties(delivery_mode=pb.DELIVERY_MODE_TRANSIENT, message_id="m")


def test_messages_of_a_content_come_from_a_position_on() -> None:
    one = content.encode(convert.DEFAULT_SHAPE.props, b"one")
    whole = one + content.encode(b"\0\0", b"two") + content.encode(b"\0\0", b"three")
    assert [message.body for message in convert.messages(whole, len(one), 2)] == [b"two", b"three"]


def all_errors(kind: type[errors.BrokerError] = errors.BrokerError) -> list[type[errors.BrokerError]]:
    return [kind] + [below for direct in kind.__subclasses__() for below in all_errors(direct)]


@pytest.mark.parametrize("kind", [kind for kind in all_errors() if kind.__module__ == "broker.errors"][1:])
def test_every_error_of_the_broker_has_a_status_and_a_name(kind: type[errors.BrokerError]) -> None:
    code, text, trailers = convert.status_of(kind("what and why"))
    assert code is not grpc.StatusCode.OK
    assert text == "what and why"
    assert trailers == (("leveret-error", kind.__name__),)


def test_an_error_that_is_new_counts_as_its_ancestor() -> None:
    class QueueIsShy(errors.ResourceLocked):
        pass

    code, _, trailers = convert.status_of(QueueIsShy("no"))
    assert (code, trailers) == (grpc.StatusCode.FAILED_PRECONDITION, (("leveret-error", "ResourceLocked"),))


@pytest.mark.parametrize("named", ["x" * 20_000, "\u20ac" * 20_000, "\udcff" * 20_000])
def test_an_error_fits_into_trailers_whatever_it_names(named: str) -> None:
    _, text, trailers = convert.status_of(errors.PreconditionFailed(f"'{named}' is no name"))
    assert len(text.encode()) <= errors.TEXT_BYTES_MAX
    assert text.startswith("'")
    assert text.endswith(" bytes)")
    assert trailers == (("leveret-error", "PreconditionFailed"),)


def test_a_text_that_fits_is_whole() -> None:
    text = "x" * errors.TEXT_BYTES_MAX
    assert errors.NotFound(text).text == text
