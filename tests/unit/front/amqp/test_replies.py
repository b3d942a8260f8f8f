"""From errors to reply codes."""

from __future__ import annotations

import pytest

from broker import errors
from broker.reply_codes import reply_text
from front.amqp.replies import ProtocolError, reply_to


@pytest.mark.parametrize(
    ("error", "code", "hard", "name"),
    [
        (errors.AccessRefused, 403, False, "ACCESS_REFUSED"),
        (errors.NotFound, 404, False, "NOT_FOUND"),
        (errors.ResourceLocked, 405, False, "RESOURCE_LOCKED"),
        (errors.PreconditionFailed, 406, False, "PRECONDITION_FAILED"),
        (errors.ConnectionForced, 320, True, "CONNECTION_FORCED"),
        (errors.CommandInvalid, 503, True, "COMMAND_INVALID"),
        (errors.ResourceExhausted, 506, True, "RESOURCE_ERROR"),
        (errors.NotAllowed, 530, True, "NOT_ALLOWED"),
        (errors.NotSupported, 540, True, "NOT_IMPLEMENTED"),
        (errors.InternalError, 541, True, "INTERNAL_ERROR"),
    ],
)
def test_every_error_has_its_code(error: type[errors.BrokerError], code: int, hard: bool, name: str) -> None:
    reply = reply_to(error("why"), 50, 10)
    assert reply == (code, f"{name} - why", hard, 50, 10)


def test_every_kind_of_broker_error_is_in_the_table() -> None:
    kinds = [kind for kind in errors.BrokerError.__subclasses__() if kind.__module__ == errors.__name__]
    assert kinds, "broker/errors.py defines the kinds"
    for kind in kinds:
        reply_to(kind("x"))


def test_a_more_special_error_has_the_code_of_its_kind() -> None:
    class NoSuchThing(errors.NotFound):
        pass

    assert reply_to(NoSuchThing("x")).code == 404


def test_protocol_errors_end_the_connection() -> None:
    assert reply_to(ProtocolError(501, "bad frame")) == (501, "FRAME_ERROR - bad frame", True, 0, 0)
    assert reply_to(ProtocolError(501, "FRAME_ERROR - bad frame")).text == "FRAME_ERROR - bad frame"
    assert reply_text(541, "") == "INTERNAL_ERROR"


@pytest.mark.parametrize("letter", ["x", "é", "€", "🐇"])
def test_long_texts_are_cut_between_characters(letter: str) -> None:
    text = reply_text(404, letter * 300)
    assert len(text.encode()) <= 255
    assert len(text.encode()) > 248
    assert text.endswith(letter + "...")
