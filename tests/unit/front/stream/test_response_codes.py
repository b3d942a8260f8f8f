"""front/stream/response_codes.py: every error of the broker has a code, and every request an answer that carries it."""

from __future__ import annotations

import pytest

from broker import errors
from broker.errors import BrokerError
from front.stream.response_codes import RequestRefused, code_of, refusal_of
from front.stream.stream_requests import REQUESTS
from wire.stream.command_frames import decode_frame, encode_frame
from wire.stream.command_keys import RESPONSE_BIT, ResponseCode
from wire.stream.stream_commands import ALL_LAYOUTS, CommandLayout, MetadataRequest

KINDS = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, BrokerError)]
ANSWERED = [
    one
    for one in ALL_LAYOUTS
    if one.command in REQUESTS and one.command is not MetadataRequest and not one.key & RESPONSE_BIT
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_error_has_a_code(kind: type[BrokerError]) -> None:
    code = code_of(kind("why"))
    assert (code is ResponseCode.INTERNAL_ERROR) == (kind in (BrokerError, errors.InternalError, errors.CommandInvalid))


def test_what_the_protocol_refuses_has_the_code_that_it_was_given() -> None:
    assert code_of(RequestRefused(ResponseCode.NO_OFFSET, "none")) is ResponseCode.NO_OFFSET


@pytest.mark.parametrize("layout", ANSWERED, ids=lambda layout: layout.command.__name__)
def test_a_refusal_is_a_whole_answer_with_the_id_of_its_request(layout: CommandLayout) -> None:
    request = layout.command(77, *[None] * (len(layout.command._fields) - 1))
    refusal = refusal_of(request, ResponseCode.ACCESS_REFUSED)
    assert (refusal.correlation, refusal.code) == (77, 16)  # type: ignore[union-attr]
    frame = encode_frame(refusal)
    assert decode_frame(frame[4:]) == refusal
    assert frame[4:6] == (layout.key | RESPONSE_BIT).to_bytes(2, "big")
